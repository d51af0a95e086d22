"""Slots that coupled members take for one step.

A step of coupled members touches only the members of its turn, which change from step
to step. All members' weights, buffers and optimizer state are therefore stacked; a step
gathers those of its members into slots by an index on the device, updates the slots and
scatters them back. One captured graph serves every choice of members, and its cost does
not depend on how many there are.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
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
    prepare_losses,
    record_losses,
)
from tepui.training.graphs import fixed_batch, refill, warn_of_eager_steps
from tepui.training.member import TrainingMember
from tepui.training.recording import WARM_UP_STEPS, NotCapturable, Recording, record
from tepui.training.runner import Plan, Runner
from tepui.training.streams import lane

log = logging.getLogger(__name__)


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
        count = len(turn.active) + len(turn.observed)
        clones = [members[0].clone() for _ in range(count)]
        self.active = clones[: len(turn.active)]
        self.observed = clones[len(turn.active) :]
        # Which members take the slots: every step reads this tensor.
        self.index = torch.zeros(count, dtype=torch.int64, device=members[0].device)
        self._module = self._stack_modules(len(members))
        self._kept = self._stack_kept(len(members))
        self._optimizer = self._stack_optimizers(len(members))

    def load(self, members: Sequence[TrainingMember]) -> None:
        """Take over what the members hold."""
        targets: list[Tensor] = []
        sources: list[Tensor] = []
        with torch.no_grad():
            for row, member in enumerate(members):
                tensors = [*_module_tensors(member), *_kept_tensors(member)]
                stacks = [*self._module, *self._kept]
                for stack, tensor in zip(stacks, tensors, strict=True):
                    targets.append(stack.members[row])
                    sources.append(tensor)
                for (number, name), stack in self._optimizer.items():
                    state = member.optimizer.state.get(member.parameters[number], {})
                    if name in state:
                        targets.append(stack.members[row])
                        sources.append(state[name])
                    else:
                        stack.members[row].zero_()
        foreach.copy_(targets, sources)

    def store(self, members: Sequence[TrainingMember], rows: set[int]) -> None:
        """Give the members in some rows what the steps made of them."""
        targets: list[Tensor] = []
        sources: list[Tensor] = []
        for row in sorted(rows):
            member = members[row]
            targets += [*_module_tensors(member), *_kept_tensors(member)]
            sources += [s.members[row] for s in (*self._module, *self._kept)]
            for (number, name), stack in self._optimizer.items():
                state = member.optimizer.state[member.parameters[number]]
                state[name] = torch.empty_like(stack.members[row])
                targets.append(state[name])
                sources.append(stack.members[row])
        foreach.copy_(targets, sources)

    def step(self, method: CoupledMethod, batches: BatchPair) -> JointLoss:
        """Do one step of the members that ``index`` names; return their losses."""
        updated = self.index[: len(self.active)]
        for stack in self._module:
            stack.gather(self.index)
        for stack in (*self._kept, *self._optimizer.values()):
            stack.gather(updated)
        base = method.base
        moved = base is not None and base.perturbs(self.active[0])
        party = Party.here(self.active, self.observed, perturbed=moved)
        loss = coupled_step(method, party, batches)
        for stack in (*self._module, *self._kept, *self._optimizer.values()):
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

    def _stack_modules(self, members: int) -> list[Stack]:
        slots = [*self.active, *self.observed]
        stacks = []
        for same in zip(*(_module_tensors(slot) for slot in slots), strict=True):
            stack = Stack.of(same[0], members, len(slots))
            for tensor, view in zip(same, stack.slots, strict=True):
                tensor.data = view
            stacks.append(stack)
        return stacks

    def _stack_kept(self, members: int) -> list[Stack]:
        """Stack what the method and the averaging keep of every member."""
        count, first = len(self.active), self.active[0]
        state, average = (
            {name: Stack.of(tensor, members, count) for name, tensor in kept.items()}
            for kept in (first.state, first.average)
        )
        for row, slot in enumerate(self.active):
            slot.adopt_state({name: stack.slots[row] for name, stack in state.items()})
            slot.average = {name: stack.slots[row] for name, stack in average.items()}
        return [*state.values(), *average.values()]

    def _stack_optimizers(self, members: int) -> dict[tuple[int, str], Stack]:
        """Let every optimizer make its state by a step, then stack it as zeros."""
        for slot in self.active:
            slot.update([torch.zeros_like(p) for p in slot.parameters])
        stacks = {}
        for number, name in _state_names(self.active[0]):
            states = [
                slot.optimizer.state[slot.parameters[number]] for slot in self.active
            ]
            stack = Stack.of(states[0][name], members, len(states))
            for state, view in zip(states, stack.slots, strict=True):
                state[name] = view
            stacks[number, name] = stack
        return stacks


def have_same_structure(members: Sequence[TrainingMember]) -> bool:
    """Return whether one slot can serve all members."""
    first = _settings(members[0])
    tensors = [id(t) for member in members for t in _module_tensors(member)]
    if len(set(tensors)) < len(tensors):
        return False
    return all(
        _settings(member) == first and member.loss == members[0].loss
        for member in members[1:]
    )


def _settings(member: TrainingMember) -> list[Any]:
    """Return all that could make two members compute differently, except values."""
    module, optimizer = member.module, member.optimizer
    tensors = [
        (tensor.shape, tensor.stride(), tensor.dtype, tensor.requires_grad)
        for tensor in _module_tensors(member)
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


def _module_tensors(member: TrainingMember) -> list[Tensor]:
    module = member.module
    return [*module.parameters(), *module.buffers()]


def _kept_tensors(member: TrainingMember) -> list[Tensor]:
    return [*member.state.values(), *member.average.values()]


def _state_names(member: TrainingMember) -> list[tuple[int, str]]:
    """Return the optimizer's tensors as (number of the parameter, name)."""
    return [
        (number, name)
        for number, parameter in enumerate(member.parameters)
        for name, value in member.optimizer.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    ]


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
        method, seed = coupled_method(members), self.plan.coupled_seed
        turns = [
            self.plan.turn(method, len(members), seed, step)
            for step in range(first, last)
        ]
        for member in members:
            member.module.train()
        if self._eager is None and self._phase != members[0].phase:
            self._phase, self._slots = members[0].phase, None
            batches = next(self.plan.pairs(seed, first, epoch))
            with self.plan.clock.during("capturing"):
                self._prepare(members, method, turns[0], batches)
        if self._slots is None:
            assert self._eager is not None
            self._eager.run_epoch(members, epoch)
            return
        self._slots.check_turns(turns)
        prepare_losses(members, epoch * self.plan.steps)
        pairs = self.plan.pairs(seed, first, epoch)
        self._slots.load(members)
        updated = self._run(self._slots, members, turns, pairs)
        self._slots.store(members, updated)
        for member in members:
            member.set_time(*self.plan.time(member.step - 1))

    def _run(
        self,
        slots: Slots,
        members: Sequence[TrainingMember],
        turns: Sequence[ActiveMembers],
        pairs: Iterator[BatchPair],
    ) -> set[int]:
        """Run the steps of some turns; return the members they updated."""
        method = coupled_method(members)
        updated: set[int] = set()
        chosen = torch.tensor([[*turn.active, *turn.observed] for turn in turns])
        on_device = chosen.to(members[0].device)
        for turn, index, batches in zip(turns, on_device, pairs, strict=True):
            step = members[0].step
            slots.index.copy_(index)
            slots.set_time(self.plan.factor_after(turn.progress), turn.progress)
            active = [members[row] for row in turn.active]
            if self._captured is None:
                slots.set_noise([derive(m.seed, "noise", step) for m in active])
                loss = slots.step(method, batches)
            else:
                loss = self._captured.replay(batches, active, step)
            record_losses(members, turn, loss, step % self.plan.steps)
            updated.update(turn.active)
            for member in members:
                member.step += 1
            self.plan.advance(len(members))
            if self.plan.stopping():
                break
        return updated

    def _prepare(
        self,
        members: Sequence[TrainingMember],
        method: CoupledMethod,
        turn: ActiveMembers,
        batches: BatchPair,
    ) -> None:
        """Make the slots and capture their step; elsewhere only warm up for it."""
        slots, device = Slots(members, turn), members[0].device
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
            log.info("captured one step for all %d members", len(members))
        else:
            slots.set_noise([0] * len(slots.active))
            warm_up(slots, method, batches)
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


def warm_up(slots: Slots, method: CoupledMethod, batches: BatchPair) -> None:
    """Run a few steps on one batch; loading the slots again takes them back."""
    for _ in range(WARM_UP_STEPS):
        slots.step(method, batches)
