"""Running members side by side on one GPU, each as a captured graph.

A member's whole step, from the cutting of its batch to the optimizer, is captured once
and replayed on a stream of its own; streams meet at the end of an epoch. What a step
may do is written in :mod:`tepui.methods.base`.

A replayed graph does the same work on the same tensors. One that finds its batch, its
learning rate and the place of its loss by a counter on the device needs nothing from
the host but the launch, so that many small members share a GPU without waiting for it.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import final

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.core.warning import warn
from tepui.data.arrays import Batch
from tepui.training.batches import TensorSource
from tepui.training.member import TrainingMember
from tepui.training.member_state import tensors_of
from tepui.training.recording import NotCapturable, Recording, record
from tepui.training.runner import EagerRunner, Plan, Runner, member_step
from tepui.training.streams import lane

log = logging.getLogger(__name__)


class Feed(ABC):
    """What one member's captured step reads and writes."""

    def __init__(self, plan: Plan, member: TrainingMember) -> None:
        self.plan = plan
        self.member = member
        self._last = 0  # the step at which the epoch ends
        # Which step of the epoch is next, and the learning rates and progress of all.
        self._position = torch.zeros(1, dtype=torch.int64, device=member.device)
        width = len(member.peak_rates) + 1
        self._times = member.learning_rate.new_zeros(plan.steps, width)

    def begin(self, epoch: int) -> None:
        """Load what is left of an epoch."""
        first, self._last = self.member.step, (epoch + 1) * self.plan.steps
        times = [self.plan.time(step) for step in range(first, self._last)]
        rows = [(*self.member.rates(factor), progress) for factor, progress in times]
        place = first % self.plan.steps
        self._times[place:] = torch.tensor(rows, dtype=self._times.dtype)
        self._position.fill_(place)

    def set_time(self) -> None:
        """Set learning rate and progress; part of the captured step."""
        row = self._times.index_select(0, self._position)[0]
        self.member.set_time_from(row)

    def record(self, loss: Tensor) -> None:
        """Keep a loss and count the step; part of the captured step."""
        self.member.step_losses.index_copy_(0, self._position, loss.detach().view(1))
        self._position.add_(1).remainder_(self.plan.steps)

    @abstractmethod
    def batch(self) -> Batch:
        """Return the step's batch; part of the captured step."""

    @abstractmethod
    def advance(self) -> bool:
        """Get the next step's batch ready; return whether there is a step left."""


@final
class TableFeed(Feed):
    """Batches of data that lie on the device, cut there by a table of indices."""

    def __init__(
        self, plan: Plan, member: TrainingMember, source: TensorSource, epoch: int
    ) -> None:
        super().__init__(plan, member)
        self._source = source
        rows, self._division = plan.member_rows(member, epoch)
        self._rows = self._position.new_zeros(plan.steps, rows.shape[1])
        self._draws = source.draws(member.seed, 0, member.device)

    def begin(self, epoch: int) -> None:
        """Load what is left of an epoch."""
        super().begin(epoch)
        place = self.member.step % self.plan.steps
        self._rows[place:], _ = self.plan.member_rows(self.member, epoch)
        draws = self._source.draws(self.member.seed, epoch, self.member.device)
        self._draws.copy_(draws)

    def batch(self) -> Batch:
        """Cut, augment and normalize the step's batch."""
        index = self._rows.index_select(0, self._position)[0]
        batch = in_fastest_format(self._source.cut(index, self._draws))
        return batch._replace(division=self._division)

    def advance(self) -> bool:
        """Return whether there is a step left."""
        return self.member.step < self._last


@final
class LoadedFeed(Feed):
    """Batches that a loader brings, copied into tensors that stay in place."""

    def __init__(self, plan: Plan, member: TrainingMember, epoch: int) -> None:
        super().__init__(plan, member)
        self._batches = plan.batches(member, epoch)
        self._fixed = fixed_batch(next(self._batches))

    def begin(self, epoch: int) -> None:
        """Load what is left of an epoch."""
        super().begin(epoch)
        self._batches = self.plan.batches(self.member, epoch)

    def batch(self) -> Batch:
        """Return the tensors that are filled before every step."""
        return self._fixed

    def advance(self) -> bool:
        """Copy the next batch into its place, if there is one."""
        batch = next(self._batches, None)
        if batch is None:
            return False
        refill(self._fixed, batch)
        return True


def feed_of(plan: Plan, member: TrainingMember, epoch: int) -> Feed:
    """Return the fastest feed for a plan's data, at the beginning of an epoch."""
    feed: Feed
    source = plan.source_of(member)
    size = min(plan.spec.batch_size, plan.source.samples)
    if isinstance(source, TensorSource) and source.at_once(size) == 1:
        feed = TableFeed(plan, member, source, epoch)
    else:
        feed = LoadedFeed(plan, member, epoch)
    feed.begin(epoch)
    return feed


def fixed_batch(batch: Batch) -> Batch:
    """Return a copy of a batch for a graph to read from, in its fastest format."""
    return in_fastest_format(batch.mapped(Tensor.clone))


