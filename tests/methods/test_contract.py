"""What every method promises, checked for each public one."""

import dataclasses
import inspect
from collections import Counter
from dataclasses import dataclass
from itertools import product
from typing import ClassVar, NamedTuple, final

import pytest
import torch
from torch import nn

from tepui import methods
from tepui.data.arrays import Batch
from tepui.methods import (
    A2D,
    GSAM,
    SAM,
    SED,
    ActiveMembers,
    CoupledMethod,
    DeepEnsemble,
    DivDis,
    MemberMethod,
    Method,
    SharpBalance,
    SnapshotEnsemble,
)
from tepui.testing import check_method
from tepui.testing.methods import WarmedRunner
from tepui.training.coupled import SlotRunner
from training.cases import (
    CLASSES,
    Lookahead,
    Named,
    Plain,
    assert_different,
    assert_same_bits,
    assert_same_runs,
    fitted,
    images,
    member_of,
    mlp,
    noisy_net,
    numbers,
    one_thread,
    pairs,
    untimed,
)

single = pytest.fixture(autouse=True)(one_thread)


class Case(NamedTuple):
    """A method, and how often a step updates running statistics."""

    method: Method
    updates: int = 1


CASES = {
    "A2D": [
        Case(A2D()),
        Case(A2D(parallel=False, weight=0.01)),
        Case(A2D(base=GSAM(rho=0.1, rho_min=0.05))),
    ],
    "DeepEnsemble": [Case(DeepEnsemble())],
    "DivDis": [
        Case(DivDis(weight=0.1, regularizer=0.1)),
        Case(DivDis(weight=0.1, regularizer=0.1, base=SAM(rho=0.1))),
    ],
    "GSAM": [
        Case(GSAM(rho=0.1)),
        Case(GSAM(rho=0.2, rho_min=0.1, adaptive=True)),
        Case(GSAM(rho=0.1, start_at=1)),
    ],
    "SharpBalance": [
        Case(SharpBalance(rho=0.1)),
        Case(SharpBalance.paper(rho=0.1, switch_at=0)),
        Case(SharpBalance(rho=0.1, base=GSAM(), leftover="split", select="lowest")),
        Case(SharpBalance.released("cifar10", rho=0.1, switch_at=0), updates=2),
        Case(SharpBalance(rho=0.1, before="sam")),
    ],
    "SED": [
        Case(SED(weight=0.01, active=None)),
        Case(SED(weight=0.01, active=2)),
        Case(SED(weight=0.01, base=SAM(rho=0.05, adaptive=True), active=2)),
        Case(SED(weight=0.01, base=SAM(rho=0.05, start_at=0.5), active=2)),
        Case(SED(weight=0.01, kernel="divdis", alpha="all", active=2)),
        Case(SED(weight=0.01, main="all", alpha="none", pair_norm="mean", active=2)),
    ],
    "SAM": [
        Case(SAM(rho=0.1)),
        Case(SAM(rho=0.5, adaptive=True)),
        Case(SAM(rho=0.1, update_statistics=True), updates=2),
        Case(SAM(rho=0.1, start_at=0.5)),
    ],
    "SnapshotEnsemble": [
        Case(SnapshotEnsemble()),
        Case(SnapshotEnsemble(base=SAM(rho=0.1, start_at=0.5))),
    ],
}
ALL = [case for cases in CASES.values() for case in cases]
KINDS = sorted({type(case.method) for case in ALL}, key=lambda kind: kind.__name__)

METHODS = [case.method for case in ALL]
every_method = pytest.mark.parametrize("method", METHODS, ids=repr)
every_member_case = pytest.mark.parametrize(
    "case", [c for c in ALL if isinstance(c.method, MemberMethod)], ids=repr
)
every_kind = pytest.mark.parametrize("kind", KINDS)


def public_methods():
    named = [getattr(methods, name) for name in methods.__all__]
    classes = [value for value in named if inspect.isclass(value)]
    return {
        kind.__name__
        for kind in classes
        if issubclass(kind, Method) and kind is not Method
        if not inspect.isabstract(kind)
    }


def per_member_fields(kind):
    return [f.name for f in dataclasses.fields(kind) if f.metadata.get("per_member")]


def started(method, module, **how):
    """Return a member whose state has begun."""
    member = member_of(module, **how)
    member.state = method.start(member)
    return member


def fitted_with(method, data, *factory, **how):
    """Train with a method, and give it data of its own where it asks for them."""
    if method.needs_unlabeled:
        how["unlabeled"] = data
    return fitted(data, *factory, method=method, **how)


def batch_of(data):
    return Batch(data.inputs, data.targets, torch.arange(len(data)))


def test_every_public_method_has_a_case():
    assert public_methods() == CASES.keys()
    for name, cases in CASES.items():
        assert {type(case.method).__name__ for case in cases} == {name}


@every_method
def test_keeps_the_contract(method):
    check_method(method)


