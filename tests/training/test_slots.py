"""Coupled members in slots end as they do one by one, captured or not."""

from dataclasses import dataclass
from typing import final

import numpy as np
import pytest
import torch
from torch import nn

import tepui
from tepui.data import Arrays, CutMix, HorizontalFlip, Mixup
from tepui.losses import CrossEntropy
from tepui.methods import A2D, GSAM, SAM, SED, ActiveMembers, CoupledMethod, DivDis
from tepui.models import ResNet18
from tepui.modules.pruning import sparsity_of
from tepui.training.coupled import SlotRunner, Stack, have_same_structure
from tepui.training.member import TrainingMember
from tepui.training.numerics import numerics_of
from training.cases import (
    CLASSES,
    ON_GPU,
    Named,
    SignallingLoss,
    StoppedError,
    assert_different,
    assert_same_bits,
    assert_same_runs,
    checkpointed,
    convnet,
    copied,
    fitted,
    images,
    mlp,
    needs_gpu,
    noisy_net,
    numbers,
    pairs,
    state,
    stop_after,
    untimed,
)

METHODS = [
    SED(active=None),
    SED(active=2),
    SED(active=3, kernel="divdis"),
    SED(alpha="all", active=2),
    SED(main="all", active=2),
    A2D(weight=0.5),
    DivDis(weight=0.5, regularizer=0.5),
    SED(base=SAM(rho=0.1), active=2),
    SED(base=SAM(rho=0.1, start_at=1), active=2),
    A2D(weight=0.5, base=GSAM(rho=0.1, rho_min=0.05)),
]
OPTIMIZERS = [
    tepui.SGD(lr=0.05),
    tepui.SGD(lr=0.05, momentum=0.0),
    tepui.AdamW(lr=1e-2),
]


def trained(method, data, *factory, **how):
    if method.needs_unlabeled:
        how["unlabeled"] = data
    return fitted(data, *factory, method=method, **{"members": 4, **how})


def in_slots(monkeypatch, method, data, *factory, **how):
    """Train on the CPU with the runner that a GPU would get, uncaptured."""
    with monkeypatch.context() as patch:
        patch.setattr("tepui.training.prepare.CoupledRunner", SlotRunner)
        return trained(method, data, *factory, **how)


def assert_same_training(first, second):
    """To the bit, but for the sign of zero: momentum starts as zero, not as nothing."""
    first_state, second_state = (
        {name: tensor + 0 for name, tensor in run.ensemble.state_dict().items()}
        for run in (first, second)
    )
    assert_same_bits(first_state, second_state)
    assert untimed(first.history) == untimed(second.history)


@pytest.mark.parametrize(
    ("method", "optimizer"),
    [
        *((method, OPTIMIZERS[0]) for method in METHODS),
        *((SED(active=2), optimizer) for optimizer in OPTIMIZERS[1:]),
    ],
    ids=repr,
)
def test_slots_equal_members_one_by_one(monkeypatch, method, optimizer):
    """To the bit, with BatchNorm's buffers and with dropout."""
    how = {"optimizer": optimizer}
    slots = in_slots(monkeypatch, method, images(), **how)
    assert_same_training(trained(method, images(), **how), slots)


@pytest.mark.parametrize(
    "how",
    [
        {"clip_norm": 0.1},
        {"prune": tepui.Prune(sparsity=0.5, prune_at=0.5)},
        {"schedule": tepui.Cosine(warmup=1)},
        {"validation": 0.25, "keep": "best"},
        {"augment": [HorizontalFlip()]},
    ],
    ids=str,
)
def test_options_of_a_run_work_in_slots(monkeypatch, how):
    slots = in_slots(monkeypatch, SED(active=2), images(), convnet, epochs=4, **how)
    assert_same_training(
        trained(SED(active=2), images(), convnet, epochs=4, **how), slots
    )
    if "prune" in how:
        for member in slots.ensemble.members:
            assert sparsity_of(member) == pytest.approx(0.5, abs=0.01)


def test_dict_inputs_and_doubles_work_in_slots(monkeypatch):
    slots = in_slots(monkeypatch, SED(active=2), pairs(), Named)
    assert_same_training(trained(SED(active=2), pairs(), Named), slots)
    data = numbers(dtype=torch.float64)
    slots = in_slots(monkeypatch, SED(active=2), data, lambda: mlp().double())
    assert_same_training(trained(SED(active=2), data, lambda: mlp().double()), slots)


