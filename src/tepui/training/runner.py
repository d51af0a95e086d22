"""Running the steps of an epoch, one after the other, on any device."""

import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import repeat
from types import FrameType
from typing import final

from torch import Tensor

from tepui.core.seeding import derive, generator
from tepui.data.arrays import Batch, Division
from tepui.data.augment import PerMember
from tepui.methods.base import MemberMethod
from tepui.methods.coupled import ActiveMembers, CoupledMethod
from tepui.training.batches import (
    BatchSource,
    index_stream,
    steps_per_epoch,
    stratified_stream,
)
from tepui.training.exchange import Exchange, StepRanks, own_rows
from tepui.training.history import Clock
from tepui.training.member import TrainingMember
from tepui.training.passes import Body
from tepui.training.spec import Course, TrainingSpec

# Asking ranks costs as much as a small message, and waits for a GPU.
STEPS_BETWEEN_QUESTIONS = 20


class Interruption:
    """Whether SIGINT or SIGTERM asked the run to stop."""

    def __init__(self) -> None:
        self.signal: int | None = None

    @property
    def requested(self) -> bool:
        """Whether the run should stop after this step."""
        return self.signal is not None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Note signals inside the block; a second one acts as it always did.

        Outside the main thread, where Python cannot handle signals, nothing changes.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.getsignal(number) for number in numbers}

        def note(number: int, _frame: FrameType | None) -> None:
            self.signal = number
            signal.signal(number, before[signal.Signals(number)])

        for number in numbers:
            signal.signal(number, note)
        try:
            yield
        finally:
            for number in numbers:
                signal.signal(number, before[number])

    def leave(self) -> None:
        """End the program as the signal would have, here or in another process."""
        if self.signal == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + (self.signal or signal.SIGTERM))


@final
class Stopping:
    """Whether to stop after this step, answered alike to ranks that share it.

    They ask equally often, and one of them may be the only one that saw a signal.
    """

    def __init__(self, interruption: Interruption, ranks: StepRanks | None) -> None:
        self._interruption = interruption
        self._ranks = ranks
        self._asked = 0
        self._agreed = False

    def __call__(self) -> bool:
        """Return whether all stop here."""
        if self._ranks is None:
            return self._interruption.requested
        self._asked += 1
        if not self._agreed and self._asked % STEPS_BETWEEN_QUESTIONS == 0:
            self._agreed = self._ranks.agreed(self._interruption.requested)
        return self._agreed


