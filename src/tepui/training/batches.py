"""Where training batches come from: index streams and the data they point into.

A member sees an endless stream: the data set reshuffled again and again, cut into
batches of one size. An epoch is ``ceil(samples / batch_size)`` batches, so every
sample is seen about once an epoch, shapes never change, and the position in the stream
follows from the number of steps done.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.seeding import derive, generator
from tepui.data.arrays import Arrays, Batch, Division, Inputs, prepared
from tepui.data.augment import Augmentation, ByteAugmentation, augment, knowing
from tepui.data.loading import as_arrays, length, loaded, read_ahead
from tepui.data.mixing import Mixing
from tepui.data.stored import StoredData

VALUES_AT_ONCE = 2**22


def steps_per_epoch(samples: int, batch_size: int) -> int:
    """Return how many batches make an epoch."""
    return -(-samples // batch_size)


def index_stream(
    samples: int, batch_size: int, seed: int, first_step: int, steps: int
) -> Tensor:
    """Return the samples of some consecutive steps of a member's stream.

    Example:
        >>> rows = index_stream(samples=5, batch_size=2, seed=13, first_step=0, steps=5)
        >>> rows.flatten().bincount()  # five steps of two see every sample twice
        tensor([2, 2, 2, 2, 2])
    """
    size = min(batch_size, samples)
    if steps == 0:
        return torch.empty((0, size), dtype=torch.int64)
    start, stop = first_step * size, (first_step + steps) * size
    cycles = range(start // samples, -(-stop // samples))
    order = torch.cat(
        [
            torch.randperm(samples, generator=generator(seed, "order", cycle))
            for cycle in cycles
        ]
    )
    skipped = cycles.start * samples
    return order[start - skipped : stop - skipped].view(steps, size)


@dataclass(frozen=True, eq=False)
class BatchSplit:
    """How the training data, and with them every batch, are divided in two."""

    first: Tensor  # indices of the samples of the first kind
    second: Tensor  # indices of the samples of the second kind
    rows: int  # how many samples of a batch are of the first kind

    @classmethod
    def of(cls, mask: Tensor, batch_size: int, ranks: int = 1) -> Self:
        """Divide batches in proportion to the data, with both kinds for each rank."""
        first, second = mask.nonzero()[:, 0].cpu(), (~mask).nonzero()[:, 0].cpu()
        size = min(batch_size, len(mask))
        # BatchNorm cannot normalize one sample: two of each kind where there are.
        fewest = min(2 * ranks, size // 2)
        lowest, highest = min(fewest, len(first)), size - min(fewest, len(second))
        rows = min(max(round(size * len(first) / len(mask)), lowest), highest)
        return cls(first, second, rows)

    @property
    def is_proper(self) -> bool:
        """Whether there are samples of both kinds."""
        return len(self.first) > 0 and len(self.second) > 0

    @property
    def division(self) -> Division:
        """How every batch is divided."""
        share = len(self.first) / (len(self.first) + len(self.second))
        return Division(self.rows, share)


def stratified_stream(
    split: BatchSplit, batch_size: int, seed: int, first_step: int, steps: int
) -> Tensor:
    """Return consecutive steps whose batches are divided as ``split`` says."""
    parts = []
    for number, (rows, size) in enumerate(
        [(split.first, split.rows), (split.second, batch_size - split.rows)]
    ):
        stream = derive(seed, "stratum", number)
        parts.append(rows[index_stream(len(rows), size, stream, first_step, steps)])
    return torch.cat(parts, dim=1)


@dataclass(frozen=True)
class BatchSource(ABC):
    """A data set ready to be trained on.

    With ``views`` the last augmentation makes further views of the samples, each with
    numbers of its own, and leaves the samples themselves as they are.
    """

    augmentations: tuple[Augmentation, ...]
    views: int = field(default=0, kw_only=True)

    @property
    @abstractmethod
    def samples(self) -> int:
        """How many samples there are."""

    @abstractmethod
    def batches(self, rows: Tensor, seed: int, epoch: int) -> Iterator[Batch]:
        """Yield the batches of one epoch."""

    def draws(self, seed: int, epoch: int, device: torch.device) -> Tensor:
        """Return this epoch's random numbers, one row per sample."""
        columns = sum(augmentation.draws for augmentation in self.augmentations)
        if self.views:
            columns += (self.views - 1) * self.augmentations[-1].draws
        stream = generator(seed, "augment", epoch)
        return torch.rand(self.samples, columns, generator=stream).to(device)

    @property
    def mixes(self) -> bool:
        """Whether samples are mixed with others of their batch."""
        return any(isinstance(step, Mixing) for step in self.augmentations)

    def finished(self, batch: Batch, draws: Tensor) -> Batch:
        """Augment, prepare and mix raw samples, each with its row of ``draws``."""
        if not self.augmentations:
            return batch._replace(inputs=self.prepare(batch.inputs))
        *steps, last = self.augmentations
        if not (self.views or self.mixes):
            steps.append(last)
        columns = sum(step.draws for step in steps)
        common, own = draws[batch.index].tensor_split([columns], dim=1)
        inputs = augment(batch.inputs, steps, common)
        batch = batch._replace(inputs=self.prepare(inputs))
        if isinstance(last, Mixing):
            return last.mixed(batch, own)
        parts = own.chunk(self.views, dim=1) if self.views else ()
        views = [self.prepare(augment(inputs, [last], part)) for part in parts]
        return batch._replace(views=tuple(views))  # type: ignore[arg-type]

    @abstractmethod
    def prepare(self, inputs: Inputs) -> Inputs:
        """Return augmented inputs as a model sees them."""


