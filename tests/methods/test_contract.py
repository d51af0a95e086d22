"""What every method promises, checked for each public one."""

import dataclasses
import inspect
import json
from dataclasses import dataclass
from typing import NamedTuple, final

import pytest
import torch
from torch import nn

import tepui
from tepui import methods
from tepui.core.per_member import for_member
from tepui.core.seeding import generator
from tepui.data.arrays import Batch
from tepui.losses import cross_entropy
from tepui.methods import (
    A2D,
    GSAM,
    SAM,
    SED,
    ActiveMembers,
    CoupledBatch,
    CoupledMethod,
    DeepEnsemble,
    DivDis,
    ExchangingMethod,
    MemberMethod,
    Method,
    SharpBalance,
)
from tepui.training.graphs import warm_up
from tepui.training.member import TrainingMember
from tepui.training.run_folder import to_jsonable
from tepui.training.runner import EagerRunner, Runner
from tepui.training.slot_runner import SlotRunner
from tepui.training.slot_runner import warm_up as warm_up_slots
from tepui.training.slots import Slots
from training.cases import (
    CLASSES,
    Lookahead,
    Named,
    Plain,
    StoppedError,
    assert_different,
    assert_same_bits,
    assert_same_runs,
    checkpointed,
    copied,
    fitted,
    global_states,
    images,
    member_of,
    mlp,
    noisy_net,
    numbers,
    one_thread,
    pairs,
    stop_after,
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
    "GSAM": [Case(GSAM(rho=0.1)), Case(GSAM(rho=0.2, rho_min=0.1, adaptive=True))],
    "SharpBalance": [
        Case(SharpBalance(rho=0.1)),
        Case(SharpBalance.paper(rho=0.1, switch_at=0)),
        Case(SharpBalance(rho=0.1, base=GSAM(), leftover="split", select="lowest")),
        Case(SharpBalance.released("cifar10", rho=0.1, switch_at=0)),
    ],
    "SED": [
        Case(SED(weight=0.01)),
        Case(SED(weight=0.01, base=SAM(rho=0.05, adaptive=True))),
        Case(SED(weight=0.01, kernel="divdis", alpha="all")),
        Case(SED(weight=0.01, main="all", alpha="none", pair_norm="mean")),
    ],
    "SAM": [
        Case(SAM(rho=0.1)),
        Case(SAM(rho=0.5, adaptive=True)),
        Case(SAM(rho=0.1, update_statistics=True), updates=2),
    ],
}
ALL = [case for cases in CASES.values() for case in cases]
KINDS = sorted({type(case.method) for case in ALL}, key=lambda kind: kind.__name__)
OPTIMIZERS = [tepui.SGD(lr=0.05), tepui.AdamW(lr=0.01)]

