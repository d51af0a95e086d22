"""Steps of members that meet inside the loss: one after the other, or in slots.

A step of coupled members touches only the members of its turn, which change from step
to step. For a captured graph all members' weights, buffers and optimizer state are
therefore stacked; a step gathers those of its members into slots by an index on the
device, updates the slots and scatters them back. One graph serves every choice of
members, and its cost does not depend on how many there are.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from types import FunctionType
from typing import Any, NamedTuple, Self, final

import torch
from torch import Tensor, nn

from tepui.core import foreach
from tepui.core.checks import require
from tepui.core.seeding import derive
from tepui.data.arrays import Batch
from tepui.losses import Loss
from tepui.methods.coupled import ActiveMembers, CoupledBatch, CoupledMethod
from tepui.modules.running import evaluating
from tepui.training.exchange import Exchange, LocalExchange
from tepui.training.graphs import (
    WARM_UP_STEPS,
    NotCapturable,
    Recording,
    fixed_batch,
    record,
    refill,
    taken_back,
    warn_of_eager_steps,
)
from tepui.training.member import TrainingMember
from tepui.training.passes import lane, losses_on
from tepui.training.runner import Plan, Runner

BatchPair = tuple[Batch, Batch | None]


class JointLoss(NamedTuple):
    """The losses of one step of coupled members."""

    total: Tensor  # what the active members descended together
    members: Tensor  # the mean loss of each active member alone


@dataclass(frozen=True)
class Party:
    """Who meets in one step, and how."""

    turn: ActiveMembers
    members: Mapping[int, TrainingMember]  # those of the turn that are trained here
    losses: Sequence[Loss]  # of all active members
    exchange: Exchange  # how the others are reached
    size: int  # how many members there are in all
    perturbed: bool = False  # whether a sharpness-aware base moves the active members
    weights: Tensor | None = None  # factors on the losses of the training samples

    @classmethod
    def here(
        cls,
        active: Sequence[TrainingMember],
        observed: Sequence[TrainingMember] = (),
        *,
        perturbed: bool = False,
    ) -> Self:
        """Return members that all are in this process, known by their places."""
        members = dict(enumerate([*active, *observed]))
        places, count = tuple(members), len(active)
        turn = ActiveMembers(places[:count], places[count:], 0.0)
        losses = [member.loss for member in active]
        weights = members[0].sample_weights
        met = turn, members, losses, LocalExchange(), len(members), perturbed, weights
        return cls(*met)

    @property
    def active(self) -> list[TrainingMember]:
        """The members that are trained here and updated by the step."""
        here = self.members
        return [here[index] for index in self.turn.active if index in here]

    def outputs(self, batch: Batch, *, observed: bool) -> Tensor:
        """Return outputs of active members, then of observed ones without gradient."""
        found = {}
        for index in self.turn.active:
            if index in self.members:
                found[index] = self.members[index].outputs(batch)
        beside = self.turn.observed if observed else ()
        for index in beside:
            if index in self.members:
                member = self.members[index]
                with torch.no_grad(), evaluating(member.module):
                    found[index] = member.unseeded_outputs(batch)
        turn = (*self.turn.active, *beside)
        return self.exchange.meet(found, turn, batch.targets, self.size)


@final
class CoupledRunner(Runner):
    """All members on the same batches, coupled inside the loss.

    Members that sit out a step keep weights and optimizer state; the step's cost
    follows the members of its turn alone.
    """

    def run_epoch(self, members: Sequence[TrainingMember], epoch: int) -> None:
        """Run what is left of an epoch; without members there is nothing to do."""
        if members:
            turns = turns_left(self.plan, members, epoch)
            run_steps(self.plan, members, epoch, turns, partial(self._step, members))

    def _step(
        self, members: Sequence[TrainingMember], turn: ActiveMembers, batches: BatchPair
    ) -> JointLoss:
        method, step = coupled_method(members), members[0].step
        party = self._party(method, members, turn)
        for member in party.active:
            member.set_time(self.plan.factor_after(turn.progress), turn.progress)
            member.noise_seed = derive(member.seed, "noise", step)
        return coupled_step(method, party, batches)

    def _party(
        self,
        method: CoupledMethod,
        members: Sequence[TrainingMember],
        turn: ActiveMembers,
    ) -> Party:
        first, size = members[0], len(self.plan.seeds)
        there = {*turn.active, *turn.observed}
        return Party(
            turn,
            {member.index: member for member in members if member.index in there},
            [self.plan.spec.loss_of(index, size) for index in turn.active],
            self.plan.exchange,
            size,
            perturbed=method.base is not None and method.base.perturbs(first),
            weights=first.sample_weights,
        )


def coupled_method(members: Sequence[TrainingMember]) -> CoupledMethod:
    """Return the method that all members share."""
    method = members[0].method
    assert isinstance(method, CoupledMethod)
    return method


def turns_left(
    plan: Plan, members: Sequence[TrainingMember], epoch: int
) -> list[ActiveMembers]:
    """Return who takes part in the steps that are left of an epoch."""
    method, seed, size = coupled_method(members), plan.coupled_seed, len(plan.seeds)
    steps = range(members[0].step, (epoch + 1) * plan.steps)
    return [plan.turn(method, size, seed, step) for step in steps]


def run_steps(
    plan: Plan,
    members: Sequence[TrainingMember],
    epoch: int,
    turns: Sequence[ActiveMembers],
    take: Callable[[ActiveMembers, BatchPair], JointLoss],
) -> None:
    """Take the steps that are left of an epoch, and note their losses.

    Those of each active member, and the joint one, of which there is one tensor.
    """
    first = members[0]
    joint = first.joint_losses
    assert joint is not None, "coupled members share a tensor of joint losses"
    here = {member.index: member for member in members}
    for member in members:
        member.module.train()
        if first.step == epoch * plan.steps:
            member.step_losses.fill_(torch.nan)
    pairs = plan.pairs(plan.coupled_seed, first.step, epoch)
    for turn, batches in zip(turns, pairs, strict=True):
        loss, position = take(turn, batches), first.step % plan.steps
        joint[position] = loss.total
        for index, value in zip(turn.active, loss.members, strict=True):
            if index in here:
                here[index].step_losses[position] = value
        for member in members:
            member.step += 1
        plan.advance(len(members))
        if plan.stopping():
            break
    for member in members:
        member.set_time(*plan.time(max(member.step - 1, 0)))


def coupled_step(method: CoupledMethod, party: Party, batches: BatchPair) -> JointLoss:
    """Update the active members along the gradient of their joint loss.

    With a sharpness-aware base, along the gradient at weights of which each active
    member's are moved along its own part of the gradient.
    """
    loss, values = joint_gradient(method, party, batches)
    base, active = method.base, party.active
    if base is not None and party.perturbed:
        with ExitStack() as stack:
            for member, here in zip(active, values, strict=True):
                offsets = base.offsets(member, here)
                keep = base.update_statistics
                stack.enter_context(member.moved(offsets, update_buffers=keep))
            _, perturbed = joint_gradient(method, party, batches)
        values = [base.combined(*pair) for pair in zip(values, perturbed, strict=True)]
    for member, gradient in zip(active, values, strict=True):
        member.take_step(gradient)
    return loss


def joint_gradient(
    method: CoupledMethod, party: Party, batches: BatchPair
) -> tuple[JointLoss, list[list[Tensor]]]:
    """Differentiate the joint loss by the parameters of the active members here.

    It is a mean over the active members: times their number, each moves as it would by
    its own loss alone, whatever the optimizer. Buffers, such as BatchNorm's running
    statistics, follow training samples alone: unlabeled ones may be of another kind.
    """
    batch, other = batches
    outputs = party.outputs(batch, observed=other is None)
    losses = torch.stack(
        [
            losses_on(loss, output, batch, party.weights)
            for loss, output in zip(party.losses, outputs, strict=False)
        ]
    )
    active = party.active
    buffers = [b for member in active for b in member.buffers if other is not None]
    before = [buffer.clone() for buffer in buffers]
    beside = None if other is None else party.outputs(other, observed=True)
    total = method.loss(CoupledBatch(outputs, losses, batch.targets, beside))
    parameters = [p for member in active for p in member.parameters]
    flat = iter(
        torch.autograd.grad(
            len(party.turn.active) * total, parameters, materialize_grads=True
        )
        if parameters
        else ()
    )
    foreach.copy_(buffers, before)  # not earlier: the gradient remembers them
    values = [
        member.masked([next(flat) for _ in member.parameters]) for member in active
    ]
    return JointLoss(total.detach(), losses.detach().mean(1)), values


@dataclass(frozen=True)
class Stack:
    """One tensor of every member and of every slot."""

    members: Tensor  # shape (members, ...)
    slots: Tensor  # shape (slots, ...); the slots' own tensors are views of it

    @classmethod
    def of(cls, tensor: Tensor, members: int, slots: int) -> "Stack":
        """Return zeros, each like a tensor and in its memory format."""
        size, stride = tuple(tensor.shape), (tensor.numel(), *tensor.stride())
        parts = (
            torch.empty_strided(
                (count, *size), stride, dtype=tensor.dtype, device=tensor.device
            ).zero_()
            for count in (members, slots)
        )
        return cls(*parts)

    def gather(self, index: Tensor) -> None:
        """Copy some members' rows into the slots."""
        torch.index_select(self.members, 0, index, out=self.slots)

    def scatter(self, index: Tensor) -> None:
        """Copy the first slots back into their members' rows."""
        self.members.index_copy_(0, index, self.slots[: len(index)])


