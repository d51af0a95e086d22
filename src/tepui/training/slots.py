"""Running coupled members through a few slots, on a GPU as one captured graph.

A step of coupled members touches only the members of its turn, which change from step
to step. All members' weights, buffers and optimizer state are therefore stacked; a step
gathers those of its members into slots by an index on the device, updates the slots and
scatters them back. One captured graph serves every choice of members, and its cost does
not depend on how many there are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any, final

import torch
from torch import Tensor, nn

from tepui.core.seeding import derive
from tepui.data.arrays import Batch
from tepui.methods.base import ActiveMembers, CoupledMethod
from tepui.training.graphs import WARM_UP_STEPS, fixed_batch, refill, warn_of_draws
from tepui.training.learner import Learner
from tepui.training.runner import (
    CoupledRunner,
    Plan,
    Runner,
    coupled_seed,
    coupled_step,
)

Pair = tuple[Batch, Batch | None]


@dataclass(frozen=True)
class Stack:
    """One tensor of every member and of every slot.

    Attributes:
        members: Shape ``(members, ...)``.
        slots: Shape ``(slots, ...)``; the slots' own tensors are views of it.
    """

    members: Tensor
    slots: Tensor

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
    """Places that members take for one step.

    Attributes:
        active: Learners that a step updates.
        observed: Learners that it only looks at.
        index: Which members take the slots, a tensor that every step reads.
    """

    def __init__(self, learners: Sequence[Learner], turn: ActiveMembers) -> None:
        count = len(turn.active) + len(turn.observed)
        clones = [learners[0].clone() for _ in range(count)]
        self.active = clones[: len(turn.active)]
        self.observed = clones[len(turn.active) :]
        device = learners[0].losses.device
        self.index = torch.zeros(count, dtype=torch.int64, device=device)
        self._module = self._stack_modules(len(learners))
        self._optimizer = self._stack_optimizers(len(learners))

    def load(self, learners: Sequence[Learner]) -> None:
        """Take over what the learners hold."""
        copies: list[tuple[Tensor, Tensor]] = []
        with torch.no_grad():
            for row, learner in enumerate(learners):
                tensors = _module_tensors(learner)
                for stack, tensor in zip(self._module, tensors, strict=True):
                    copies.append((stack.members[row], tensor))
                for (number, name), stack in self._optimizer.items():
                    state = learner.optimizer.state.get(_parameter(learner, number), {})
                    if name in state:
                        copies.append((stack.members[row], state[name]))
                    else:
                        stack.members[row].zero_()
            _copy_all(copies)

    def store(self, learners: Sequence[Learner], rows: set[int]) -> None:
        """Give the learners in some rows what the steps made of them."""
        copies: list[tuple[Tensor, Tensor]] = []
        with torch.no_grad():
            for row in sorted(rows):
                learner = learners[row]
                tensors = _module_tensors(learner)
                for stack, tensor in zip(self._module, tensors, strict=True):
                    copies.append((tensor, stack.members[row]))
                for (number, name), stack in self._optimizer.items():
                    state = learner.optimizer.state[_parameter(learner, number)]
                    state[name] = torch.empty_like(stack.members[row])
                    copies.append((state[name], stack.members[row]))
            _copy_all(copies)

    def step(self, method: CoupledMethod, batch: Batch, other: Batch | None) -> Tensor:
        """Do one step of the members that ``index`` names; return their loss."""
        updated = self.index[: len(self.active)]
        for stack in self._module:
            stack.gather(self.index)
        for stack in self._optimizer.values():
            stack.gather(updated)
        total = coupled_step(method, self.active, self.observed, batch, other)
        for stack in (*self._module, *self._optimizer.values()):
            stack.scatter(updated)
        return total

    def set_time(self, factor: float, progress: float) -> None:
        """Set what follows from the step, as for a learner."""
        for slot in self.active:
            slot.set_time(factor, progress)

    def set_noise(self, seeds: Sequence[int | None]) -> None:
        """Seed the active slots' dropout."""
        for slot, seed in zip(self.active, seeds, strict=True):
            slot.member.noise_seed = seed

    def _stack_modules(self, members: int) -> list[Stack]:
        slots = [*self.active, *self.observed]
        found = []
        for same in zip(*(_module_tensors(slot) for slot in slots), strict=True):
            stack = Stack.of(same[0], members, len(slots))
            for tensor, view in zip(same, stack.slots, strict=True):
                tensor.data = view
            found.append(stack)
        return found

    def _stack_optimizers(self, members: int) -> dict[tuple[int, str], Stack]:
        """Let every optimizer make its state by a step, then stack it as zeros."""
        for slot in self.active:
            slot.update([torch.zeros_like(p) for p in slot.member.parameters])
        found = {}
        for number, name in _state_names(self.active[0]):
            states = [
                slot.optimizer.state[_parameter(slot, number)] for slot in self.active
            ]
            stack = Stack.of(states[0][name], members, len(states))
            for state, view in zip(states, stack.slots, strict=True):
                state[name] = view
            found[number, name] = stack
        return found