def test_members_that_sit_out_keep_weights_buffers_and_momentum(monkeypatch, tmp_path):
    start = tepui.Ensemble.build(noisy_net, members=4, seed=3)
    how = {"epochs": 1, "batch_size": 24, "out": tmp_path}
    run = in_slots(monkeypatch, SED(active=2), images(), **how)
    moved = 0
    for index, (tensors, document) in enumerate(checkpointed(tmp_path)):
        before, after = copied(start.members[index]), run.ensemble.members[index]
        kept = [tensor for name, tensor in tensors.items() if "optimizer" in name]
        assert document["step"] == 1
        if any(tensor.any() for tensor in kept):
            moved += 1
            assert_different(before, after)
        else:
            assert_same_bits(before, after)
    assert moved == 2


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=repr)
@pytest.mark.parametrize("epoch", [0, 1])
def test_a_run_in_slots_resumes_to_the_same_bits(
    monkeypatch, tmp_path, optimizer, epoch
):
    how = {"optimizer": optimizer, "epochs": 3}
    whole = in_slots(
        monkeypatch, SED(active=2), images(), out=tmp_path / "whole", **how
    )
    how["out"] = tmp_path / "parts"
    with pytest.raises(StoppedError):
        in_slots(
            monkeypatch, SED(active=2), images(), callbacks=[stop_after(epoch)], **how
        )
    parts = in_slots(monkeypatch, SED(active=2), images(), resume=True, **how)
    assert_same_runs(whole, parts)


@final
@dataclass(frozen=True, kw_only=True)
class Growing(CoupledMethod):
    """Breaks its promise: its turns have more and more members."""

    def turn(self, members, progress, generator):
        count = 1 + int(progress * members)
        return ActiveMembers(tuple(range(count)), (), progress)

    def loss(self, batch):
        return batch.losses.mean()


def test_turns_of_other_sizes_than_promised_are_refused(monkeypatch):
    assert len(trained(Growing(), images()).history) == 2
    with pytest.raises(ValueError, match=r"turn must have as many .* fixed_shapes"):
        in_slots(monkeypatch, Growing(), images())


@pytest.mark.parametrize("at", [0, 3, 4, 9])
def test_stopped_inside_an_epoch_it_resumes_to_the_same_bits(monkeypatch, tmp_path, at):
    whole = in_slots(monkeypatch, SED(active=2), images(), loss=SignallingLoss())
    how = {"out": tmp_path}
    with pytest.raises(SystemExit):
        in_slots(monkeypatch, SED(active=2), images(), loss=SignallingLoss(at), **how)
    how |= {"loss": SignallingLoss(), "resume": True}
    assert_same_bits(whole, in_slots(monkeypatch, SED(active=2), images(), **how))


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_stacks_keep_the_memory_format(layout):
    tensors = [torch.randn(3, 2, 5, 4).to(memory_format=layout) for _ in range(4)]
    stack = Stack.of(tensors[0], members=4, slots=2)
    for row, tensor in zip(stack.members, tensors, strict=True):
        row.copy_(tensor)
    index = torch.tensor([3, 1])
    stack.gather(index)
    for view, member in zip(stack.slots, index, strict=True):
        assert view.stride() == tensors[0].stride()
        assert torch.equal(view, tensors[member])
        view.add_(1)
    stack.scatter(index[:1])
    assert torch.equal(stack.members[3], tensors[3] + 1)
    for row in (0, 1, 2):
        assert torch.equal(stack.members[row], tensors[row])


def member(factory=mlp, optimizer=None, loss=None):
    module = factory()
    parameters = [p for p in module.parameters() if p.requires_grad]
    return TrainingMember(
        module,
        index=0,
        seed=3,
        method=SED(active=2),
        optimizer=(optimizer or tepui.SGD())(parameters),
        loss=loss or CrossEntropy(),
        samples=1,
        steps=1,
        numerics=numerics_of("cpu", "float32", False, None),
    )


@pytest.mark.parametrize("optimizer", [tepui.SGD(), tepui.AdamW()])
def test_a_clone_is_a_member_of_its_own(optimizer):
    one = member(optimizer=optimizer)
    one.set_time(0.5, 0.5)
    two = one.clone()
    assert vars(two.optimizer).keys() == vars(one.optimizer).keys()
    assert two.peak_rates == one.peak_rates
    assert two.parameters == two.optimizer.param_groups[0]["params"]
    two.update([torch.ones_like(p) for p in two.parameters])
    assert_different(one.module, two.module)
    assert not one.optimizer.state
    two.set_time(1.0, 0.0)
    assert float(one.learning_rate) == pytest.approx(0.5 * one.peak_rates[0])


def with_layer(layer):
    return lambda: nn.Sequential(nn.Linear(4, 6), layer, nn.Linear(6, CLASSES))


@pytest.mark.parametrize(
    "other",
    [
        {"factory": with_layer(nn.Tanh())},
        {"factory": with_layer(nn.Dropout(0.5))},
        {"factory": lambda: mlp().double()},
        {"optimizer": tepui.SGD(lr=0.2)},
        {"optimizer": tepui.SGD(weight_decay=0.0)},
        {"optimizer": tepui.AdamW(lr=0.1)},
        {"loss": CrossEntropy(0.1)},
    ],
)
def test_members_that_differ_do_not_share_slots(other):
    assert have_same_structure([member(), member()])
    assert not have_same_structure([member(), member(**other)])


