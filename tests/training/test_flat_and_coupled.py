"""Coupled members on a sharpness-aware base, against a loop written by hand."""

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import final

import pytest
import torch
import torch.nn.functional as F

import tepui
from tepui.core.seeding import derive, generator
from tepui.methods import (
    A2D,
    GSAM,
    SAM,
    SED,
    ActiveMembers,
    CoupledBatch,
    CoupledMethod,
    DivDis,
)
from tepui.training.batches import index_stream
from training.cases import (
    assert_different,
    assert_same_bits,
    fitted,
    images,
    mlp,
    noisy_net,
    numbers,
)

COUPLED = [
    SED(weight=0.3, active=2),
    SED(weight=0.3, alpha="all", active=2),
    SED(weight=0.3, main="all", kernel="divdis", active=2),
    A2D(weight=0.3),
    A2D(weight=0.3, parallel=False),
    DivDis(weight=0.3, regularizer=0.3),
]
BASES = [
    SAM(rho=0.3),
    SAM(rho=0.8, adaptive=True),
    GSAM(rho=0.3, alpha=0.5),
    GSAM(rho=0.3, rho_min=0.1),
]
every_coupled = pytest.mark.parametrize("method", COUPLED, ids=repr)
every_base = pytest.mark.parametrize("base", BASES, ids=repr)


def trained(method, data, *factory, **how):
    if method.needs_unlabeled:
        how["unlabeled"] = numbers(16, data.inputs.dtype, seed=1)
        if data.inputs.ndim == 4:
            how["unlabeled"] = images(16, seed=1)
    settings = {"members": 3, "schedule": tepui.Cosine(), **how}
    return fitted(data, *factory, method=method, **settings)


def naive_offset(base, weights, gradient, factor):
    """The perturbation by its definition, over one member's parameters."""
    rho = base.rho
    if isinstance(base, GSAM) and base.rho_min is not None:
        rho = base.rho_min + (base.rho - base.rho_min) * factor
    scales = [w.detach() if base.adaptive else 1 for w in weights]
    scaled = [s * g for s, g in zip(scales, gradient, strict=True)]
    norm = torch.cat([g.flatten() for g in scaled]).norm() + 1e-12
    return [rho * s * g / norm for s, g in zip(scales, scaled, strict=True)]


def naive_step(base, here, there):
    if isinstance(base, SAM):
        return there
    g, p = (torch.cat([t.flatten() for t in part]) for part in (here, there))
    step = p - base.alpha * (g - (g @ p) / (p @ p + 1e-12) * p)
    sizes = [t.numel() for t in there]
    return [part.view_as(t) for part, t in zip(step.split(sizes), there, strict=True)]


def naive_gradients(method, active, observed, batch, unlabeled):
    """The joint loss by every active member's own parameters."""
    inputs, targets = batch
    seen = () if method.needs_unlabeled else observed

    def outputs(x, others):
        found = [module(x) for module in active]
        return torch.stack([*found, *(module(x).detach() for module in others)])

    main = outputs(inputs, seen)
    losses = [
        F.cross_entropy(output, targets, reduction="none")
        for output in main[: len(active)]
    ]
    beside = outputs(unlabeled, observed) if method.needs_unlabeled else None
    total = method.loss(CoupledBatch(main, torch.stack(losses), targets, beside))
    total = len(active) * total
    how = {"retain_graph": True, "materialize_grads": True}
    return [torch.autograd.grad(total, [*m.parameters()], **how) for m in active]


@contextmanager
def moved(modules, offsets):
    before = [[p.detach().clone() for p in m.parameters()] for m in modules]
    with torch.no_grad():
        for module, offset in zip(modules, offsets, strict=True):
            for parameter, step in zip(module.parameters(), offset, strict=True):
                parameter.add_(step)
    yield
    with torch.no_grad():
        for module, weights in zip(modules, before, strict=True):
            for parameter, weight in zip(module.parameters(), weights, strict=True):
                parameter.copy_(weight)


