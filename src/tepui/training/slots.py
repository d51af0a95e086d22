"""Slots that coupled members take for one step.

A step of coupled members touches only the members of its turn, which change from step
to step. All members' weights, buffers and optimizer state are therefore stacked; a step
gathers those of its members into slots by an index on the device, updates the slots and
scatters them back. One captured graph serves every choice of members, and its cost does
not depend on how many there are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from tepui.core import foreach
from tepui.core.checks import require
from tepui.methods.coupled import ActiveMembers, CoupledMethod
from tepui.training.coupled import BatchPair, JointLoss, Party, coupled_step
from tepui.training.member import TrainingMember


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
