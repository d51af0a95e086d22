"""SAM in every framework's loop gives the weights of SAM written out.

20 steps with momentum, weight decay, BatchNorm and clipping; what cannot be right
raises and says what to do instead.
"""

import ast
import copy
import json
import runpy
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch

import sam_loops
from processes import LAUNCHER, environment_here
from sam_loops import CLIP, TEPUI, make_net, written_out

# The frameworks' own advice: loaders without workers, logging, what they retire.
pytestmark = pytest.mark.filterwarnings("ignore")

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples" / "sam").glob("*.py"))
BF16 = {"precision": "bf16-mixed"}
LOOPS = {
    "a loop of one's own": (None, sam_loops.plain_loop),
    "compiled": (None, sam_loops.compiled),
    "gradient scaler": (None, sam_loops.gradient_scaler),
    "gradient scaler as usual": (None, sam_loops.gradient_scaler_as_usual),
    "Lightning": ("lightning", sam_loops.lightning_automatic),
    "Lightning, manual": ("lightning", sam_loops.lightning_manual),
    "Fabric": ("lightning", sam_loops.fabric),
    "Accelerate": ("accelerate", sam_loops.accelerate),
    "Accelerate, scaler": ("accelerate", sam_loops.accelerate_scaled),
    "Trainer": ("transformers", sam_loops.trainer_with_both_passes),
}
IN_PARTS = {
    "a loop of one's own": (None, sam_loops.plain_loop),
    "Lightning, manual": ("lightning", sam_loops.lightning_manual),
    "Fabric": ("lightning", sam_loops.fabric),
    "Accelerate": ("accelerate", sam_loops.accelerate),
}
MIXED = {
    "a loop of one's own": (None, sam_loops.plain_loop_in_bf16),
    "Lightning": ("lightning", partial(sam_loops.lightning_automatic, **BF16)),
    "Lightning, manual": ("lightning", partial(sam_loops.lightning_manual, **BF16)),
    "Lightning, manual, scaler": ("lightning", sam_loops.lightning_scaled),
    "Fabric": ("lightning", partial(sam_loops.fabric, **BF16)),
    "Accelerate": ("accelerate", partial(sam_loops.accelerate, mixed_precision="bf16")),
    "Trainer": ("transformers", partial(sam_loops.trainer_with_both_passes, bf16=True)),
}


def loop_of(table, name):
    needed, loop = table[name]
    if needed is not None:
        pytest.importorskip(needed)
    return loop


def assert_same_state(net, expected, **tolerance):
    torch.testing.assert_close(net.state_dict(), expected.state_dict(), **tolerance)


def distance(one, other):
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return max((a - b).abs().max().item() for a, b in pairs)


def test_the_job_tells_sam_from_sgd_and_clips_every_step():
    net, plain = make_net(), make_net()
    norms = written_out(net)
    written_out(plain, rho=0.0)
    assert min(norms) > CLIP
    assert distance(net, plain) > 1e-2


