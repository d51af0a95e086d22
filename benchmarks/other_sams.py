"""What other people's SAMs do in the tests of tepui's: every cell is measured.

Each SAM trains the job of ``tests/sam_loops.py`` (20 steps, SGD with momentum and
weight decay, BatchNorm, clipping) in each framework's loop, in the way its own
documentation says to make a step, and its weights are compared with those of the update
written out. Where a loop cannot be right, the right thing is to raise.

Usage: PYTHONPATH=src python benchmarks/other_sams.py [--json FILE] [--only ROW ...]
"""

import argparse
import datetime
import json
import platform
import sys
import warnings
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(Path(__file__).parent)]
import sam_loops  # noqa: E402
from sam_loops import (  # noqa: E402
    RHO,
    SETTINGS,
    TEPUI,
    Contender,
    make_net,
    written_out,
)

PAPER = "one norm for all weights, as in the paper"
NEAR = 1e-7  # weights farther apart than this are others


def of_pytorch_optimizer(net):
    from pytorch_optimizer import SAM

    return SAM(net.parameters(), torch.optim.SGD, rho=RHO, **SETTINGS)


def of_sam_pytorch(net):
    from sam import SAM

    base = torch.optim.SGD(net.parameters(), **SETTINGS)
    return SAM(net.parameters(), base, rho=RHO)


def of_torchzero(net):
    import torchzero as tz

    return tz.Optimizer(
        net.parameters(),
        tz.m.SAM(RHO),
        tz.m.WeightDecay(SETTINGS["weight_decay"]),
        tz.m.HeavyBall(SETTINGS["momentum"], ema_init="zeros"),
        tz.m.LR(SETTINGS["lr"]),
    )


def after_a_closure(optimizer, closure):
    closure()
    optimizer.step(closure)


def with_closure(optimizer, closure):
    optimizer.step(closure)


def with_flagged_closure(optimizer, closure):
    def flagged(backward=True):
        assert backward
        return closure()

    optimizer.step(flagged)


PYTORCH_OPTIMIZER = Contender(of_pytorch_optimizer, after_a_closure)
SAM_PYTORCH = Contender(of_sam_pytorch, with_closure)
TORCHZERO = Contender(of_torchzero, with_flagged_closure, own_norms=True)
CONTENDERS = {
    "tepui": ("sam_loops", "TEPUI"),
    "pytorch_optimizer": ("other_sams", "PYTORCH_OPTIMIZER"),
    "sam-pytorch": ("other_sams", "SAM_PYTORCH"),
    "torchzero": ("other_sams", "TORCHZERO"),
}
FRAMEWORKS = ["torch", "lightning", "accelerate", "transformers"]


def running_statistics(net, sam):
    """One step, after which the statistics are judged instead of the weights."""
    optimizer = sam.built(net)
    x, y = next(sam_loops.batches_of(net))
    sam.step(optimizer, sam_loops.closure_of(sam, net, optimizer, x, y))
    seen = int(net[1].num_batches_tracked)
    return "of the unperturbed pass" if seen == 1 else f"of {seen} passes"


def resumed(net, sam):
    """Ten steps, then a new optimizer with the old one's state dict."""
    optimizer = sam.built(net)
    for number, (x, y) in enumerate(sam_loops.batches_of(net)):
        if number == sam_loops.STEPS // 2:
            state = optimizer.state_dict()
            optimizer = sam.built(net)
            optimizer.load_state_dict(state)
        sam.step(optimizer, sam_loops.closure_of(sam, net, optimizer, x, y))


def manual_without_closure(net, sam):
    def training_step(self, batch, _):
        self.optimizers().zero_grad()
        self.manual_backward(sam_loops.loss_of(net, *batch))
        self.optimizers().step()

    module = sam_loops.lightning_module(net, sam.built, training_step, False)
    sam_loops.lightning_fit(net, module)


def scaler_without_closure(net, sam):
    optimizer, scaler = sam.built(net), torch.amp.GradScaler("cpu")
    for x, y in sam_loops.batches_of(net):
        optimizer.zero_grad()
        scaler.scale(sam_loops.loss_of(net, x, y)).backward()
        scaler.step(optimizer)
        scaler.update()


def step_left_to_the_loop(net, sam):
    if not hasattr(sam.build(net), "backward"):
        return "no call for it"
    return sam_loops.gradient_scaler_as_usual(net, sam)


