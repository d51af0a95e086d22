"""Means over repeated ensembles, with their standard errors."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean, stdev


@dataclass(frozen=True)
class Estimate:
    """A mean and how well it is known.

    Attributes:
        mean: The mean; NaN if there is no value.
        error: Standard error of the mean; NaN for fewer than two values.
        count: How many values there are.
    """

    mean: float
    error: float
    count: int


def estimate(values: Iterable[float | None]) -> Estimate:
    r"""Return the mean with its standard error :math:`s / \sqrt{n}`.

    Args:
        values: One per repetition; None and NaN are left out.

    Returns:
        The estimate.

    Example:
        >>> estimate([1.0, 3.0])
        Estimate(mean=2.0, error=1.0, count=2)
    """
    known = [value for value in values if value is not None and not math.isnan(value)]
    if not known:
        return Estimate(math.nan, math.nan, 0)
    error = stdev(known) / math.sqrt(len(known)) if len(known) > 1 else math.nan
    return Estimate(fmean(known), error, len(known))