def by_hand(ensemble, data, other, method, epochs=2, batch_size=8):
    """Train coupled members in float64, in a loop of their own."""
    seed, base = derive(*ensemble.seeds, "coupled"), method.base
    steps = -(-len(data) // batch_size)
    optimizers = [
        torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
        for m in ensemble.members
    ]
    count = epochs * steps
    rows = index_stream(len(data), batch_size, seed, 0, count)
    beside = index_stream(16, batch_size, derive(seed, "unlabeled"), 0, count)
    for step in range(count):
        stream = generator(seed, "active", step)
        turn = method.turn(len(ensemble), step / count, stream)
        active = [ensemble.members[i] for i in turn.active]
        observed = [ensemble.members[i] for i in turn.observed]
        batch = data.inputs[rows[step]], data.targets[rows[step]]
        given = method, active, observed, batch, other.inputs[beside[step]]
        factor = tepui.Cosine().factor(int(turn.progress * count), steps, epochs)
        here = naive_gradients(*given)
        offsets = [
            naive_offset(base, [*m.parameters()], g, factor)
            for m, g in zip(active, here, strict=True)
        ]
        with moved(active, offsets):
            there = naive_gradients(*given)
        for index, g, p in zip(turn.active, here, there, strict=True):
            optimizers[index].param_groups[0]["lr"] = 0.1 * factor
            parameters = ensemble.members[index].parameters()
            for weight, value in zip(parameters, naive_step(base, g, p), strict=True):
                weight.grad = value.clone()
            optimizers[index].step()
            optimizers[index].zero_grad()


@every_coupled
@every_base
def test_flat_and_diverse_equals_a_loop_by_hand(method, base):
    method = replace(method, base=base)
    data = numbers(24, torch.float64)
    other = numbers(16, torch.float64, seed=1)
    expected = tepui.Ensemble.build(lambda: mlp().double(), members=3, seed=3)
    by_hand(expected, data, other, method)
    run = trained(method, data, lambda: mlp().double())
    # A radius that follows the learning rate follows a number in float32.
    tolerance = 1e-6 if getattr(base, "rho_min", None) else 1e-9
    for name, tensor in run.ensemble.state_dict().items():
        wanted = expected.state_dict()[name]
        torch.testing.assert_close(tensor, wanted, rtol=tolerance, atol=tolerance)


def test_the_perturbed_pass_updates_statistics_only_if_asked():
    for update, passes in ((False, 3), (True, 6)):
        base = SAM(rho=0.1, update_statistics=update)
        run = trained(SED(active=3, base=base), images(), noisy_net, epochs=1)
        counts = {int(m[2].num_batches_tracked) for m in run.ensemble.members}
        assert counts == {passes}


@pytest.mark.parametrize("base", [None, SAM(rho=0.1, update_statistics=True)], ids=repr)
@pytest.mark.parametrize(
    "method",
    [
        A2D(weight=0.0),
        A2D(weight=0.0, parallel=False),
        DivDis(weight=0.0, regularizer=0.0),
    ],
    ids=repr,
)
def test_statistics_follow_the_training_samples_alone(method, base):
    """Without weight, nothing is left of unlabeled samples of whatever kind."""
    method = replace(method, base=base)
    runs = [
        fitted(images(), method=method, members=3, epochs=3, unlabeled=unlabeled)
        for unlabeled in (images(16, seed=1), images(10, seed=2))
    ]
    assert_same_bits(*runs)
    counts = {int(m[2].num_batches_tracked) for m in runs[0].ensemble.members}
    steps = 9 if getattr(method, "parallel", True) else 3  # of each member
    assert counts == {steps if base is None else 2 * steps}


@final
@dataclass(frozen=True, kw_only=True)
class Together(CoupledMethod):
    """All members at once, in a phase of a name of its own."""

    name: str = "main"

    def phase(self, epoch, epochs):
        return self.name

    def turn(self, members, progress, generator):
        return ActiveMembers(tuple(range(members)), (), progress)

    def loss(self, batch):
        return batch.losses.mean()


@pytest.mark.parametrize("name", ["plain", "before start_at"])
def test_a_base_perturbs_whatever_a_phase_is_called(name):
    base = SAM(rho=0.3)
    flat, named = (
        trained(Together(base=base, name=phase), numbers(), mlp)
        for phase in ("main", name)
    )
    assert_same_bits(flat, named)
    assert_different(flat, trained(Together(), numbers(), mlp))


def test_each_member_has_its_own_loss_and_all_have_a_joint_one():
    run = trained(A2D(weight=5.0), images(), epochs=3)
    for record in run.history:
        assert len(set(record.loss)) == 3
        assert record.joint_loss > max(record.loss)
    plain = trained(A2D(weight=0.0), images(), epochs=3)
    for record in plain.history:
        assert record.joint_loss == pytest.approx(sum(record.loss) / 3, rel=1e-5)


def test_a_member_that_sat_out_an_epoch_has_no_loss(tmp_path):
    run = trained(A2D(parallel=False), images(), epochs=3, out=tmp_path)
    assert [[loss is None for loss in r.loss] for r in run.history] == [
        [False, True, True],
        [True, False, True],
        [True, True, False],
    ]
    again = trained(A2D(parallel=False), images(), epochs=3, out=tmp_path, resume=True)
    assert again.history == run.history
    assert fitted(images()).history[0].joint_loss is None
