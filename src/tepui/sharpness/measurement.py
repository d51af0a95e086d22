"""What a measure of sharpness looks at, and what it returns.

It looks at batches, all or part of a data set, and returns a value with its standard
error and its settings.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves
from torch.utils.data import Dataset

from tepui.core.checks import class_indices, require
from tepui.core.seeding import generator as seeded_generator
from tepui.core.storage import finite_or_none
from tepui.core.types import check_types
from tepui.data.arrays import Batch
from tepui.data.loading import as_arrays, at_rows, length, targets_of
from tepui.losses import CrossEntropy, Loss, cross_entropy
from tepui.modules.running import blocks, device_of, forward, refusal_named, undisturbed


@dataclass(frozen=True)
class Measurement:
    """A measured value.

    Attributes:
        value: The estimate.
        standard_error: Its standard error over samples or batches and over random
            draws, with the data seen as a sample of a distribution; NaN for a single
            batch or draw.
        settings: Everything the value depends on besides model and data, as values
            that JSON can hold.

    Example:
        >>> Measurement(0.25, 0.01, {"measure": "worst_case", "rho": 0.5})
        Measurement(value=0.25, standard_error=0.01, settings={'measure': 'worst_case', 'rho': 0.5})
    """  # noqa: E501 - a doctest must show the whole value

    value: float
    standard_error: float
    settings: Mapping[str, Any]

    def document(self) -> dict[str, Any]:
        """Return the measurement for JSON, with None for what is undefined."""
        return {
            "value": finite_or_none(self.value),
            "standard_error": finite_or_none(self.standard_error),
            "settings": dict(self.settings),
        }


def mean_of(values: Tensor, settings: Mapping[str, Any]) -> Measurement:
    """Return the mean of independent values.

    Args:
        values: One value per sample, batch or draw.
        settings: Everything the mean depends on besides model and data.

    Returns:
        The mean with its standard error.

    Raises:
        ValueError: If there is no value, or one is NaN.

    Example:
        >>> mean = mean_of(Tensor([1.0, 3.0]), {})
        >>> mean.value, mean.standard_error
        (2.0, 1.0)
    """
    check_types(mean_of, locals())
    shape = tuple(values.shape)
    require(values.ndim > 0 and 0 not in shape, "values", "hold at least one", shape)
    wide = without_nan(values).double()
    return Measurement(float(wide.mean()), _error(wide), settings)


def crossed_mean_of(values: Tensor, settings: Mapping[str, Any]) -> Measurement:
    """Return the mean of values of every draw at every sample, ``(draws, samples)``.

    Neither rows nor columns are independent, so the variances of both means are added;
    what is particular to one draw at one sample counts twice, on the safe side.
    """
    wide = without_nan(values).double()
    errors = [_error(wide.mean(axis)) for axis in (0, 1)]
    defined = [error for error in errors if not math.isnan(error)]
    error = math.hypot(*defined) if defined else math.nan
    return Measurement(float(wide.mean()), error, settings)


def without_nan(values: Tensor) -> Tensor:
    """Return values unchanged, or raise if one is NaN."""
    bad, rule = int(values.isnan().sum()), "not be NaN"
    found = f"{bad} NaN value(s) of {values.numel()}"
    require(bad == 0, "values that the model gives", rule, found)
    return values


def _error(values: Tensor) -> float:
    """Return the standard error of a mean, NaN for a single value."""
    if len(values) < 2:
        return math.nan
    return float(values.std() / len(values) ** 0.5)


Data = Dataset[Any]

KEPT_BYTES = 2**30


@dataclass(frozen=True, eq=False)
class Selection:
    """Batches that can be iterated over any number of times, always the same.

    Attributes:
        dataset: A map-style data set of ``(x, y)``.
        loss: The loss that is measured.
        device: Where the batches go.
        rows: Rows of each batch.
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

        Large ones are read again and again.
        """
        if as_arrays(self.dataset) is not None:
            return self
        size = sum(part.nbytes for part in tree_leaves(next(iter(self)).inputs))
        large = size * len(self) > KEPT_BYTES
        return self if large else replace(self, kept=tuple(self))


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
        dataset: A map-style data set of ``(x, y)``.
        loss: Returns one loss per sample; class labels are checked for cross-entropy.
        batch_size: Samples per batch.
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
    available = length(dataset)
    wanted = min(num_samples or available, available)
    rows = list(_drawn(available, wanted, generator, mixed).split(batch_size))
    if mixed and len(rows) > 1 and len(rows[-1]) < batch_size:
        rows.pop()
    chosen = Selection(dataset, loss, device_of(model), rows)
    return replace(chosen, classes=_checked_classes(model, chosen, pixels))


def radii_of(rho: float | Sequence[float]) -> list[float]:
    """Return one radius or several as a list, each finite in float32 too."""
    radii = [*rho] if isinstance(rho, Sequence) else [rho]
    require(len(radii) > 0, "rho", "be a number, or several", radii)
    for radius in radii:
        fits = 0 <= radius <= torch.finfo(torch.float32).max
        require(fits, "rho", "be finite and non-negative", radius)
    return radii


def name_of(loss: Loss) -> str:
    """Return how a loss is named in settings."""
    return str(getattr(loss, "__name__", repr(loss)))


def _drawn(
    available: int, wanted: int, generator: torch.Generator | None, mixed: bool
) -> Tensor:
    if not mixed and wanted == available:
        return torch.arange(available)
    stream = seeded_generator("selection") if generator is None else generator
    order = torch.randperm(available, generator=stream, device=stream.device).cpu()
    rows = order[:wanted]
    return rows if mixed else rows.sort().values


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
        targets = targets_of(chosen.dataset)
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
