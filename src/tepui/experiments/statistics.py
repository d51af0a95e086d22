"""Means and slopes over repeated ensembles, with their errors."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, linear_regression, stdev
from typing import Literal

from torch import Tensor

from tepui.checks import one_of, require


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
    from scipy import stats

    require(0 < confidence < 1, "confidence", "lie between 0 and 1", confidence)
    require(len(values) >= 2, "values", "hold at least two", len(values))
    found = estimate(values)
    quantile = float(stats.t.ppf((1 + confidence) / 2, found.count - 1))
    reach = quantile * found.error
    return found.mean - reach, found.mean + reach


@dataclass(frozen=True)
class Slope:
    """A straight line through points, and how well its slope is known.

    Attributes:
        slope: The slope by ordinary least squares.
        low: Lower end of its confidence interval.
        high: Upper end.
        intercept: Where the line meets zero.
        count: How many points there are.
    """

    slope: float
    low: float
    high: float
    intercept: float
    count: int


def estimate_pairs(
    matrix: Sequence[Sequence[float]] | Tensor,
    over: Literal["members", "pairs"] = "members",
) -> Estimate:
    """Return the mean over pairs of members with its standard error.

    Pairs that share a member depend on each other, so that the error over pairs is too
    small; over members, it is the error of their mean values against all others.

    Args:
        matrix: A value for each two members, such as ``pairwise_disagreement`` gives;
            the diagonal is not read.
        over: What counts as one value: a member's mean over its pairs in both
            directions, or a pair.

    Returns:
        The estimate; the mean is the same either way.

    Raises:
        ValueError: If the matrix is not square, has one row, or ``over`` is unknown.

    Example:
        >>> matrix = [[0.0, 0.1, 0.2], [0.1, 0.0, 0.6], [0.2, 0.6, 0.0]]
        >>> round(estimate_pairs(matrix).mean, 3)
        0.3
        >>> estimate_pairs(matrix, over="pairs").count
        3
    """
    one_of("over", over, ("members", "pairs"))
    rows = [[float(value) for value in row] for row in matrix]
    size = len(rows)
    shape = (size, len(rows[0]) if rows else 0)
    square = size >= 2 and all(len(row) == size for row in rows)
    require(square, "matrix", "be square, with two rows or more", shape)
    both = {
        (i, j): (rows[i][j] + rows[j][i]) / 2 for i, j in combinations(range(size), 2)
    }
    if over == "pairs":
        return estimate(both.values())
    return estimate(
        fmean(value for pair, value in both.items() if member in pair)
        for member in range(size)
    )


def tradeoff_slope(
    sharpness: Sequence[float],
    diversity: Sequence[float],
    *,
    log: bool = True,
    confidence: float = 0.95,
) -> Slope:
    r"""Return the slope :math:`\beta` of diversity against sharpness.

    The slope of log diversity on log sharpness, one point per trained ensemble, by
    ordinary least squares, with the interval of Student's t: by how many percent
    diversity grows where sharpness grows by one.

    Args:
        sharpness: One value per ensemble, positive unless ``log`` is false.
        diversity: As many values.
        log: Fit logarithms; otherwise the values themselves.
        confidence: Probability that the interval covers the slope.

    Returns:
        The line; the interval of two points is unbounded.

    Raises:
        ValueError: If there are fewer than two points, lengths differ, a value is not
            finite (or not positive, for logarithms), or all sharpness values are equal.

    Example:
        >>> line = tradeoff_slope([1.0, 2.0, 4.0], [3.0, 6.0, 12.0])
        >>> round(line.slope, 6)
        1.0
    """
    from scipy import stats

    require(0 < confidence < 1, "confidence", "lie between 0 and 1", confidence)
    require(len(sharpness) >= 2, "sharpness", "hold at least two values", sharpness)
    require(
        len(diversity) == len(sharpness),
        "diversity",
        f"hold {len(sharpness)} values",
        len(diversity),
    )
    x, y = (
        _scaled(name, values, log)
        for name, values in (("sharpness", sharpness), ("diversity", diversity))
    )
    require(len(set(x)) > 1, "sharpness", "hold different values", sharpness)
    slope, intercept = linear_regression(x, y)
    freedom = len(x) - 2
    if not freedom:
        return Slope(slope, -math.inf, math.inf, intercept, len(x))
    residuals = sum((v - slope * u - intercept) ** 2 for u, v in zip(x, y, strict=True))
    spread = sum((u - fmean(x)) ** 2 for u in x)
    error = math.sqrt(residuals / freedom / spread)
    reach = float(stats.t.ppf((1 + confidence) / 2, freedom)) * error
    return Slope(slope, slope - reach, slope + reach, intercept, len(x))


def _scaled(name: str, values: Sequence[float], log: bool) -> list[float]:
    rule = "be finite and positive" if log else "be finite"
    for value in values:
        require(math.isfinite(value) and (not log or value > 0), name, rule, value)
    return [math.log(value) if log else float(value) for value in values]
