"""The batches a measure looks at: a data set or a loader, all of it or a part."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import (
    DataLoader,
    Dataset,
    RandomSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from tepui.core.checks import class_indices, require
from tepui.core.seeding import generator as seeded_generator
from tepui.core.seeding import seeded
from tepui.data.arrays import Arrays, Batch, Inputs
from tepui.data.loading import as_arrays, at_rows, inputs_to, length
from tepui.losses import CrossEntropy, Loss, cross_entropy
from tepui.modules.running import blocks, device_of, forward, undisturbed

Data = Dataset[Any] | DataLoader[Any]

SHUFFLING = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)


@dataclass(frozen=True, eq=False)
class Selection:
    """Batches that can be gone through any number of times, always the same.

    Attributes:
        data: A map-style data set of ``(x, y)``, or a loader that does not shuffle.
        device: Where the batches go.
        rows: Rows of each batch; for a loader only their numbers matter.
        classes: If given, labels are checked against it on the host.
        kept: Batches that were read already.
    """

    data: Data
    device: torch.device
    rows: Sequence[Tensor]
    classes: int | None = None
    kept: Sequence[Batch] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Batch]:
        if self.kept is not None:
            yield from self.kept
        elif isinstance(self.data, DataLoader):
            yield from self._from_loader(self.data)
        else:
            yield from at_rows(
                self.data, self.rows, device=self.device, num_classes=self.classes
            )

    @property
    def samples(self) -> int:
        """How many samples there are."""
        return sum(map(len, self.rows))

    @property
    def settings(self) -> dict[str, int]:
        """Sizes, as they go into a measurement's settings."""
        return {"samples": self.samples, "batch_size": max(map(len, self.rows))}

    def held(self) -> "Selection":
        """Return the same batches, read once if each pass would read them anew."""
        if _in_tensors(self.data) is not None:
            return self
        return replace(self, kept=tuple(self))

    def _from_loader(self, loader: DataLoader[Any]) -> Iterator[Batch]:
        # Transforms that draw from torch's generator draw alike in every pass.
        with seeded("selection"):
            for row, item in zip(self.rows, loader, strict=False):
                yield self._batch(row, *_pair(item))

    def _batch(self, row: Tensor, inputs: Inputs, targets: Tensor) -> Batch:
        if self.classes is not None:
            class_indices(targets, self.classes)
        batch = Batch(
            inputs_to(inputs, self.device),
            targets.to(self.device, non_blocking=True),
            row.to(self.device),
        )
        return batch if len(targets) == len(row) else batch.take(slice(len(row)))


def select(
    model: nn.Module,
    data: Data,
    loss: Loss,
    *,
    batch_size: int,
    num_samples: int | None = None,
    generator: torch.Generator | None = None,
    mixed: bool = False,
) -> Selection:
    """Choose batches for a model, and check that they fit it.

    Args:
        model: The model that will see them.
        data: A map-style data set of ``(x, y)``, or a loader that does not shuffle.
        loss: Returns one loss per sample; class labels are checked for cross-entropy.
        batch_size: Samples per batch of a data set; a loader has its own.
        num_samples: How many samples; None takes all.
        generator: Draws them; the first ones without it.
        mixed: Draw the order too, and leave a last, smaller batch out.

    Returns:
        Batches on the model's device that can be gone through again and again.

    Raises:
        ValueError: If an argument breaks its rule, or the data do not fit the model.
    """
    require(batch_size > 0, "batch_size", "be positive", batch_size)
    require(
        num_samples is None or num_samples > 0,
        "num_samples",
        "be positive",
        num_samples,
    )
    device = device_of(model)
    if isinstance(data, DataLoader):
        chosen = Selection(data, device, _loader_rows(data, num_samples))
    else:
        rows = _drawn(length(data), num_samples, generator, mixed)
        parts = list(rows.split(batch_size))
        if mixed and len(parts) > 1 and len(parts[-1]) < batch_size:
            parts.pop()
        chosen = Selection(data, device, parts)
    return replace(chosen, classes=_checked_classes(model, chosen, loss))


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
    require(
        not isinstance(loader.sampler, SHUFFLING),
        "data",
        "keep one order, so that measures of several models can be compared "
        "(shuffle=False)",
        f"a loader with {type(loader.sampler).__name__}",
    )
    batch_size = loader.batch_size
    require(
        batch_size is not None and loader.batch_sampler is not None,
        "data",
        "be a data set, or a loader with batches of one size",
        "a loader with a batch sampler of its own",
    )
    available = len(loader.sampler)  # type: ignore[arg-type]
    require(available > 0, "data", "hold at least one sample", available)
    wanted = available if num_samples is None else min(num_samples, available)
    rows = torch.arange(wanted).split(batch_size or 1)
    return list(rows[: len(loader)])


def _in_tensors(data: Data) -> Arrays | None:
    return None if isinstance(data, DataLoader) else as_arrays(data)


def _pair(item: Any) -> tuple[Any, Any]:
    if not isinstance(item, tuple | list) or len(item) != 2:
        raise ValueError(f"data must yield pairs (x, y), got {type(item).__name__}")
    return item[0], item[1]


def _checked_classes(model: nn.Module, chosen: Selection, loss: Loss) -> int | None:
    """Run two samples, so that what does not fit is said in words, not by a GPU."""
    first = next(iter(chosen))
    few = next(blocks(first, 2))
    with undisturbed(model), torch.no_grad():
        outputs = forward(model, few.inputs)
    require(
        outputs.ndim >= 1 and len(outputs) == len(few.targets),
        "model",
        f"return one row per sample ({len(few.targets)})",
        tuple(outputs.shape),
    )
    classes = _classes(outputs, few.targets, loss)
    if classes is not None:
        arrays = _in_tensors(chosen.data)
        if arrays is None:
            class_indices(first.targets, classes)
        else:
            rows = torch.cat(list(chosen.rows)).to(arrays.device)
            class_indices(arrays.targets[rows], classes)
    losses = loss(outputs, few.targets)
    require(
        losses.shape == few.targets.shape[:1],
        "loss",
        f"return one value per sample ({len(few.targets)},)",
        tuple(losses.shape),
    )
    return classes


def _classes(outputs: Tensor, targets: Tensor, loss: Loss) -> int | None:
    """Return the number of classes where labels are class indices."""
    classifies = loss is cross_entropy or isinstance(loss, CrossEntropy)
    if not classifies or targets.is_floating_point():
        return None
    require(
        outputs.ndim == 2, "model", "return (samples, classes)", tuple(outputs.shape)
    )
    return outputs.shape[1]