def refill(fixed: Batch, batch: Batch) -> None:
    """Queue the copies that give a graph another batch of the same shape."""
    pairs = [*zip(_tensors(fixed), _tensors(batch), strict=True)]
    fits = all(old.shape == new.shape and old.dtype == new.dtype for old, new in pairs)
    rule = "have the shapes of the batch with which the step was captured; a method "
    got = f"{tuple(batch.targets.shape)} targets, divided by {batch.division}"
    fits = fits and fixed.division == batch.division
    require(fits, "batch", f"{rule}that varies them must say so in fixed_shapes", got)
    for old, new in pairs:
        old.copy_(new, non_blocking=True)


def in_fastest_format(batch: Batch) -> Batch:
    """Lay out images by pixel, as convolutions on a GPU read them."""
    if not isinstance(batch.inputs, Tensor) or batch.inputs.ndim != 4:
        return batch
    inputs, *views = (
        images.contiguous(memory_format=torch.channels_last)
        for images in (batch.inputs, *batch.views)
    )
    return batch._replace(inputs=inputs, views=tuple(views))


def _tensors(batch: Batch) -> list[Tensor]:
    inputs = batch.inputs
    parts = [inputs] if isinstance(inputs, Tensor) else list(inputs.values())
    return [*parts, batch.targets, batch.index, *(batch.partners or ()), *batch.views]


@dataclass(frozen=True)
class Captured:
    """A member's step as a graph."""

    recording: Recording[None]
    feed: Feed  # what it reads and writes


@final
class GraphRunner(Runner):
    """Captured steps, all members side by side.

    Members whose steps a graph would not repeat run eagerly, with a warning.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._captured: dict[int, Captured] = {}
        self._captured_for: list[tuple[int, int, str]] = []
        self._eager: EagerRunner | None = None

    def run_epoch(self, members: Sequence[TrainingMember], epoch: int) -> None:
        """Run what is left of an epoch."""
        last = (epoch + 1) * self.plan.steps
        if all(member.step == last for member in members):
            return
        with torch.cuda.device(members[0].device):
            self._run(members, epoch)

    def _run(self, members: Sequence[TrainingMember], epoch: int) -> None:
        # What members received changes their steps, and so does another phase.
        now = [(m.index, m.exchanged, m.phase) for m in members]
        if self._eager is None and now != self._captured_for:
            self.release()
            self._captured_for = now
            with self.plan.clock.during("capturing"):
                self._capture_all(members, epoch)
        if self._eager is not None:
            self._eager.run_epoch(members, epoch)
            return
        lanes = [(member, self._captured[member.index]) for member in members]
        for _, captured in lanes:
            with torch.cuda.stream(captured.recording.stream):
                captured.feed.begin(epoch)
        running = True
        while running and not self.plan.stopping():
            running = False
            for member, captured in lanes:
                running |= self._replay(member, captured)
        torch.cuda.synchronize()

    def _replay(self, member: TrainingMember, captured: Captured) -> bool:
        """Queue a member's next step; return whether there was one."""
        with torch.cuda.stream(captured.recording.stream):
            if not captured.feed.advance():
                return False
            captured.recording.replay([member], member.step)
        member.step += 1
        self.plan.advance(1)
        return True

    def release(self) -> None:
        """Give back the memory of all graphs."""
        self._captured, self._captured_for = {}, []
        torch.cuda.empty_cache()

    def _capture_all(self, members: Sequence[TrainingMember], epoch: int) -> None:
        try:
            for member in members:
                member.module.train()
                feed = feed_of(self.plan, member, epoch)
                self._captured[member.index] = capture(member, feed)
        except NotCapturable as reason:
            warn_of_eager_steps(reason)
            self._captured, self._eager = {}, EagerRunner(self.plan)
            return
        log.info(
            "captured the steps of %d members before epoch %d", len(members), epoch
        )


def warn_of_eager_steps(reason: NotCapturable) -> None:
    """Say why steps are not captured."""
    text = f"members' steps run eagerly instead of as captured graphs: {reason}"
    warn(text)


def capture(member: TrainingMember, feed: Feed) -> Captured:
    """Capture a member's step, leaving its state as it was."""
    # Collectives of two streams could meet in another order on another rank.
    stream = lane(member.device, member.index if member.ranks is None else 0)
    step = partial(fed_step, member, feed)
    recording = record(step, [member], feed.batch(), taken_back(member), stream)
    return Captured(recording, feed)


def fed_step(member: TrainingMember, feed: Feed) -> None:
    """Update a member with what its feed has for it. All of this is captured."""
    feed.set_time()
    feed.record(member_step(member, feed.batch()))


@contextmanager
def taken_back(member: TrainingMember) -> Iterator[None]:
    """Take back in place, after the block, all that steps in it changed."""
    before = {name: tensor.clone() for name, tensor in tensors_of(member).items()}
    try:
        yield
    finally:
        with torch.no_grad():
            for name, tensor in tensors_of(member).items():
                if name in before:
                    tensor.copy_(before[name])
                else:
                    # Made by the optimizer in its first step; its beginning is zero.
                    assert name.startswith("optimizer/"), name
                    tensor.zero_()
