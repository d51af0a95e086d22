"""Means over repetitions, with their standard errors and confidence intervals."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import fmean, stdev
from typing import Literal

from torch import Tensor

from tepui.core.checks import one_of, require
from tepui.core.types import check_types


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
        values: One per repetition; None and NaN are left out. An infinite one has an
            infinite mean, of which no error is known.

    Returns:
        The estimate.

    Example:
        >>> estimate([1.0, 3.0])
        Estimate(mean=2.0, error=1.0, count=2)
    """
    defined = [value for value in values if value is not None and not math.isnan(value)]
    if not defined:
        return Estimate(math.nan, math.nan, 0)
    known = len(defined) > 1 and all(map(math.isfinite, defined))
    error = stdev(defined) / math.sqrt(len(defined)) if known else math.nan
    return Estimate(fmean(defined), error, len(defined))


def t_interval(
    values: Sequence[float], confidence: float = 0.95
) -> tuple[float, float]:
    """Return Student's confidence interval of a mean.

    Args:
        values: Two or more.
        confidence: Probability that the interval covers the mean.

    Returns:
        Lower and upper end.

    Raises:
        ValueError: If there are fewer than two values.

    Example:
        >>> low, high = t_interval([1.0, 3.0])
        >>> round(low, 2), round(high, 2)
        (-10.71, 14.71)
    """
    check_types(t_interval, locals())
    from scipy import stats

    require(0 < confidence < 1, "confidence", "lie between 0 and 1", confidence)
    require(len(values) >= 2, "values", "hold at least two", len(values))
    mean = estimate(values)
    quantile = float(stats.t.ppf((1 + confidence) / 2, mean.count - 1))
    reach = quantile * mean.error
    return mean.mean - reach, mean.mean + reach


@dataclass(frozen=True)
class Interval:
    """A mean with its confidence interval.

    Attributes:
        mean: The mean; NaN if there is no value.
        low: Lower end; NaN for fewer than two values.
        high: Upper end.
        count: How many values there are.
    """

    mean: float
    low: float
    high: float
    count: int

    @property
    def reach(self) -> float:
        """Half the width."""
        return (self.high - self.low) / 2

    def within(self, least: float = 0.0, most: float = math.inf) -> "Interval":
        """Return the interval without what lies beyond all that the mean can be.

        Args:
            least: The smallest value that is possible.
            most: The largest one.

        Returns:
            The same mean; an end that lay beyond is the limit itself.

        Example:
            >>> Interval(98.5, 96.0, 101.0, 2).within(0, 100)
            Interval(mean=98.5, low=96.0, high=100, count=2)
        """
        low = least if self.low < least else self.low
        high = most if self.high > most else self.high
        return replace(self, low=low, high=high)


def mean_interval(values: Iterable[float | None]) -> Interval:
    """Return the mean with Student's 95 % interval, the one of pages and tables.

    Args:
        values: One per repetition; None and NaN are left out.

    Returns:
        The interval.

    Example:
        >>> found = mean_interval([1.0, None, 3.0])
        >>> found.mean, round(found.reach, 2), found.count
        (2.0, 12.71, 2)
    """
    defined = [value for value in values if value is not None and not math.isnan(value)]
    mean = estimate(defined)
    if mean.count < 2 or math.isinf(mean.mean):
        return Interval(mean.mean, math.nan, math.nan, mean.count)
    return Interval(mean.mean, *t_interval(defined), mean.count)


def estimate_pairs(
    matrix: Sequence[Sequence[float]] | Tensor,
    over: Literal["members", "pairs"] = "members",
) -> Estimate:
    """Return the mean over pairs of members with its standard error.

    Pairs that share a member depend on each other, so that the error over pairs is too
    small. Over members it is that of the jackknife, which leaves out one member with
    all of its pairs at a time.

    Args:
        matrix: A value for each two members, such as ``pairwise_disagreement`` gives;
            the diagonal is not read.
        over: What counts as one value: a member or a pair.

    Returns:
        The estimate; the mean is the same either way. Two members are one pair, whose
        error is not known.

    Raises:
        ValueError: If the matrix is not square, has one row, or ``over`` is unknown.

    Example:
        >>> matrix = [[0.0, 0.1, 0.2], [0.1, 0.0, 0.6], [0.2, 0.6, 0.0]]
        >>> round(estimate_pairs(matrix).mean, 3)
        0.3
        >>> estimate_pairs(matrix, over="pairs").count
        3
    """
    check_types(estimate_pairs, locals())
    one_of("over", over, ("members", "pairs"))
    if over == "pairs":
        return estimate(_pairs(matrix).values())
    return estimate(pair_pseudo_values(matrix))


def pair_pseudo_values(
    matrix: Sequence[Sequence[float]] | Tensor,
) -> list[float | None]:
    r"""Return a value per member whose mean is the mean over pairs.

    The pseudo-values of the jackknife, :math:`n U - (n - 1) U_{-i}`, where :math:`U`
    is the mean over pairs of :math:`n` members and :math:`U_{-i}` the same without
    member :math:`i`. Their standard error is that of :math:`U`; the means of members
    over their pairs vary too little, since each member is in all of them.

    Args:
        matrix: A value for each two members; the diagonal is not read.

    Returns:
        One value per member; for two members their value and None.

    Raises:
        ValueError: If the matrix is not square or has one row.

    Example:
        >>> matrix = [[0.0, 0.1, 0.2], [0.1, 0.0, 0.6], [0.2, 0.6, 0.0]]
        >>> tuple(round(value, 3) for value in pair_pseudo_values(matrix))
        (-0.3, 0.5, 0.7)

    References:
        Arvesen (1969), Jackknifing U-statistics.
    """
    both = _pairs(matrix)
    if len(matrix) == 2:
        return [both[0, 1], None]
    size, whole = len(matrix), fmean(both.values())
    without = (
        fmean(value for pair, value in both.items() if member not in pair)
        for member in range(size)
    )
    return [size * whole - (size - 1) * rest for rest in without]


def _pairs(
    matrix: Sequence[Sequence[float]] | Tensor,
) -> dict[tuple[int, int], float]:
    """Return the value of each two members, averaged over both directions."""
    rows = [[float(value) for value in row] for row in matrix]
    size = len(rows)
    shape = (size, len(rows[0]) if rows else 0)
    square = size >= 2 and all(len(row) == size for row in rows)
    require(square, "matrix", "be square, with two rows or more", shape)
    return {
        (i, j): (rows[i][j] + rows[j][i]) / 2 for i, j in combinations(range(size), 2)
    }