every_method = pytest.mark.parametrize("method", [c.method for c in ALL], ids=repr)
every_member_case = pytest.mark.parametrize(
    "case", [c for c in ALL if isinstance(c.method, MemberMethod)], ids=repr
)
every_coupled_method = pytest.mark.parametrize(
    "method", [c.method for c in ALL if isinstance(c.method, CoupledMethod)], ids=repr
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


@every_kind
def test_is_final_and_frozen(kind):
    assert kind.__final__
    method = kind()
    for field in dataclasses.fields(kind):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(method, field.name, getattr(method, field.name))
    with pytest.raises((dataclasses.FrozenInstanceError, TypeError)):
        method.anything = 1


@every_method
def test_description_is_json_that_tells_settings_apart(method):
    shown = to_jsonable(method)
    assert json.loads(json.dumps(shown)) == shown
    assert shown["class"] == type(method).__name__
    assert shown.keys() - {"class"} == {f.name for f in dataclasses.fields(method)}


def test_descriptions_differ_where_methods_do():
    shown = [json.dumps(to_jsonable(case.method)) for case in ALL]
    assert len(set(shown)) == len(ALL)


@every_kind
def test_values_per_member_are_resolved(kind):
    for name in per_member_fields(kind):
        value = getattr(kind(), name)
        both = kind(**{name: (value, 2 * value)})
        assert for_member(both, 0, 2) == kind(**{name: value})
        assert for_member(both, 1, 2) == kind(**{name: 2 * value})
        assert for_member(kind(**{name: [value, 2 * value]}), 1, 2) == kind(
            **{name: 2 * value}
        )
        message = rf"{name} must have one value per member \(3\), got 2"
        with pytest.raises(ValueError, match=message):
            for_member(both, 0, 3)


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
def test_gradient_leaves_weights_as_they_were(case):
    module = noisy_net().train()
    before = {name: p.detach().clone() for name, p in module.named_parameters()}
    member = started(case.method, module)
    for _ in range(3):
        case.method.gradient(member, batch_of(images()))
    assert_same_bits(before, dict(module.named_parameters()))
    assert all(p.grad is None for p in module.parameters())
    assert all(p.requires_grad for p in module.parameters())


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
def test_loss_is_that_of_the_weights_the_member_has(case):
    module, data = mlp(), numbers()
    expected = cross_entropy(module(data.inputs), data.targets).mean()
    loss, values = case.method.gradient(started(case.method, module), batch_of(data))
    torch.testing.assert_close(loss, expected.detach())
    assert not loss.requires_grad
    assert not any(value.requires_grad for value in values)


@every_member_case
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_type_and_place_are_kept(case, dtype):
    module, data = mlp().to(dtype), numbers(dtype=dtype)
    loss, values = case.method.gradient(started(case.method, module), batch_of(data))
    assert loss.dtype == dtype
    for value, parameter in zip(values, module.parameters(), strict=True):
        assert (value.dtype, value.device) == (parameter.dtype, parameter.device)
        assert value.shape == parameter.shape
    run = fitted(data, lambda: mlp().to(dtype), method=case.method)
    assert {p.dtype for p in run.ensemble.parameters()} == {dtype}


@every_member_case
def test_all_passes_of_a_step_see_the_same_masks(case):
    masks = []

    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, CLASSES)

        def forward(self, x):
            masks.append(torch.rand(x.shape))
            return self.layer(x * masks[-1])

    member = started(case.method, Masked())
    for seed in (1, 2):
        member.noise_seed = seed
        case.method.gradient(member, batch_of(numbers()))
    half = len(masks) // 2
    assert all(torch.equal(mask, masks[0]) for mask in masks[:half])
    assert all(torch.equal(mask, masks[half]) for mask in masks[half:])
    assert not torch.equal(masks[0], masks[half])


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
@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=["SGD", "AdamW"])
def test_trains_with_every_optimizer(method, optimizer):
    run = fitted_with(method, numbers(), mlp, optimizer=optimizer, epochs=30)
    assert max(run.history[-1].trained) < 0.8 * min(run.history[0].trained)


@every_method
def test_trains_on_dict_inputs(method):
    run = fitted_with(method, pairs(), Named, epochs=10)
    assert max(run.history[-1].trained) < min(run.history[0].trained)
    assert_same_runs(run, fitted_with(method, Plain(pairs()), Named, epochs=10))


@every_method
def test_leaves_global_generators_alone(method):
    before = global_states()
    fitted_with(method, images())
    assert global_states() == before


@every_method
def test_repeats_to_the_bit(method):
    torch.manual_seed(0)
    first = fitted_with(method, images())
    torch.manual_seed(1)
    assert_same_runs(first, fitted_with(method, images()))


@pytest.mark.parametrize(
    "case",
    [c for c in ALL if not isinstance(c.method, ExchangingMethod | CoupledMethod)],
    ids=repr,
)
def test_a_member_alone_equals_the_member_among_others(case):
    together = fitted(images(), method=case.method, members=3).ensemble
    seed = [together.seeds[1]]
    alone = fitted(images(), method=case.method, members=1, seed=seed).ensemble
    assert_same_bits(alone.members[0], together.members[1])


@every_method
def test_state_survives_a_kill(tmp_path, method):
    how = {"epochs": 3, "out": tmp_path / "parts"}
    with pytest.raises(StoppedError):
        fitted_with(method, images(), callbacks=[stop_after(1)], **how)
    parts = fitted_with(method, images(), resume=True, **how)
    how["out"] = tmp_path / "whole"
    assert_same_runs(fitted_with(method, images(), **how), parts)