IN_TWO = {"parts": 2}
BF16 = {"bf16": True}
# name: (loop, options of the update written out, or None where raising is right)
ROWS = {
    PAPER: (sam_loops.plain_loop, {"own_norms": False}),
    "a loop of one's own": (sam_loops.plain_loop, {}),
    "a batch in two parts": (partial(sam_loops.plain_loop, parts=2), IN_TWO),
    "goes on from its state dict": (resumed, {}),
    "BatchNorm's statistics": (running_statistics, {}),
    "compiled model": (sam_loops.compiled, {}),
    "Lightning": (sam_loops.lightning_automatic, {}),
    "Lightning, bf16-mixed": (
        partial(sam_loops.lightning_automatic, precision="bf16-mixed"),
        BF16,
    ),
    "Lightning, manual": (sam_loops.lightning_manual, {}),
    "Fabric": (sam_loops.fabric, {}),
    "Accelerate": (sam_loops.accelerate, {}),
    "DDP, two processes": ("ddp", IN_TWO),
    "FSDP2, two processes": ("fsdp", IN_TWO),
    "step() left to the loop, as scaler and Trainer do": (step_left_to_the_loop, {}),
    "Lightning, accumulate_grad_batches=2": (
        partial(sam_loops.lightning_automatic, accumulate_grad_batches=2),
        None,
    ),
    "Lightning, manual step without closure": (manual_without_closure, None),
    "Accelerate, gradient_accumulation_steps=2": (
        partial(sam_loops.accelerate, gradient_accumulation_steps=2),
        None,
    ),
    "Hugging Face's Trainer as it is": (sam_loops.trainer_as_it_is, None),
    "scaler.step(optimizer) without closure": (scaler_without_closure, None),
}


def distance(one, other):
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return max((a - b).abs().max().item() for a, b in pairs)


def judged(net, sam, expected):
    """Say how weights compare with those of SAM and of SGD."""
    if expected is None:
        return {"right": False, "found": "trains on, silently"}
    right, plain = make_net(net[0].weight.dtype), make_net(net[0].weight.dtype)
    written_out(right, **{"own_norms": sam.own_norms, **expected})
    written_out(plain, rho=0.0, **expected)
    near = 1e-4 if expected.get("bf16") else NEAR
    if distance(net, right) < near:
        return {"right": True, "found": "the same weights"}
    if distance(net, plain) < near:
        return {"right": False, "found": "plain SGD, silently"}
    apart = distance(net, right) / distance(plain, right)
    text = f"other weights, silently ({apart:.2g} of the way from SAM to SGD)"
    return {"right": False, "found": text}


def cell(row, name):
    """Run one SAM in one loop and say what came of it."""
    loop, expected = ROWS[row]
    module, attribute = CONTENDERS[name]
    sam = TEPUI if name == "tepui" else globals()[attribute]
    net = make_net(torch.float32 if expected == BF16 else torch.float64)
    if isinstance(loop, str):
        loop = partial(
            sam_loops.two_processes,
            kind=loop,
            contenders=module,
            name=attribute,
            beside=Path(__file__).parent,
        )
    try:
        said = loop(net, sam)
    except Exception as error:
        words = " ".join(str(error).split())
        kind = type(error).__name__
        if isinstance(error, AssertionError) and "Error" in words:
            kind, words = "", words.split("Traceback")[-1].split("  File ")[-1]
            words = words[max(words.rfind("Error:") - 40, 0) :]
        right = expected is None
        return {"right": right, "found": f"raises {kind}: {words}"[:300]}
    finally:
        if "Accelerate" in row:
            sam_loops.accelerated()
    if isinstance(said, str):
        return {"right": said == "of the unperturbed pass", "found": said}
    return judged(net, sam, expected)


def versions():
    found = {}
    for package in (*CONTENDERS, *FRAMEWORKS):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def table(record):
    """Return the cells as a table for the documents."""
    names = list(record["cells"])
    titles = [f"{name} {record['versions'][name]}" for name in names]
    lines = [
        f"| | {' | '.join(titles)} |",
        f"|---|{'---|' * len(names)}",
    ]
    for row in ROWS:
        cells = [record["cells"][name][row] for name in names]
        shown = [("✓ " if c["right"] else "✗ ") + short(c["found"]) for c in cells]
        lines.append(f"| {row} | {' | '.join(shown)} |")
    return "\n".join(lines) + "\n"


def short(found):
    return found.split(":")[0] if found.startswith("raises") else found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", nargs="*", default=list(ROWS))
    parser.add_argument("--sams", nargs="*", default=list(CONTENDERS))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    cells = {name: {} for name in arguments.sams}
    for row in arguments.only:
        for name in arguments.sams:
            cells[name][row] = cell(row, name)
            print(f"{row} | {name} | {cells[name][row]}", flush=True)
    record = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": f"{platform.machine()}, CPU",
        "versions": versions(),
        "cells": cells,
    }
    if arguments.json:
        arguments.json.write_text(json.dumps(record, indent=1) + "\n")
    if arguments.only == list(ROWS):
        print(table(record))


if __name__ == "__main__":
    main()