class Slots:
    """Places that members take for one step, which updates those that are active."""

    def __init__(self, members: Sequence[TrainingMember], turn: ActiveMembers) -> None:
        for member in members:
            _begin_optimizer(member)
        count = len(turn.active) + len(turn.observed)
        self._shared = shared_by(members)
        clones = [members[0].clone(self._shared) for _ in range(count)]
        self.active = clones[: len(turn.active)]
        self.observed = clones[len(turn.active) :]
        # Which members take the slots: every step reads this tensor.
        self.index = torch.zeros(count, dtype=torch.int64, device=members[0].device)
        own = [_module_tensors(clone, self._shared) for clone in clones]
        self._module = stacked(own, len(members))
        self._kept = stacked([*map(_kept_tensors, self.active)], len(members))

    def load(self, members: Sequence[TrainingMember]) -> None:
        """Take over what the members hold."""
        pairs = [pair for row, m in enumerate(members) for pair in self._pairs(row, m)]
        foreach.copy_([stack for stack, _ in pairs], [tensor for _, tensor in pairs])

    def store(self, members: Sequence[TrainingMember], rows: set[int]) -> None:
        """Give the members in some rows what the steps made of them."""
        pairs = [
            pair for row in sorted(rows) for pair in self._pairs(row, members[row])
        ]
        foreach.copy_([tensor for _, tensor in pairs], [stack for stack, _ in pairs])

    def _pairs(
        self, row: int, member: TrainingMember
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Return rows of the stacks, each with the member's tensor."""
        own = _module_tensors(member, self._shared)
        tensors = [*own, *_kept_tensors(member)]
        rows = [stack.members[row] for stack in (*self._module, *self._kept)]
        return zip(rows, tensors, strict=True)

    def step(self, method: CoupledMethod, batches: BatchPair) -> JointLoss:
        """Do one step of the members that ``index`` names; return their losses."""
        updated = self.index[: len(self.active)]
        for stack in self._module:
            stack.gather(self.index)
        for stack in self._kept:
            stack.gather(updated)
        base = method.base
        moved = base is not None and base.perturbs(self.active[0])
        party = Party.here(self.active, self.observed, perturbed=moved)
        loss = coupled_step(method, party, batches)
        for stack in (*self._module, *self._kept):
            stack.scatter(updated)
        return loss

    def check_turns(self, turns: Sequence[ActiveMembers]) -> None:
        """Refuse turns for which there are too few or too many slots."""
        expected = len(self.active), len(self.observed)
        sizes = sorted({(len(turn.active), len(turn.observed)) for turn in turns})
        rule = (
            f"have as many active and observed members at every step {expected}; a "
            "method whose turns differ must say so in fixed_shapes"
        )
        require(sizes == [expected], "turn", rule, sizes)

    def set_time(self, factor: float, progress: float) -> None:
        """Set learning rate and progress of the active slots."""
        for slot in self.active:
            slot.set_time(factor, progress)

    def set_noise(self, seeds: Sequence[int]) -> None:
        """Seed the active slots' dropout."""
        for slot, seed in zip(self.active, seeds, strict=True):
            slot.noise_seed = seed


def stacked(slots: Sequence[Sequence[Tensor]], members: int) -> list[Stack]:
    """Return stacks of zeros, of which the slots' tensors become views."""
    stacks = []
    for same in zip(*slots, strict=True):
        stack = Stack.of(same[0], members, len(slots))
        for tensor, view in zip(same, stack.slots, strict=True):
            tensor.data = view
        stacks.append(stack)
    return stacks


def _begin_optimizer(member: TrainingMember) -> None:
    """Let an optimizer without state make it by a step, and begin it at zero."""
    if not member.optimizer.state:
        with taken_back(member):
            member.update([torch.zeros_like(p) for p in member.parameters])


def have_same_structure(members: Sequence[TrainingMember]) -> bool:
    """Return whether one slot can serve all members."""
    shared = shared_by(members)
    first = _settings(members[0], shared)
    tensors = [id(t) for member in members for t in _module_tensors(member, shared)]
    if len(set(tensors)) < len(tensors):
        return False
    return all(
        _settings(member, shared) == first and member.loss == members[0].loss
        for member in members[1:]
    )


def _settings(member: TrainingMember, shared: Sequence[Tensor]) -> list[Any]:
    """Return all that could make two members compute differently, except values."""
    module, optimizer = member.module, member.optimizer
    tensors = [
        (tensor.shape, tensor.stride(), tensor.dtype, tensor.requires_grad)
        for tensor in _module_tensors(member, shared)
    ]
    groups = [
        {name: repr(v) for name, v in group.items() if name not in ("params", "lr")}
        | {"tensors": len(group["params"])}
        for group in optimizer.param_groups
    ]
    parts = [(type(part), _plain(part)) for part in module.modules()]
    state = [(name, t.shape, t.dtype) for name, t in member.state.items()]
    return [type(optimizer), member.peak_rates, groups, tensors, parts, state]


def _plain(part: nn.Module) -> dict[str, Any]:
    """Return the numbers, names and functions that a module computes with."""
    kinds = (bool, int, float, str, tuple, torch.dtype, FunctionType, type(None))
    return {name: v for name, v in vars(part).items() if isinstance(v, kinds)}


def shared_by(members: Sequence[TrainingMember]) -> list[Tensor]:
    """Return the frozen parameters that all members hold, each as one object."""
    frozen = [
        {id(p): p for p in member.module.parameters() if not p.requires_grad}
        for member in members
    ]
    common = set.intersection(*map(set, frozen)) if len(frozen) > 1 else set()
    return [p for key, p in frozen[0].items() if key in common]


def _module_tensors(member: TrainingMember, shared: Sequence[Tensor]) -> list[Tensor]:
    left_out = set(map(id, shared))
    every = (*member.module.parameters(), *member.module.buffers())
    return [tensor for tensor in every if id(tensor) not in left_out]


def _kept_tensors(member: TrainingMember) -> list[Tensor]:
    """Return what the method, the averaging, and the optimizer keep of a member."""
    states = [member.optimizer.state[p] for p in member.parameters]
    entries = [value for state in states for _, value in sorted(state.items())]
    tensors = [value for value in entries if isinstance(value, Tensor)]
    return [*member.state.values(), *member.average.values(), *tensors]


@final
class SlotRunner(Runner):
    """Coupled members in slots; on a GPU their step is a captured graph.

    Members hold their tensors between epochs; the stacks do so within one. Members
    whose steps a graph would not repeat run eagerly, with a warning.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._slots: Slots | None = None
        self._phase = ""
        # The step of whichever members the slots' index names, and what it reads.
        self._recording: Recording[JointLoss] | None = None
        self._fixed: list[Batch] = []
        self._eager: CoupledRunner | None = None

    def run_epoch(self, members: Sequence[TrainingMember], epoch: int) -> None:
        """Run what is left of an epoch."""
        first, last = members[0].step, (epoch + 1) * self.plan.steps
        if first == last:
            return
        turns = turns_left(self.plan, members, epoch)
        for member in members:
            member.module.train()
        if self._eager is None and self._phase != members[0].phase:
            self._phase, self._slots = members[0].phase, None
            batches = next(self.plan.pairs(self.plan.coupled_seed, first, epoch))
            with self.plan.clock.during("capturing"):
                self._prepare(members, turns[0], batches)
        if self._slots is None:
            assert self._eager is not None
            self._eager.run_epoch(members, epoch)
            return
        self._slots.check_turns(turns)
        self._slots.load(members)
        chosen = torch.tensor([[*turn.active, *turn.observed] for turn in turns])
        indices = iter(chosen.to(members[0].device))
        take = partial(self._take, self._slots, members, indices)
        run_steps(self.plan, members, epoch, turns, take)
        updated = {i for turn in turns[: members[0].step - first] for i in turn.active}
        self._slots.store(members, updated)

    def _take(
        self,
        slots: Slots,
        members: Sequence[TrainingMember],
        indices: Iterator[Tensor],
        turn: ActiveMembers,
        batches: BatchPair,
    ) -> JointLoss:
        """Take the next step."""
        step = members[0].step
        slots.index.copy_(next(indices))
        slots.set_time(self.plan.factor_after(turn.progress), turn.progress)
        active = [members[row] for row in turn.active]
        if self._recording is not None:
            for fixed, new in zip(self._fixed, filter(None, batches), strict=True):
                refill(fixed, new)
            self._recording.replay(active, step)
            return self._recording.result
        slots.set_noise([derive(m.seed, "noise", step) for m in active])
        return slots.step(coupled_method(members), batches)

    def _prepare(
        self,
        members: Sequence[TrainingMember],
        turn: ActiveMembers,
        batches: BatchPair,
    ) -> None:
        """Make the slots and capture their step; elsewhere only warm up for it."""
        method, device = coupled_method(members), members[0].device
        slots = Slots(members, turn)
        slots.load(members)
        slots.index.copy_(torch.tensor([*turn.active, *turn.observed]))
        slots.set_time(self.plan.factor_after(turn.progress), turn.progress)
        if device.type == "cuda":
            try:
                with torch.cuda.device(device):
                    self._capture(slots, method, batches)
            except NotCapturable as reason:
                warn_of_eager_steps(reason)
                self._eager = CoupledRunner(self.plan)
                return
        else:
            slots.set_noise([0] * len(slots.active))
            for _ in range(WARM_UP_STEPS):
                slots.step(method, batches)
        self._slots = slots

    def _capture(self, slots: Slots, method: CoupledMethod, batches: BatchPair) -> None:
        """Capture a step of the slots, which must be loaded again after it."""
        self._fixed = [fixed_batch(batch) for batch in batches if batch is not None]
        first, other = [*self._fixed, None][:2]
        assert first is not None
        step = partial(slots.step, method, (first, other))
        stream = lane(slots.index.device, 0)
        self._recording = record(step, slots.active, first, nullcontext(), stream)