@every_method
def test_trains_every_member_and_leaves_no_gradient(method):
    start = tepui.Ensemble.build(noisy_net, members=3, seed=3)
    run = fitted_with(method, images(), members=3, epochs=3)
    for before, after in zip(start.members, run.ensemble.members, strict=True):
        assert_different(copied(before), after)
    assert all(p.grad is None for p in run.ensemble.parameters())


@every_coupled_method
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_coupled_members_keep_type_and_place(method, dtype):
    data = numbers(dtype=dtype)
    run = fitted_with(method, data, lambda: mlp().to(dtype), members=3)
    assert {p.dtype for p in run.ensemble.parameters()} == {dtype}


@every_coupled_method
def test_a_joint_loss_is_one_number_that_all_active_members_descend(method):
    turn = method.turn(3, 0.99, torch.Generator())
    active, seen = len(turn.active), len(turn.active) + len(turn.observed)
    learning = torch.randn(active, 8, CLASSES, requires_grad=True)
    observed = torch.randn(seen - active, 8, CLASSES)
    outputs = torch.cat([learning, observed])
    targets = torch.arange(8) % CLASSES
    losses = torch.stack([cross_entropy(output, targets) for output in learning])
    beside = outputs if method.needs_unlabeled else None
    total = method.loss(CoupledBatch(outputs, losses, targets, beside))
    assert total.shape == ()
    (gradient,) = torch.autograd.grad(total, learning)
    assert (gradient.abs().amax((1, 2)) > 0).all()


@every_coupled_method
def test_turns_are_drawn_from_their_stream_alone(method):
    before = global_states()
    turns = [method.turn(5, 0.5, generator(7, "active", 3)) for _ in range(2)]
    assert turns[0] == turns[1]
    assert global_states() == before
    who = [*turns[0].active, *turns[0].observed]
    assert len(who) == len(set(who))
    assert set(who) <= set(range(5))


@final
@dataclass(frozen=True, kw_only=True)
class Late(MemberMethod):
    """Makes its state when it first needs it, which no warm-up could take back."""

    def gradient(self, member, batch):
        return member.gradient(batch)

    def after_update(self, member):
        if "slow" not in member.state:
            member.state["slow"] = member.parameters[0].detach().clone()


@final
@dataclass(frozen=True, kw_only=True)
class Rebinding(MemberMethod):
    """Puts a new tensor in the place of its state, which a replay would not see."""

    def start(self, member):
        return {"count": torch.zeros(())}

    def gradient(self, member, batch):
        return member.gradient(batch)

    def after_update(self, member):
        member.state["count"] = member.state["count"] + 1


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

    def loss(self, meeting):
        return meeting.losses.mean() + meeting.outputs.var(0).mean()

    def after_update(self, member):
        member.state["updates"].add_(1)
        with torch.no_grad():
            for number, parameter in enumerate(member.parameters):
                slow = member.state[f"slow/{number}"]
                slow.lerp_(parameter, 0.1)
                parameter.lerp_(slow, 0.5)


def warming_up(monkeypatch):
    """Let the eager runners do before their first step what precedes a capture."""
    warmed = {}

    class Warmed(Runner):
        def run_epoch(self, members, epoch):
            for member in members:
                if member.step == (epoch + 1) * self.plan.steps:
                    continue
                if warmed.get(id(member)) != member.exchanged:
                    member.module.train()
                    member.set_time(*self.plan.time(member.step))
                    member.noise_seed = 0
                    with member.on_device():
                        warm_up(member, next(self.plan.batches(member, epoch)))
                    warmed[id(member)] = member.exchanged
            EagerRunner(self.plan).run_epoch(members, epoch)

    def prepared(runner, members, method, turn, batches):
        slots = Slots(members, turn)
        slots.load(members)
        slots.index.copy_(torch.tensor([*turn.active, *turn.observed]))
        slots.set_time(runner.plan.factor_after(turn.progress), turn.progress)
        slots.set_noise([0] * len(slots.active))
        warm_up_slots(slots, method, batches)
        runner._slots = slots

    monkeypatch.setattr("tepui.training.prepare.EagerRunner", Warmed)
    monkeypatch.setattr("tepui.training.prepare.CoupledRunner", SlotRunner)
    monkeypatch.setattr(SlotRunner, "_prepare", prepared)