@dataclass(frozen=True)
class TensorSource(BatchSource):
    """Data held in tensors on the training device."""

    arrays: Arrays

    @property
    def samples(self) -> int:
        """How many samples there are."""
        return len(self.arrays)

    def batches(self, rows: Tensor, seed: int, epoch: int) -> Iterator[Batch]:
        """Yield batches cut, augmented and normalized where the data lie."""
        draws = self.draws(seed, epoch, self.arrays.device)
        size = rows.shape[1]
        rows, together = rows.to(self.arrays.device), self.at_once(size)
        if together == 1:
            yield from (self.cut(index, draws) for index in rows)
            return
        for several in rows.split(together):
            cut = self.cut(several.flatten(), draws)
            for first in range(0, several.numel(), size):
                yield cut.take(slice(first, first + size))

    def at_once(self, size: int) -> int:
        """Return how many batches of a size are cut and augmented together.

        Operations on bytes are many small ones: a GPU takes as long for ten batches as
        for one, and a CPU, whose cache is small, longer than for ten times one.
        """
        inputs = self.arrays.inputs
        many = any(isinstance(step, ByteAugmentation) for step in self.augmentations)
        on_cpu = self.arrays.device.type == "cpu"
        if on_cpu or self.mixes or not many or not isinstance(inputs, Tensor):
            return 1
        return max(1, VALUES_AT_ONCE // (size * inputs[0].numel()))

    def cut(self, index: Tensor, draws: Tensor) -> Batch:
        """Return some samples, augmented and normalized."""
        targets = self.arrays.targets.index_select(0, index)
        inputs = self.arrays.raw(index)
        if not self.augmentations:
            return Batch(self.prepare(inputs), targets, index)
        return self.finished(Batch(inputs, targets, index), draws)

    def prepare(self, inputs: Inputs) -> Inputs:
        """Return augmented inputs as a model sees them."""
        return self.arrays.prepare(inputs)


@dataclass(frozen=True)
class ReadSource(BatchSource):
    """Data that stay where they are: in storage, or behind a ``DataLoader``.

    Those in storage are read ahead of the steps that need them, by a thread.
    """

    data: Dataset[Any]
    device: torch.device  # where batches go
    workers: int  # processes that load what lies behind a loader
    classes: int | None  # if given, labels are checked against this number of classes

    @property
    def samples(self) -> int:
        """How many samples there are."""
        return length(self.data)

    def batches(self, rows: Tensor, seed: int, epoch: int) -> Iterator[Batch]:
        """Yield batches as they are read, augmented and normalized on the device."""
        draws = self.draws(seed, epoch, self.device)
        if isinstance(self.data, StoredData):
            read = read_ahead(self.data, [*rows], device=self.device)
        else:
            read = loaded(
                self.data,
                rows.tolist(),
                device=self.device,
                workers=self.workers,
                key=(seed, "transform", epoch),
                num_classes=self.classes,
            )
        for batch in read:
            yield self.finished(batch, draws)

    def prepare(self, inputs: Inputs) -> Inputs:
        """Return augmented inputs as a model sees them."""
        if isinstance(self.data, StoredData):
            return self.data.prepare(inputs)
        return prepared(inputs, None)


def source_of(
    dataset: Dataset[Any],
    augmentations: Sequence[Augmentation],
    device: torch.device,
    workers: int,
    classes: int | None,
    *,
    views: int = 0,
) -> BatchSource:
    """Return the fastest source for a data set."""
    arrays, steps = as_arrays(dataset), knowing(augmentations, dataset)
    if arrays is not None:
        return TensorSource(steps, arrays.to(device), views=views)
    return ReadSource(steps, dataset, device, workers, classes, views=views)