def test_settings_of_layers_count():
    rates = [member(with_layer(nn.Dropout(rate))) for rate in (0.1, 0.1, 0.2)]
    assert have_same_structure(rates[:2])
    assert not have_same_structure(rates)


@pytest.mark.parametrize("method", [SED(active=2), A2D(weight=0.5)], ids=repr)
def test_members_on_one_frozen_body_share_slots_and_the_body(monkeypatch, method):
    body = nn.Linear(4, 6).requires_grad_(False)

    def on_body():
        return nn.Sequential(body, nn.Tanh(), nn.Linear(6, CLASSES))

    assert have_same_structure([member(on_body), member(on_body)])
    before = body.weight.clone()
    slots = in_slots(monkeypatch, method, numbers(), on_body)
    assert_same_training(trained(method, numbers(), on_body), slots)
    assert body.weight.equal(before)
    assert all(one[0].weight is body.weight for one in slots.ensemble.members)


def test_members_that_train_one_tensor_do_not_share_slots():
    shared = nn.Linear(4, CLASSES)
    assert not have_same_structure([member(lambda: nn.Sequential(shared))] * 2)


def colors(samples=128, size=8):
    stream = torch.Generator().manual_seed(0)
    pixels = torch.rand(samples, 3, size, size, generator=stream)
    return Arrays(pixels, torch.randint(10, (samples,), generator=stream))


def on_gpu(method, *factory, **how):
    return trained(method, colors(), *(factory or [heads]), **{**ON_GPU, **how})


def heads():
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 16), nn.ReLU(), nn.Linear(16, 10))


def resnet():
    return ResNet18(width=8)


def assert_close(first, second, tolerance):
    for name, tensor in state(first).items():
        torch.testing.assert_close(
            tensor, state(second)[name], rtol=tolerance, atol=tolerance, msg=name
        )


def captured(test):
    """Mark a test of the graph that a GPU replays."""
    for mark in needs_gpu:
        test = mark(test)
    return test


@captured
@pytest.mark.parametrize("method", METHODS, ids=repr)
@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=repr)
def test_graph_equals_eager(method, optimizer):
    graph = on_gpu(method, optimizer=optimizer, runner="graph")
    eager = on_gpu(method, optimizer=optimizer, runner="eager")
    assert_close(graph, eager, 1e-5)
    for one, other in zip(graph.history, eager.history, strict=True):
        for name in ("loss", "joint_loss"):  # None of a member that sat out is nan
            pair = (np.array(getattr(it, name), dtype=float) for it in (one, other))
            np.testing.assert_allclose(*pair, rtol=1e-5)


@captured
@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=repr)
def test_convolutions_and_batchnorm(optimizer):
    """Channels-last weights, whose optimizer state must lie in their format."""
    how = {"optimizer": optimizer, "augment": [HorizontalFlip()]}
    graph = on_gpu(SED(active=2), resnet, runner="graph", **how)
    assert_close(graph, on_gpu(SED(active=2), resnet, runner="eager", **how), 1e-4)


@captured
@pytest.mark.parametrize("mixing", [Mixup(), CutMix()], ids=repr)
@pytest.mark.parametrize(
    "method", [SED(active=2, alpha="none"), A2D(base=SAM())], ids=repr
)
def test_slots_are_captured_with_mixed_samples(method, mixing):
    how = {"augment": [HorizontalFlip(), mixing]}
    graph = on_gpu(method, runner="graph", **how)
    assert_close(graph, on_gpu(method, runner="eager", **how), 1e-5)
    assert_same_bits(state(graph), state(on_gpu(method, runner="graph", **how)))


@captured
@pytest.mark.parametrize(
    "method", [SED(active=2), SED(alpha="all", active=2), A2D()], ids=repr
)
@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=repr)
def test_resumed_equals_uninterrupted(tmp_path, method, optimizer):
    how = {"epochs": 3, "runner": "graph", "optimizer": optimizer}
    whole = on_gpu(method, **how)
    with pytest.raises(StoppedError):
        on_gpu(method, out=tmp_path, callbacks=[stop_after(1)], **how)
    resumed = on_gpu(method, out=tmp_path, resume=True, **how)
    assert_same_bits(state(whole), state(resumed))


@captured
@pytest.mark.parametrize(
    "how",
    [
        {"method": A2D(parallel=False)},
        {"optimizer": tepui.SGD(lr=(0.1, 0.2, 0.1, 0.1))},
    ],
    ids=str,
)
def test_what_cannot_be_captured_runs_eagerly(how):
    assert len(on_gpu(**{"method": SED(active=2), **how}).history) == 2
    with pytest.raises(ValueError, match='runner must be "auto" or "eager", since'):
        on_gpu(**{"method": SED(active=2), **how}, runner="graph")