@dataclass(frozen=True)
class Plan:
    """What does not change during a run."""

    source: BatchSource
    unlabeled: BatchSource | None  # unlabeled data that come beside them, if any
    spec: TrainingSpec
    seeds: Sequence[int]  # those of all members, wherever they train
    exchange: Exchange  # how members in other processes are reached
    advance: Callable[[int], None]  # called with the number of member-steps just done
    stopping: Callable[[], bool]
    clock: Clock  # to which runners say when they prepare for steps
    body: Body | None = None  # what members share, if they are heads

    @cached_property
    def steps(self) -> int:
        """Steps per epoch."""
        return steps_per_epoch(self.source.samples, self.spec.batch_size)

    def source_of(self, member: TrainingMember) -> BatchSource:
        """Return the training data as a member sees them."""
        if not isinstance(self.spec.augment, PerMember):
            return self.source
        steps = self.spec.augment.of(member.index, len(self.seeds))
        return replace(self.source, augmentations=steps)

    def groups(self, members: Sequence[TrainingMember]) -> list[list[TrainingMember]]:
        """Return members in groups that see the same batches.

        Only heads do, unless each has a policy, or divides the data, in its own way.
        """
        found: dict[object, list[TrainingMember]] = {}
        own = self.body is None or isinstance(self.spec.augment, PerMember)
        for member in members:
            split = member.split
            alone = own or (split is not None and split.is_proper)
            key = member.index if alone else split and split.division
            found.setdefault(key, []).append(member)
        return [*found.values()]

    def data_seed(self, member: TrainingMember) -> int:
        """Return what the order of a member's data and their changes derive from.

        All heads on one body see the data as the first member does.
        """
        return member.seed if self.body is None else self.seeds[0]

    @cached_property
    def course(self) -> Course:
        """Which members train in which epochs."""
        return self.spec.course(len(self.seeds))

    @property
    def coupled_seed(self) -> int:
        """What the draws that coupled members share derive from."""
        return derive(*self.seeds, "coupled")

    def rows(self, seed: int, step: int, epoch: int) -> Tensor:
        """Return the indices of the steps left in an epoch, ``(steps, batch)``."""
        left = (epoch + 1) * self.steps - step
        return index_stream(self.source.samples, self.spec.batch_size, seed, step, left)

    def member_rows(
        self, member: TrainingMember, epoch: int
    ) -> tuple[Tensor, Division | None]:
        """Return this process's part of the batches that a member has left in an epoch.

        Indices, and how each batch of them is divided. After an exchange that divided
        the data, each kind is a stream of its own that begins with that exchange.
        """
        split = member.split
        division = None if split is None else split.division
        if split is None or not split.is_proper:
            rows = self.rows(self.data_seed(member), member.step, epoch)
        else:
            rows = stratified_stream(
                split,
                min(self.spec.batch_size, self.source.samples),
                derive(member.seed, "since", member.exchanged),
                member.step - member.exchanged * self.steps,
                (epoch + 1) * self.steps - member.step,
            )
        if member.ranks is None:
            return rows, division
        return own_rows(rows, division, member.ranks.rank, member.ranks.size)

    def batches(self, member: TrainingMember, epoch: int) -> Iterator[Batch]:
        """Return the batches that a member has left in an epoch."""
        rows, division = self.member_rows(member, epoch)
        source = self.source_of(member)
        batches = self._seen(source, rows, self.data_seed(member), epoch)
        if division is None:
            return batches
        return (batch._replace(division=division) for batch in batches)

    def _seen(
        self, source: BatchSource, rows: Tensor, seed: int, epoch: int
    ) -> Iterator[Batch]:
        """Return batches as members see them: of features, if they are heads."""
        batches = source.batches(rows, seed, epoch)
        return batches if self.body is None else map(self.body.features, batches)

    def pairs(
        self, seed: int, step: int, epoch: int
    ) -> Iterator[tuple[Batch, Batch | None]]:
        """Yield the batches that coupled members have left in an epoch.

        Each comes with an unlabeled one, where there are such data.
        """
        rows = self.rows(seed, step, epoch)
        labeled = self._seen(self.source, rows, seed, epoch)
        if self.unlabeled is None:
            return zip(labeled, repeat(None), strict=False)
        stream, left = derive(seed, "unlabeled"), (epoch + 1) * self.steps - step
        rows = index_stream(
            self.unlabeled.samples, self.spec.batch_size, stream, step, left
        )
        other = self._seen(self.unlabeled, rows, stream, epoch)
        return zip(labeled, other, strict=True)

    def turn(
        self, method: CoupledMethod, members: int, seed: int, step: int
    ) -> ActiveMembers:
        """Return which coupled members take part in a step."""
        _, progress = self.time(step)
        return method.turn(members, progress, generator(seed, "active", step))

    def time(self, step: int) -> tuple[float, float]:
        """Return the learning rate's factor at a step and the share of the run done."""
        return self.factor(step), step / (self.steps * self.spec.epochs)

    def factor_after(self, progress: float) -> float:
        """Return the learning rate's factor after a share of the run."""
        return self.factor(int(progress * self.steps * self.spec.epochs))

    def factor(self, step: int) -> float:
        """Return the learning rate's factor at a step."""
        first, end, _ = self.course.cycle(step // self.steps)
        done = step - first * self.steps
        return self.spec.schedule.factor(done, self.steps, end - first)


class Runner(ABC):
    """Runs the steps of an epoch for all members."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    @abstractmethod
    def run_epoch(self, members: Sequence[TrainingMember], epoch: int) -> None:
        """Run what is left of an epoch; return early when asked to stop."""

    def release(self) -> None:  # noqa: B027 - most runners hold nothing
        """Give back the memory that only this runner holds."""


@final
class EagerRunner(Runner):
    """Members in turn, operation by operation: an epoch each, or heads a step each."""

    def run_epoch(self, members: Sequence[TrainingMember], epoch: int) -> None:
        """Run what is left of an epoch."""
        for group in self.plan.groups(members):
            with ExitStack() as stack:
                for member in group:
                    stack.enter_context(member.on_device())
                self._run(group, epoch)
            if self.plan.stopping():
                return

    def _run(self, members: Sequence[TrainingMember], epoch: int) -> None:
        for member in members:
            member.module.train()
        behind = min(members, key=lambda member: member.step)
        steps = range(behind.step, (epoch + 1) * self.plan.steps)
        # All at once, which takes a fifth of the time that it would between passes.
        times = [*map(self.plan.time, steps)]
        seeds = [[derive(m.seed, "noise", step) for m in members] for step in steps]
        batches = self.plan.batches(behind, epoch)
        for step, batch, time, own in zip(steps, batches, times, seeds, strict=True):
            for member, noise_seed in zip(members, own, strict=True):
                if member.step > step:  # when it was stopped, it was ahead
                    continue
                member.set_time(*time)
                member.noise_seed = noise_seed
                member.step_losses[step % self.plan.steps] = member_step(member, batch)
                member.step += 1
                self.plan.advance(1)
            if self.plan.stopping():
                return


def member_step(member: TrainingMember, batch: Batch) -> Tensor:
    """Update an independent member; return its loss. All of this may be captured."""
    assert isinstance(member.method, MemberMethod)
    loss, gradients = member.method.gradient(member, batch)
    member.take_step(gradients)
    return loss