@every_kind
def test_values_per_member_reach_their_members(kind):
    for name in per_member_fields(kind):
        values = (getattr(kind(), name), 4 * getattr(kind(), name))
        mixed = fitted(numbers(), mlp, method=kind(**{name: values})).ensemble
        for index, value in enumerate(values):
            alike = fitted(numbers(), mlp, method=kind(**{name: value})).ensemble
            assert_same_bits(mixed.members[index], alike.members[index])
            assert_different(mixed.members[1 - index], alike.members[1 - index])


@every_member_case
def test_running_statistics_follow_the_policy(case):
    module = noisy_net().train()
    reference = noisy_net().train()
    reference.load_state_dict(module.state_dict())
    data = images()
    case.method.gradient(started(case.method, module), batch_of(data))
    reference(data.inputs)
    assert int(module[2].num_batches_tracked) == case.updates
    same = torch.equal(module[2].running_mean, reference[2].running_mean)
    assert same == (case.updates == 1)


@every_member_case
def test_all_passes_split_a_batch_to_the_same_masks(case):
    masks = []

    class Masked(nn.Linear):
        def forward(self, x):
            masks.append(torch.rand(x.shape))
            return super().forward(x * masks[-1])

    member = started(case.method, Masked(4, CLASSES), accumulate=2)
    member.noise_seed = 1
    case.method.gradient(member, batch_of(numbers()))
    assert not torch.equal(masks[0], masks[1])
    for start in range(0, len(masks), 2):
        assert torch.equal(masks[start], masks[0])
        assert torch.equal(masks[start + 1], masks[1])


@every_method
def test_trains_on_dict_inputs(method):
    run = fitted_with(method, pairs(), Named, epochs=10)
    assert max(run.history[-1].trained) < min(run.history[0].trained)
    assert_same_runs(run, fitted_with(method, Plain(pairs()), Named, epochs=10))


@final
@dataclass(frozen=True, kw_only=True)
class Teacher(CoupledMethod):
    """Coupled members pulled to slow copies of themselves, which begin at them."""

    def start(self, member):
        slow = {
            f"slow/{n}": p.detach().clone() for n, p in enumerate(member.parameters)
        }
        return {"updates": torch.zeros_like(member.progress), **slow}

    def turn(self, members, progress, generator):
        drawn = torch.randperm(members, generator=generator)[:2].tolist()
        return ActiveMembers(tuple(sorted(drawn)), (), progress)

    def loss(self, batch):
        return batch.losses.mean() + batch.outputs.var(0).mean()

    def after_update(self, member):
        member.state["updates"].add_(1)
        with torch.no_grad():
            for number, parameter in enumerate(member.parameters):
                slow = member.state[f"slow/{number}"]
                slow.lerp_(parameter, 0.1)
                parameter.lerp_(slow, 0.5)


@final
@dataclass(frozen=True, kw_only=True)
class Phased(MemberMethod):
    """Says in which phases its gradients were taken, and on which member."""

    seen: ClassVar = []

    def phase(self, epoch, epochs):
        return "early" if epoch < 2 else "late"

    def gradient(self, member, batch):
        self.seen.append((member.index, member.phase))
        return member.gradient(batch)


def test_another_phase_is_warmed_up_for(monkeypatch):
    monkeypatch.setattr("tepui.training.prepare.EagerRunner", WarmedRunner)
    Phased.seen.clear()
    fitted(numbers(), mlp, method=Phased(), epochs=4)
    taken = Counter(Phased.seen)
    assert taken.keys() == {*product((0, 1), ("early", "late"))}
    assert len({*taken.values()}) == 1


def without_signs_of_zero(run):
    """Momentum that starts as zero, and not as nothing, may turn -0 into 0."""
    return {name: tensor + 0 for name, tensor in run.ensemble.state_dict().items()}


WARMED = [case.method for case in ALL if case.method.fixed_shapes]
WARMED += [Lookahead(), Teacher(), Teacher(base=SAM(rho=0.1))]


@pytest.mark.parametrize("method", WARMED, ids=repr)
def test_warming_up_leaves_averages_alone(monkeypatch, method):
    """On a GPU this precedes the capture of a step; here the steps stay eager."""
    mean = {"ema": 0.7} if method.successive else {"average": 0.5}
    how = {"epochs": 4, "members": 3, **mean}
    eager = fitted_with(method, images(), **how)
    monkeypatch.setattr("tepui.training.prepare.EagerRunner", WarmedRunner)
    monkeypatch.setattr("tepui.training.prepare.CoupledRunner", SlotRunner)
    warmed = fitted_with(method, images(), **how)
    assert_same_bits(without_signs_of_zero(eager), without_signs_of_zero(warmed))
    assert untimed(eager.history) == untimed(warmed.history)


@pytest.mark.parametrize("method", [Lookahead(), Teacher(), Teacher(base=SAM())])
def test_state_that_begins_at_the_weights_keeps_the_contract(method):
    check_method(method)
