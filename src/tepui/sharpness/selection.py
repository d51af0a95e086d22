"""The batches a measure looks at: all or part of a data set or a loader."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from tepui.core.checks import class_indices, require
from tepui.core.seeding import generator as seeded_generator
from tepui.core.seeding import seeded
from tepui.core.types import check_types
from tepui.data.arrays import Arrays, Batch, Inputs, prepared
from tepui.data.loading import (
    SHUFFLING,
    as_arrays,
    at_rows,
    inputs_to,
    length,
    targets_of,
)
from tepui.data.stored import StoredData
from tepui.losses import CrossEntropy, Loss, cross_entropy
from tepui.modules.running import blocks, device_of, forward, refusal_named, undisturbed

Data = Dataset[Any] | DataLoader[Any]

KEPT_BYTES = 2**30


@dataclass(frozen=True, eq=False)
class Selection:
    """Batches that can be iterated over any number of times, always the same.

    Attributes:
        dataset: A map-style data set of ``(x, y)``, or a loader that does not shuffle.
        loss: The loss that is measured.
        device: Where the batches go.
        rows: Rows of each batch; for a loader only their numbers matter.
        classes: If given, labels are checked against it on the host.
        kept: Batches that have been read already.
    """

    dataset: Data
    loss: Loss
    device: torch.device
    rows: Sequence[Tensor]
    classes: int | None = None
    kept: Sequence[Batch] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Batch]:
        if self.kept is not None:
            yield from self.kept
        elif isinstance(self.dataset, DataLoader):
            yield from self._from_loader(self.dataset)
        else:
            yield from at_rows(
                self.dataset, self.rows, device=self.device, num_classes=self.classes
            )

    @property
    def samples(self) -> int:
        """How many samples there are."""
        return sum(map(len, self.rows))

    @property
    def sizes(self) -> dict[str, int]:
        """Numbers of samples, in all and per batch."""
        return {"samples": self.samples, "batch_size": max(map(len, self.rows))}

    def settings(self, measure: str, **options: Any) -> dict[str, Any]:
        """Return what a measurement depends on besides model and data.

        Args:
            measure: The name of the measure.
            options: Its options, each a value that JSON can hold.

        Returns:
            The name of the measure, that of the loss, the options and the sizes.
        """
        loss = name_of(self.loss)
        return {"measure": measure, "loss": loss, **options, **self.sizes}

    def held(self) -> "Selection":
        """Return the same batches, read only once if there is room for them.

        Those of data that stay in storage are read again and again where they are
        large.
        """
        if _in_tensors(self.dataset) is not None or self._too_large():
            return self
        return replace(self, kept=tuple(self))

    def _too_large(self) -> bool:
        if not isinstance(self.dataset, StoredData):
            return False
        inputs = next(iter(self)).inputs
        parts = [inputs] if isinstance(inputs, Tensor) else [*inputs.values()]
        return sum(part.nbytes for part in parts) * len(self) > KEPT_BYTES

    def _from_loader(self, loader: DataLoader[Any]) -> Iterator[Batch]:
        # Transforms that draw from torch's generator draw alike in every pass.
        with seeded("selection"):
            for row, item in zip(self.rows, loader, strict=False):
                yield self._batch(row, *_pair(item))

    def _batch(self, row: Tensor, inputs: Inputs, targets: Tensor) -> Batch:
        if self.classes is not None:
            class_indices(targets, self.classes)
        batch = Batch(
            prepared(inputs_to(inputs, self.device), None),
            targets.to(self.device, non_blocking=True),
            row.to(self.device),
        )
        return batch if len(targets) == len(row) else batch.take(slice(len(row)))


def select(
    model: nn.Module,
    dataset: Data,
    loss: Loss,
    batch_size: int,
    num_samples: int | None = None,
    generator: torch.Generator | None = None,
    *,
    mixed: bool = False,
    pixels: bool = False,
) -> Selection:
    """Choose batches for a model, and check that they fit it.

    Args:
        model: The model that will see them.
        dataset: A map-style data set of ``(x, y)``, or a loader that does not shuffle.
        loss: Returns one loss per sample; class labels are checked for cross-entropy.
        batch_size: Samples per batch of a data set; a loader has its own.
        num_samples: How many samples; None takes all.
        generator: Draws them; None always draws the same ones.
        mixed: Draw the order too, and leave out a smaller last batch.
        pixels: Take labels of pixels too, whose mean is a sample's loss.

    Returns:
        Batches on the model's device that can be iterated over again and again.

    Raises:
        ValueError: If an argument breaks its rule, or the data do not fit the model.
    """
    check_types(select, locals())
    require(batch_size > 0, "batch_size", "be positive", batch_size)
    enough = num_samples is None or num_samples > 0
    require(enough, "num_samples", "be positive", num_samples)
    if isinstance(dataset, DataLoader):
        rows = _loader_rows(dataset, num_samples)
    else:
        drawn = _drawn(length(dataset), num_samples, generator, mixed)
        rows = list(drawn.split(batch_size))
        if mixed and len(rows) > 1 and len(rows[-1]) < batch_size:
            rows.pop()
    chosen = Selection(dataset, loss, device_of(model), rows)
    return replace(chosen, classes=_checked_classes(model, chosen, pixels))


def name_of(loss: Loss) -> str:
    """Return how a loss is named in settings."""
    return str(getattr(loss, "__name__", repr(loss)))


def _drawn(
    available: int,
    num_samples: int | None,
    generator: torch.Generator | None,
    mixed: bool,
) -> Tensor:
    wanted = available if num_samples is None else min(num_samples, available)
    if not mixed and wanted == available:
        return torch.arange(available)
    stream = seeded_generator("selection") if generator is None else generator
    order = torch.randperm(available, generator=stream, device=stream.device).cpu()
    rows = order[:wanted]
    return rows if mixed else rows.sort().values


def _loader_rows(loader: DataLoader[Any], num_samples: int | None) -> list[Tensor]:
    rule = "keep its order, so that models can be compared (shuffle=False)"
    shuffling = isinstance(loader.sampler, SHUFFLING)
    sampler = f"a loader with {type(loader.sampler).__name__}"
    require(not shuffling, "dataset", rule, sampler)
    batch_size = loader.batch_size
    even = batch_size is not None and loader.batch_sampler is not None
    rule = "be a data set, or a loader with batches of one size"
    require(even, "dataset", rule, "a loader with a batch sampler of its own")
    available = len(loader.sampler)  # type: ignore[arg-type]
    require(available > 0, "dataset", "hold at least one sample", available)
    wanted = available if num_samples is None else min(num_samples, available)
    rows = torch.arange(wanted).split(batch_size or 1)
    return list(rows[: len(loader)])


def _in_tensors(dataset: Data) -> Arrays | None:
    return None if isinstance(dataset, DataLoader) else as_arrays(dataset)


def _targets(dataset: Data) -> Tensor | None:
    return None if isinstance(dataset, DataLoader) else targets_of(dataset)


def _pair(item: Any) -> tuple[Any, Any]:
    if not isinstance(item, tuple | list) or len(item) != 2:
        raise ValueError(f"dataset must yield pairs (x, y), got {type(item).__name__}")
    return item[0], item[1]


def _checked_classes(model: nn.Module, chosen: Selection, pixels: bool) -> int | None:
    """Run two samples, so that a misfit is reported in words and not by a GPU."""
    first = next(iter(chosen))
    few = next(blocks(first, 2))
    with undisturbed(model), torch.no_grad(), refusal_named(few.inputs):
        outputs = forward(model, few.inputs)
    samples = len(few.targets)
    rows_fit = outputs.ndim >= 1 and len(outputs) == samples
    rule = f"return one row per sample ({samples})"
    require(rows_fit, "model", rule, tuple(outputs.shape))
    classes = _classes(outputs, few.targets, chosen.loss, pixels)
    if classes is not None:
        targets = _targets(chosen.dataset)
        if targets is None:
            class_indices(first.targets, classes)
        else:
            rows = torch.cat(list(chosen.rows)).to(targets.device)
            class_indices(targets[rows], classes)
    rule = f"return one value per sample ({samples},)"
    try:
        losses = chosen.loss(outputs, few.targets)
    except (IndexError, RuntimeError, TypeError) as error:
        raise ValueError(f"loss must {rule}, but: {error}") from error
    shape = getattr(losses, "shape", None)
    got = type(losses).__name__ if shape is None else tuple(shape)
    require(shape == (samples,), "loss", rule, got)
    return classes


def _classes(outputs: Tensor, targets: Tensor, loss: Loss, pixels: bool) -> int | None:
    """Return the number of classes where labels are class indices."""
    classifies = loss is cross_entropy or isinstance(loss, CrossEntropy)
    if not classifies or targets.is_floating_point():
        return None
    shape = tuple(outputs.shape)
    fits = outputs.ndim == 2 or (pixels and outputs.ndim > 2)
    require(fits, "model", "return (samples, classes)", shape)
    return outputs.shape[1]
