"""The CUDA path: captured graphs do what the eager runner does."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn

import tepui
from tepui.data import (
    Arrays,
    AugMix,
    CutMix,
    HorizontalFlip,
    Mixup,
    Normalize,
    RandomCrop,
    TrivialAugment,
)
from tepui.losses import CrossEntropy
from tepui.methods import GSAM, SAM, SED, DeepEnsemble, SharpBalance, SnapshotEnsemble
from tepui.models import ResNet18
from tepui.modules.pruning import sparsity_of
from training.cases import (
    ON_GPU,
    Lookahead,
    Plain,
    StoppedError,
    needs_gpu,
    state,
    stop_after,
)

pytestmark = needs_gpu

METHODS = [
    DeepEnsemble(),
    SAM(rho=0.1),
    SAM(rho=0.1, start_at=1),
    SAM(rho=0.5, adaptive=True),
    GSAM(rho=0.1, rho_min=0.05),
    Lookahead(),
    SharpBalance(rho=0.1, switch_at=1),
    SharpBalance(rho=0.1, switch_at=1, before="sam"),
    SharpBalance.paper(rho=0.1, switch_at=1),
    SnapshotEnsemble(),
    SnapshotEnsemble(base=SAM(rho=0.1)),
]
SHARED_SETS = SharpBalance(rho=0.1, switch_at=1, select="same")
OPTIMIZERS = [tepui.SGD(lr=0.05), tepui.AdamW(lr=1e-3)]


def images(samples=200, size=16):
    stream = torch.Generator().manual_seed(0)
    pixels = torch.randint(
        256, (samples, 3, size, size), dtype=torch.uint8, generator=stream
    )
    labels = torch.randint(10, (samples,), generator=stream)
    return Arrays(pixels, labels, Normalize((0.5,) * 3, (0.25,) * 3))


def trained(method, optimizer=OPTIMIZERS[0], factory=None, data=None, **how):
    factory = factory or (lambda: ResNet18(width=8))
    ensemble = tepui.Ensemble.build(factory, members=2, seed=3)
    settings = {**ON_GPU, "augment": (RandomCrop(2), HorizontalFlip()), **how}
    data = images() if data is None else data
    return tepui.fit(ensemble, data, method=method, optimizer=optimizer, **settings)


def assert_close(first, second, tolerance=1e-4):
    for name, tensor in first.items():
        torch.testing.assert_close(
            tensor, second[name], rtol=tolerance, atol=tolerance, msg=name
        )


@pytest.mark.parametrize("method", METHODS, ids=repr)
@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=repr)
def test_graph_equals_eager(method, optimizer):
    graph = trained(method, optimizer, runner="graph")
    eager = trained(method, optimizer, runner="eager")
    assert_close(state(graph), state(eager))
    for one, other in zip(graph.history, eager.history, strict=True):
        assert one.loss == pytest.approx(other.loss, rel=1e-4)


@pytest.mark.parametrize("method", [DeepEnsemble(), METHODS[8]], ids=repr)
def test_averaged_weights_are_those_of_an_eager_run(method):
    graph = trained(method, runner="graph", average=0.7)
    assert_close(state(graph), state(trained(method, runner="eager", average=0.7)))
    assert not torch.equal(
        next(iter(state(graph).values())),
        next(iter(state(trained(method, runner="graph")).values())),
    )


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=repr)
@pytest.mark.parametrize("how", [{}, {"ema": 0.9}])
def test_members_that_part_are_those_of_an_eager_run(optimizer, how):
    graph, eager = (
        trained(SAM(rho=0.1), optimizer, runner=r, epochs=3, part_at=1, **how)
        for r in ("graph", "eager")
    )
    assert_close(state(graph), state(eager))
    for one, other in zip(graph.history, eager.history, strict=True):
        assert one.loss == pytest.approx(other.loss, rel=1e-4)


@pytest.mark.parametrize(
    "how",
    [
        {"method": SnapshotEnsemble()},
        {"method": DeepEnsemble(), "part_at": 1},
        {"method": DeepEnsemble(), "ema": 0.9},
    ],
)
def test_cheap_members_resume_to_the_same_bits(tmp_path, how):
    how = {"epochs": 4, "runner": "graph", **how}
    whole = trained(**how)
    parts = {"out": tmp_path, "resume": True, **how}
    for epochs in (1, 2, 3, 4):
        part = trained(stop_after=epochs, **parts)
    for name, tensor in state(whole).items():
        assert torch.equal(tensor, state(part)[name]), name


@pytest.mark.filterwarnings("ignore:SharpBalance needs other members")
@pytest.mark.parametrize(("before", "start_at"), [("plain", 1), ("sam", 0)])
def test_a_single_member_of_sharpbalance_is_captured(before, start_at):
    """It trains with SAM from the switch on, and until then as it is told."""
    ensembles = [
        tepui.Ensemble.build(lambda: ResNet18(width=8), members=1, seed=3)
        for _ in range(2)
    ]
    how = {**ON_GPU, "runner": "graph"}
    balance = SharpBalance(rho=0.1, switch_at=1, before=before)
    for ensemble, method in zip(
        ensembles, (balance, SAM(rho=0.1, start_at=start_at)), strict=True
    ):
        tepui.fit(ensemble, images(), method=method, **how)
    balanced, sam = (ensemble.cpu().state_dict() for ensemble in ensembles)
    assert_close(balanced, sam)


MIXED = {
    "Mixup": {"augment": (HorizontalFlip(), Mixup())},
    "CutMix": {"augment": (RandomCrop(2), CutMix())},
    "by member": {"augment": [[TrivialAugment(), Mixup()], [RandomCrop(2)]]},
    "weighted": {"augment": [CutMix()], "sample_weights": torch.arange(200) % 3},
    "consistent": {
        "augment": (RandomCrop(2), AugMix()),
        "loss": CrossEntropy(consistency=12),
    },
}


@pytest.mark.parametrize("how", MIXED.values(), ids=MIXED)
@pytest.mark.parametrize("method", [SAM(rho=0.1), SHARED_SETS], ids=repr)
@pytest.mark.parametrize("loaded", [False, True])
def test_graphs_mix_and_compare_as_eager_steps_do(how, method, loaded):
    data = replace(images(), normalize=None)
    data = Plain(data) if loaded else data
    graph, eager, again = (
        state(trained(method, data=data, runner=runner, **how))
        for runner in ("graph", "eager", "graph")
    )
    assert_close(graph, eager)
    for name, tensor in graph.items():
        assert torch.equal(tensor, again[name]), name


def test_a_member_alone_equals_the_member_among_others():
    together = trained(SAM(rho=0.1), runner="graph")
    seed = together.ensemble.seeds[1]
    alone = tepui.Ensemble.build(lambda: ResNet18(width=8), seed=[seed])
    tepui.fit(
        alone,
        images(),
        method=SAM(rho=0.1),
        optimizer=OPTIMIZERS[0],
        augment=(RandomCrop(2), HorizontalFlip()),
        runner="graph",
        **ON_GPU,
    )
    for name, tensor in alone.members[0].state_dict().items():
        assert torch.equal(tensor, together.ensemble.members[1].state_dict()[name])


@pytest.mark.parametrize("method", [SAM(rho=0.1), METHODS[-1]], ids=repr)
@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=repr)
def test_resumed_graph_equals_uninterrupted(tmp_path, optimizer, method):
    how = {"epochs": 3, "runner": "graph"}
    whole = trained(method, optimizer, **how)
    with pytest.raises(StoppedError):
        trained(method, optimizer, out=tmp_path, callbacks=[stop_after(1)], **how)
    resumed = trained(method, optimizer, out=tmp_path, resume=True, **how)
    for name, tensor in state(whole).items():
        assert torch.equal(tensor, state(resumed)[name]), name


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own
def test_compiled_bfloat16_learns_like_float32():
    how = {"epochs": 4, "runner": "graph", "deterministic": False, "augment": ()}
    plain = trained(SAM(rho=0.05), **how)
    fast = trained(SAM(rho=0.05), precision="bfloat16", compile=True, **how)
    assert fast.history[-1].loss == pytest.approx(plain.history[-1].loss, rel=0.1)


def test_a_plain_torch_optimizer_runs_eagerly():
    def rmsprop(parameters):
        return torch.optim.RMSprop(parameters, lr=1e-3)

    run = trained(DeepEnsemble(), rmsprop)
    assert len(run.history) == 2
    with pytest.raises(ValueError, match='runner must be "auto" or "eager", since'):
        trained(DeepEnsemble(), rmsprop, runner="graph")


def test_dict_inputs_are_captured():
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, left, right):
            return self.layer(left - right)

    stream = torch.Generator().manual_seed(0)
    x = {k: torch.randn(64, 4, generator=stream) for k in ("left", "right")}
    data = Arrays(x, torch.randint(3, (64,), generator=stream))
    results = []
    for runner in ("graph", "eager"):
        ensemble = tepui.Ensemble.build(Named, members=2)
        tepui.fit(
            ensemble,
            data,
            method=SAM(),
            epochs=2,
            batch_size=16,
            runner=runner,
            precision="float32",
            device="cuda",
            progress="none",
        )
        results.append(copy.deepcopy(ensemble.cpu().state_dict()))
    assert_close(*results, 1e-5)


@pytest.mark.parametrize("method", [SAM(rho=0.1), SharpBalance(rho=0.1, switch_at=1)])
def test_pruned_weights_stay_zero_in_a_captured_graph(method):
    pruned = tepui.Prune(sparsity=0.6, prune_at=0.5)
    graph = trained(method, runner="graph", prune=pruned)
    assert_close(state(trained(method, runner="eager", prune=pruned)), state(graph))
    for member in graph.ensemble.members:
        assert sparsity_of(member) == pytest.approx(0.6, abs=1e-3)


@pytest.mark.parametrize("method", [SharpBalance(rho=0.1, switch_at=2), SED(active=2)])
def test_capturing_is_no_part_of_the_steps(method):
    run = trained(method, epochs=4, runner="graph")
    spent, steps = run.timeline, [r.seconds for r in run.history]
    assert sum(steps) == pytest.approx(spent["stepping"])
    assert spent["capturing"] > 0