def without_signs_of_zero(run):
    """Momentum that starts as zero, and not as nothing, may turn -0 into 0."""
    return {name: tensor + 0 for name, tensor in run.ensemble.state_dict().items()}


WARMED = [case.method for case in ALL if case.method.fixed_shapes]
WARMED += [Lookahead(), Teacher(), Teacher(base=SAM(rho=0.1))]


@pytest.mark.parametrize("method", WARMED, ids=repr)
@pytest.mark.parametrize("how", [{}, {"average": 0.5}], ids=str)
def test_warming_up_and_taking_it_back_changes_nothing(monkeypatch, method, how):
    """On a GPU this precedes the capture of a step; here the steps stay eager."""
    how = {"epochs": 4, "members": 3, **how}
    eager = fitted_with(method, images(), **how)
    with monkeypatch.context() as patch:
        warming_up(patch)
        warmed = fitted_with(method, images(), **how)
    assert_same_bits(without_signs_of_zero(eager), without_signs_of_zero(warmed))
    assert untimed(eager.history) == untimed(warmed.history)


@pytest.mark.parametrize(("method", "name"), [(Late(), "slow"), (Rebinding(), "count")])
def test_state_that_did_not_begin_with_the_run_is_refused(method, name):
    kind = type(method).__name__
    message = rf"state of {kind} must keep the tensors that start returned.*{name}"
    with pytest.raises(ValueError, match=message):
        fitted(numbers(), mlp, method=method)


def test_state_may_begin_at_the_weights(tmp_path):
    """Slow weights that begin elsewhere would end elsewhere."""
    run = fitted(numbers(), mlp, method=Lookahead(), out=tmp_path)
    ensemble = tepui.Ensemble.build(mlp, members=2, seed=3)
    slow = [p.detach().clone() for p in ensemble.members[0].parameters()]
    fast = fitted(numbers(), mlp, epochs=2)
    assert_different(run, fast)
    tensors, _ = checkpointed(tmp_path)[0]
    assert not torch.equal(tensors["method/slow/0"], slow[0])
    assert float(tensors["method/step"]) == 6


@pytest.mark.parametrize("method", [Lookahead(), Teacher()], ids=repr)
def test_state_that_begins_at_the_weights_survives_a_kill(tmp_path, method):
    test_state_survives_a_kill(tmp_path, method)


@every_method
def test_fixed_shapes_is_a_promise_that_is_kept(monkeypatch, method):
    """Between two exchanges every step runs the same sequence of shapes."""
    steps, shapes = {}, []
    begin, take = TrainingMember.begin, TrainingMember.take_step

    class Noting(nn.Sequential):
        def forward(self, x):
            shapes.append((self.training, tuple(x.shape)))
            return super().forward(x)

    def forgetting(member):
        begin(member)
        shapes.clear()  # what was asked of the model before the run

    def noting(member, gradients):
        if shapes:  # the first of several coupled members
            steps.setdefault(member.exchanged, []).append(tuple(shapes))
            shapes.clear()
        take(member, gradients)

    monkeypatch.setattr(TrainingMember, "begin", forgetting)
    monkeypatch.setattr(TrainingMember, "take_step", noting)
    monkeypatch.setattr(
        "tepui.methods.sharpbalance.sample_fisher_trace",
        lambda model, data, **how: torch.arange(len(data)) / len(data),
    )
    run = {"epochs": 4, "members": 3, "batch_size": 7}
    fitted_with(method, images(26), lambda: Noting(*noisy_net()), **run)
    assert sum(map(len, steps.values())) in (16, 48)
    kinds = [set(seen) for seen in steps.values()]
    assert method.fixed_shapes == all(len(kind) == 1 for kind in kinds)