@pytest.mark.parametrize("name", LOOPS)
def test_weights_and_statistics_are_those_of_the_update_written_out(name):
    net, expected = make_net(), make_net()
    written_out(expected)
    loop_of(LOOPS, name)(net, TEPUI)
    assert_same_state(net, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", IN_PARTS)
def test_a_batch_in_parts_is_the_update_written_out_in_parts(name):
    net, expected = make_net(), make_net()
    written_out(expected, parts=3)
    loop_of(IN_PARTS, name)(net, TEPUI, parts=3)
    assert_same_state(net, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", MIXED)
def test_mixed_precision_is_that_of_the_update_written_out(name):
    net, expected = make_net(torch.float32), make_net(torch.float32)
    written_out(expected, bf16=True)
    loop_of(MIXED, name)(net, TEPUI)
    assert_same_state(net, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_two_processes_give_the_weights_of_a_batch_in_two_parts(kind):
    net, expected = make_net(), make_net()
    written_out(expected, parts=2)
    sam_loops.two_processes(net, TEPUI, kind)
    assert distance(net, expected) < 1e-11


def test_lightning_refuses_batches_accumulated_outside_the_closure():
    pytest.importorskip("lightning")
    net = make_net()
    before = copy.deepcopy(net).requires_grad_(False)
    with pytest.raises(RuntimeError, match="accumulate_grad_batches at 1"):
        sam_loops.lightning_automatic(net, TEPUI, accumulate_grad_batches=2)
    assert distance(net, before) == 0


def test_lightning_refuses_a_manual_step_without_a_closure():
    pytest.importorskip("lightning")
    net = make_net()

    def training_step(self, batch, _):
        self.optimizers().zero_grad()
        self.manual_backward(sam_loops.loss_of(net, *batch))
        self.optimizers().step()

    module = sam_loops.lightning_module(net, TEPUI.built, training_step, False)
    with pytest.raises(RuntimeError, match=r"manual optimization step\(closure=...\)"):
        sam_loops.lightning_fit(net, module)
    assert distance(net, make_net()) == 0


def test_lightning_refuses_a_gradient_scaler_with_automatic_optimization():
    pytest.importorskip("lightning")
    from lightning.pytorch.plugins import MixedPrecision

    plugin = MixedPrecision("bf16-mixed", "cpu", None)
    plugin.scaler = torch.amp.GradScaler("cpu")
    with pytest.raises(
        ValueError, match=r"gradient scaler .* call backward\(closure\)"
    ):
        sam_loops.lightning_automatic(make_net(torch.float32), TEPUI, plugins=[plugin])


def test_accelerate_refuses_accumulation_that_would_leave_out_closures():
    pytest.importorskip("accelerate")
    net = make_net()
    try:
        with pytest.raises(RuntimeError, match="in one closure"):
            sam_loops.accelerate(net, TEPUI, gradient_accumulation_steps=2)
    finally:
        sam_loops.accelerated()


def test_accelerate_refuses_a_step_without_a_closure():
    pytest.importorskip("accelerate")
    net = make_net()
    accelerator = sam_loops.accelerated()
    model, optimizer = accelerator.prepare(net, TEPUI.built(net))
    accelerator.backward(sam_loops.loss_of(model, *next(sam_loops.batches_of(net))))
    with pytest.raises(ValueError, match="closure must be given"):
        optimizer.step()


def test_trainer_refuses_sam_without_a_second_pass():
    pytest.importorskip("transformers")
    with pytest.raises(ValueError, match=r"call backward\(closure\) before it"):
        sam_loops.trainer_as_it_is(make_net(), TEPUI)


def test_trainer_refuses_accumulation():
    pytest.importorskip("transformers")
    with pytest.raises(RuntimeError, match="gradient_accumulation_steps at 1"):
        sam_loops.trainer_with_both_passes(
            make_net(), TEPUI, gradient_accumulation_steps=2
        )


def test_a_scaler_that_leaves_out_a_step_stops_nobody():
    net = make_net()
    optimizer, scaler = TEPUI.built(net), torch.amp.GradScaler("cpu", init_scale=1.0)
    x, y = next(sam_loops.batches_of(net))

    def closure(factor=1.0):
        optimizer.zero_grad()
        loss = sam_loops.loss_of(net, x, y) * factor
        scaler.scale(loss).backward()
        return loss

    optimizer.backward(partial(closure, torch.inf))
    scaler.step(optimizer)
    scaler.update()
    assert distance(net, make_net()) == 0
    optimizer.backward(closure)
    assert distance(net, make_net()) == 0
    scaler.step(optimizer)
    assert distance(net, make_net()) > 0


def test_a_gradient_that_waits_is_not_thrown_away():
    net = make_net()
    optimizer = TEPUI.built(net)
    x, y = next(sam_loops.batches_of(net))
    closure = sam_loops.closure_of(TEPUI, net, optimizer, x, y)
    optimizer.backward(closure)
    with pytest.raises(RuntimeError, match="backward was called twice"):
        optimizer.backward(closure)
    optimizer.zero_grad()
    optimizer.backward(closure)
    by_hand = make_net()
    other = TEPUI.built(by_hand)
    other.step(sam_loops.closure_of(TEPUI, by_hand, other, x, y))
    optimizer.step()
    torch.testing.assert_close(list(net.parameters()), list(by_hand.parameters()))
    with pytest.raises(ValueError, match="closure must be given"):
        optimizer.step()


def packages_of(file):
    """Return the packages that an example imports at its top."""
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.ImportFrom):
            yield node.module.split(".")[0]
        elif isinstance(node, ast.Import):
            yield from (name.name.split(".")[0] for name in node.names)


@pytest.mark.slow
@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_runs_and_learns(file, tmp_path):
    for package in packages_of(file):
        pytest.importorskip(package)
    alone = [sys.executable]
    command = (
        [*LAUNCHER, "--nproc-per-node=2"] if "torchrun" in file.read_text() else alone
    )
    ended = subprocess.run(
        [*command, str(file)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment_here(),
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    words = "accuracy on the training data "
    (line,) = [line for line in ended.stdout.splitlines() if line.startswith(words)]
    assert float(line.removeprefix(words)) > 0.85


@pytest.mark.parametrize(
    ("script", "page"), [("other_sams", "sam_everywhere"), ("peers", "peers")]
)
def test_the_page_shows_what_was_measured(script, page, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    record = json.loads((ROOT / f"benchmarks/measured/{script}.json").read_text())
    shown = runpy.run_path(str(ROOT / "benchmarks" / f"{script}.py"))["table"](record)
    text = (ROOT / "docs" / f"{page}.md").read_text()
    assert shown in text
    assert record["date"] in text