@dataclass(frozen=True)
class CapturedStep:
    """A step of whichever members the slots' index names, as a graph.

    Attributes:
        graph: The step.
        batches: The tensors it reads: labeled, and unlabeled where there are any.
        loss: The tensor its loss is written to.
    """

    graph: torch.cuda.CUDAGraph
    batches: Pair
    loss: Tensor

    def replay(self, batches: Pair) -> Tensor:
        """Queue one step on the current stream; return its loss."""
        for fixed, new in zip(self.batches, batches, strict=True):
            if fixed is not None and new is not None:
                refill(fixed, new)
        self.graph.replay()
        return self.loss


@final
class SlotRunner(Runner):
    """Coupled members in slots; on a GPU their step is a captured graph.

    Learners hold the members between epochs; the stacks do so within one. Members that
    draw random numbers on the device (dropout) run eagerly, with a warning.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._slots: Slots | None = None
        self._captured: CapturedStep | None = None
        self._eager: CoupledRunner | None = None

    def run_epoch(self, learners: Sequence[Learner], epoch: int) -> None:
        """Run what is left of an epoch."""
        first, last = learners[0].step, (epoch + 1) * self.plan.steps
        if first == last:
            return
        method, seed = learners[0].method, coupled_seed(learners)
        assert isinstance(method, CoupledMethod)
        turns = [
            self.plan.turn(method, len(learners), seed, step)
            for step in range(first, last)
        ]
        for learner in learners:
            learner.member.module.train()
        if self._slots is None and self._eager is None:
            batches = next(self.plan.pairs(seed, first, epoch))
            self._prepare(learners, method, turns[0], batches)
        if self._slots is None:
            assert self._eager is not None
            self._eager.run_epoch(learners, epoch)
            return
        pairs = self.plan.pairs(seed, first, epoch)
        self._slots.load(learners)
        updated = self._run(self._slots, learners, turns, pairs)
        self._slots.store(learners, updated)
        for learner in learners:
            learner.set_time(*self.plan.time(learner.step - 1))

    def _run(
        self,
        slots: Slots,
        learners: Sequence[Learner],
        turns: Sequence[ActiveMembers],
        pairs: Iterator[Pair],
    ) -> set[int]:
        """Run the steps of some turns; return the members they updated."""
        method, losses = learners[0].method, learners[0].losses
        assert isinstance(method, CoupledMethod)
        updated: set[int] = set()
        chosen = torch.tensor([[*turn.active, *turn.observed] for turn in turns])
        on_device = chosen.to(losses.device)
        for turn, index, batches in zip(turns, on_device, pairs, strict=True):
            step = learners[0].step
            slots.index.copy_(index)
            slots.set_time(self.plan.factor_after(turn.progress), turn.progress)
            if self._captured is None:
                seeds = [learners[row].seed for row in turn.active]
                slots.set_noise([derive(seed, "noise", step) for seed in seeds])
                loss = slots.step(method, *batches)
            else:
                loss = self._captured.replay(batches)
            losses[step % self.plan.steps].copy_(loss)
            updated.update(turn.active)
            for learner in learners:
                learner.step += 1
            self.plan.advance(len(learners))
            if self.plan.stopping():
                break
        return updated

    def _prepare(
        self,
        learners: Sequence[Learner],
        method: CoupledMethod,
        turn: ActiveMembers,
        batches: Pair,
    ) -> None:
        """Make the slots and, on a GPU, capture their step."""
        slots, device = Slots(learners, turn), learners[0].losses.device
        if device.type == "cuda":
            slots.load(learners)
            slots.index.copy_(torch.tensor([*turn.active, *turn.observed]))
            slots.set_time(self.plan.factor_after(turn.progress), turn.progress)
            with torch.cuda.device(device):
                self._captured = captured(slots, method, batches)
            if self._captured is None:
                warn_of_draws()
                self._eager = CoupledRunner(self.plan)
                return
        self._slots = slots


def captured(slots: Slots, method: CoupledMethod, batches: Pair) -> CapturedStep | None:
    """Capture a step of the slots."""
    batch, other = batches
    fixed = fixed_batch(batch), None if other is None else fixed_batch(other)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        slots.set_noise([0] * len(slots.active))
        for _ in range(WARM_UP_STEPS):
            slots.step(method, *fixed)
        draws = torch.cuda.default_generators[stream.device_index].get_offset() > 0
    torch.cuda.synchronize()
    if draws:
        return None
    slots.set_noise([None] * len(slots.active))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        loss = slots.step(method, *fixed)
    return CapturedStep(graph, fixed, loss)


def have_same_structure(learners: Sequence[Learner]) -> bool:
    """Return whether one slot can serve all members."""
    first = _settings(learners[0])
    tensors = [id(t) for learner in learners for t in _module_tensors(learner)]
    if len(set(tensors)) < len(tensors):
        return False
    return all(
        _settings(learner) == first and learner.member.loss == learners[0].member.loss
        for learner in learners[1:]
    )


def _settings(learner: Learner) -> list[Any]:
    """Return what makes two learners compute differently, tensors' values aside."""
    module, optimizer = learner.member.module, learner.optimizer
    tensors = [
        (tensor.shape, tensor.stride(), tensor.dtype, tensor.requires_grad)
        for tensor in _module_tensors(learner)
    ]
    groups = [
        {name: repr(v) for name, v in group.items() if name not in ("params", "lr")}
        | {"tensors": len(group["params"])}
        for group in optimizer.param_groups
    ]
    parts = [(type(part), _plain(part)) for part in module.modules()]
    return [type(optimizer), learner.peak_rates, groups, tensors, parts]


def _plain(part: nn.Module) -> dict[str, Any]:
    """Return the numbers, names and functions that a module computes with."""
    kinds = (bool, int, float, str, tuple, torch.dtype, FunctionType, type(None))
    return {name: v for name, v in vars(part).items() if isinstance(v, kinds)}


def _copy_all(copies: Sequence[tuple[Tensor, Tensor]]) -> None:
    """Copy into the first of each pair, in as few launches as there are kinds."""
    targets, sources = zip(*copies, strict=True)
    torch._foreach_copy_(list(targets), list(sources))


def _module_tensors(learner: Learner) -> list[Tensor]:
    module = learner.member.module
    return [*module.parameters(), *module.buffers()]


def _parameter(learner: Learner, number: int) -> Tensor:
    return learner.member.parameters[number]


def _state_names(learner: Learner) -> list[tuple[int, str]]:
    """Return the optimizer's tensors as (number of the parameter, name)."""
    return [
        (number, name)
        for number, parameter in enumerate(learner.member.parameters)
        for name, value in learner.optimizer.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    ]
