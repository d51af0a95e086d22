"""Slots that coupled members take for one step.

A step of coupled members touches only the members of its turn, which change from step
to step. All members' weights, buffers and optimizer state are therefore stacked; a step
gathers those of its members into slots by an index on the device, updates the slots and
scatters them back. One captured graph serves every choice of members, and its cost does
not depend on how many there are.
"""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from types import FunctionType
from typing import Any, final

import torch
from torch import Tensor, nn

from tepui.core import foreach
from tepui.core.checks import require
from tepui.core.seeding import derive
from tepui.methods.coupled import ActiveMembers, CoupledMethod
from tepui.training.coupled import (
    BatchPair,
    CoupledRunner,
    JointLoss,
    Party,
    coupled_method,
    coupled_step,
    run_steps,
    turns_left,
)
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
from tepui.training.passes import lane
from tepui.training.runner import Plan, Runner


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


@dataclass(frozen=True)
class CapturedStep:
    """A step of whichever members the slots' index names, as a graph."""

    recording: Recording[JointLoss]
    batches: BatchPair

    def replay(
        self, batches: BatchPair, active: Sequence[TrainingMember], step: int
    ) -> JointLoss:
        """Queue one step on the current stream; return its losses."""
        for fixed, new in zip(self.batches, batches, strict=True):
            if fixed is not None and new is not None:
                refill(fixed, new)
        self.recording.replay(active, step)
        return self.recording.result


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
        self._captured: CapturedStep | None = None
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
        if self._captured is not None:
            return self._captured.replay(batches, active, step)
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
                    self._captured = captured(slots, method, batches)
            except NotCapturable as reason:
                warn_of_eager_steps(reason)
                self._eager = CoupledRunner(self.plan)
                return
        else:
            slots.set_noise([0] * len(slots.active))
            for _ in range(WARM_UP_STEPS):
                slots.step(method, batches)
        self._slots = slots


def captured(slots: Slots, method: CoupledMethod, batches: BatchPair) -> CapturedStep:
    """Capture a step of the slots, which must be loaded again after it."""
    batch, other = batches
    fixed = fixed_batch(batch), None if other is None else fixed_batch(other)
    stream = lane(slots.index.device, 0)
    recording = record(
        lambda: slots.step(method, fixed), slots.active, fixed[0], nullcontext(), stream
    )
    return CapturedStep(recording, fixed)
