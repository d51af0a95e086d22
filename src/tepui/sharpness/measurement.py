"""What a measure of sharpness returns: a value, its standard error, its settings."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from tepui.core.checks import require
from tepui.core.storage import finite_or_none
from tepui.core.types import check_types


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


def mean_of(
    values: Tensor, settings: Mapping[str, Any], kind: str = "sample"
) -> Measurement:
    """Return the mean of independent values.

    Args:
        values: One value per sample, batch or draw.
        settings: Everything the mean depends on besides model and data.
        kind: What one value belongs to; the error that reports a NaN names it.

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
    wide = without_nan(values, kind).double()
    return Measurement(float(wide.mean()), _error(wide), settings)


def crossed_mean_of(values: Tensor, settings: Mapping[str, Any]) -> Measurement:
    """Return the mean of values of every draw at every sample, ``(draws, samples)``.

    Neither rows nor columns are independent, so the variances of both means are added;
    what is particular to one draw at one sample counts twice, on the safe side.
    """
    wide = without_nan(values, "(draw, sample)").double()
    errors = [_error(wide.mean(axis)) for axis in (0, 1)]
    defined = [error for error in errors if not math.isnan(error)]
    error = math.hypot(*defined) if defined else math.nan
    return Measurement(float(wide.mean()), error, settings)


def without_nan(values: Tensor, kind: str) -> Tensor:
    """Return values unchanged, or raise naming the first that is NaN."""
    bad = values.isnan()
    if bad.any():
        where = bad.nonzero()[0].tolist()
        first = where[0] if len(where) == 1 else tuple(where)
        raise ValueError(
            f"values that the model gives must not be NaN, got {int(bad.sum())} NaN "
            f"value(s) of {values.numel()}, the first at {kind} {first}"
        )
    return values


def _error(values: Tensor) -> float:
    """Return the standard error of a mean, NaN for a single value."""
    if len(values) < 2:
        return math.nan
    return float(values.std() / len(values) ** 0.5)
