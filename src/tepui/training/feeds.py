"""What captured steps read and write, found on the device by the step's number.

A replayed graph does the same work on the same tensors. One that finds its batch, its
learning rate and the place of its loss by a counter on the device needs nothing from
the host but the launch, so that many small members share a GPU without waiting for it.
"""

from abc import ABC, abstractmethod
from typing import final

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.data.arrays import Batch
from tepui.training.batches import TensorSource
from tepui.training.member import TrainingMember
from tepui.training.runner import Plan


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
        self, plan: Plan, member: TrainingMember, source: TensorSource
    ) -> None:
        super().__init__(plan, member)
        self._source = source
        size = min(plan.spec.batch_size, source.samples)
        self._rows = self._position.new_zeros(plan.steps, size)
        self._draws = source.draws(member.seed, 0, member.device)
        self._division = None if member.split is None else member.split.division

    def begin(self, epoch: int) -> None:
        """Load what is left of an epoch."""
        super().begin(epoch)
        place = self.member.step % self.plan.steps
        self._rows[place:] = self.plan.member_rows(self.member, epoch)
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
        feed = TableFeed(plan, member, source)
    else:
        feed = LoadedFeed(plan, member, epoch)
    feed.begin(epoch)
    return feed


def fixed_batch(batch: Batch) -> Batch:
    """Return a copy of a batch for a graph to read from, in its fastest format."""
    return in_fastest_format(batch.mapped(Tensor.clone))


def refill(fixed: Batch, batch: Batch) -> None:
    """Queue the copies that give a graph another batch of the same shape."""
    expected, given = _shape(fixed), _shape(batch)
    rule = (
        "have the shapes of the batch with which the step was captured "
        f"({expected}); a method whose steps differ in shape must say so in "
        "fixed_shapes"
    )
    require(expected == given, "batch", rule, given)
    for old, new in zip(_tensors(fixed), _tensors(batch), strict=True):
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


def _shape(batch: Batch) -> dict[str, object]:
    inputs = batch.inputs
    named = {"inputs": inputs} if isinstance(inputs, Tensor) else dict(inputs)
    shapes: dict[str, object] = {
        name: (tuple(tensor.shape), tensor.dtype)
        for name, tensor in {**named, "targets": batch.targets}.items()
    }
    return {**shapes, "division": batch.division}


def _tensors(batch: Batch) -> list[Tensor]:
    inputs = batch.inputs
    parts = [inputs] if isinstance(inputs, Tensor) else list(inputs.values())
    return [*parts, batch.targets, batch.index, *(batch.partners or ()), *batch.views]
