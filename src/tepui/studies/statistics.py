"""Means, differences and slopes over repeated ensembles, with their errors."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, linear_regression, stdev
from typing import Literal

import torch
from torch import Tensor

from tepui.core.checks import one_of, require
from tepui.core.seeding import generator


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
class Difference:
    """A mean difference of pairs, and how well it is known.

    Attributes:
        mean: Of the first less the second.
        low: Lower end of its confidence interval.
        high: Upper end.
        p: Two-sided, of the hypothesis that the true mean is zero.
        count: How many pairs there are.
    """

    mean: float
    low: float
    high: float
    p: float
    count: int


def differences(
    first: Sequence[float | None], second: Sequence[float | None]
) -> list[float]:
    """Return the differences of values that share a seed.

    Args:
        first: One per repetition; None and NaN where it is not defined.
        second: As many, in the same order of seeds.

    Returns:
        First less second, where both are defined.

    Raises:
        ValueError: If lengths differ.

    Example:
        >>> differences([3.0, None, 5.0], [1.0, 1.0, 1.0])
        [2.0, 4.0]
    """
    alike = len(first) == len(second)
    require(alike, "second", f"hold {len(first)} values", len(second))
    pairs = zip(first, second, strict=True)
    found = (a - b for a, b in pairs if a is not None and b is not None)
    return [value for value in found if not math.isnan(value)]


def paired_difference(
    first: Sequence[float | None],
    second: Sequence[float | None],
    confidence: float = 0.95,
) -> Difference:
    """Compare two methods by Student's t on the differences over shared seeds.

    What a seed does to both methods cancels, so that far fewer repetitions are needed
    than without pairs.

    Args:
        first: One per repetition; None and NaN where it is not defined.
        second: As many, in the same order of seeds.
        confidence: Probability that the interval covers the difference.

    Returns:
        The difference of the pairs that are defined. Where all differences are the
        same, the interval is that point and p is 0, or 1 for a difference of zero.

    Raises:
        ValueError: If lengths differ or fewer than two pairs are defined.

    Example:
        >>> found = paired_difference([91.0, 93.0, 92.0], [90.0, 91.5, 90.5])
        >>> round(found.mean, 3), round(found.p, 3), found.count
        (1.333, 0.015, 3)
    """
    values = differences(first, second)
    low, high = t_interval(values, confidence)
    found = estimate(values)
    below, above = tails(found.mean, found.error, found.count - 1, 0.0)
    return Difference(
        found.mean, low, high, min(1.0, 2 * min(below, above)), len(values)
    )


def tails(
    mean: float, error: float, freedom: float, bound: float
) -> tuple[float, float]:
    """Return the one-sided p-values of a mean against a bound.

    Example:
        >>> below, above = tails(1.0, 0.0, 2, 0.0)
        >>> below, above
        (1.0, 0.0)
    """
    from scipy.special import stdtr

    if error == 0 or math.isinf(bound):
        return float(mean >= bound), float(mean <= bound)
    score = (mean - bound) / error
    return float(stdtr(freedom, score)), float(stdtr(freedom, -score))


def equivalence(values: Sequence[float], margin: float | tuple[float, float]) -> float:
    """Test that a mean lies within a margin, by two one-sided tests.

    An interval that covers zero does not show that there is no effect; one that lies
    within a margin shows that the effect, if any, is smaller.

    Args:
        values: Such as differences over shared seeds, two or more.
        margin: How far from zero no longer counts as equal, or both ends.

    Returns:
        The p-value of "not within": small where the mean is clearly within.

    Raises:
        ValueError: If there are fewer than two values or the margin is empty.

    Example:
        >>> round(equivalence([0.1, -0.1, 0.05, -0.02], margin=0.5), 4)
        0.0007
    """
    low, high = (-margin, margin) if isinstance(margin, int | float) else margin
    require(low < high, "margin", "leave room between its ends", margin)
    require(len(values) >= 2, "values", "hold at least two", len(values))
    found = estimate(values)
    above = tails(found.mean, found.error, found.count - 1, low)[1]
    below = tails(found.mean, found.error, found.count - 1, high)[0]
    return max(above, below)


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p-values for their number, after Holm.

    Rejecting where the corrected value is at most α errs in any of them with a
    probability of at most α, however they depend on each other.

    Args:
        p_values: One per hypothesis, between 0 and 1.

    Returns:
        As many corrected values, in the same order.

    Raises:
        ValueError: If a value lies outside 0 to 1.

    Example:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    for value in p_values:
        require(0 <= value <= 1, "p_values", "lie between 0 and 1", value)
    count, largest = len(p_values), 0.0
    corrected = [0.0] * count
    order = sorted(range(count), key=p_values.__getitem__)
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (count - rank) * p_values[index]))
        corrected[index] = largest
    return corrected


def bootstrap_interval(
    values: Sequence[float],
    confidence: float = 0.95,
    *,
    resamples: int = 9999,
    seed: int = 0,
) -> tuple[float, float]:
    """Return the bootstrap interval of a mean, corrected for bias and skewness (BCa).

    Assumes no shape, but with few values it is too short: ten or more are sensible.

    Args:
        values: Two or more.
        confidence: Probability that the interval covers the mean.
        resamples: How many samples to draw from the values.
        seed: What they derive from.

    Returns:
        Lower and upper end; the mean twice where all values are the same.

    Raises:
        ValueError: If there are fewer than two values, or an argument breaks its rule.

    Example:
        >>> low, high = bootstrap_interval([1.0, 2.0, 3.0, 4.0, 10.0])
        >>> low < 4.0 < high
        True

    References:
        Efron (1987), Better bootstrap confidence intervals.
    """
    from scipy.special import ndtr, ndtri

    require(0 < confidence < 1, "confidence", "lie between 0 and 1", confidence)
    require(len(values) >= 2, "values", "hold at least two", len(values))
    require(resamples >= 1, "resamples", "be at least 1", resamples)
    sample = torch.tensor(values, dtype=torch.float64)
    mean, count = sample.mean(), len(values)
    away = sample - mean
    if not away.any():
        return float(mean), float(mean)
    draws = generator(seed, "bootstrap")
    chosen = torch.randint(count, (resamples, count), generator=draws)
    means = sample[chosen].mean(1)
    below = (means < mean).double().mean() + (means == mean).double().mean() / 2
    bias = ndtri(float(below))
    skewness = float((away**3).sum() / (6 * (away**2).sum() ** 1.5))
    ends = []
    for probability in ((1 - confidence) / 2, (1 + confidence) / 2):
        shifted = bias + ndtri(probability)
        ends.append(float(ndtr(bias + shifted / (1 - skewness * shifted))))
    low, high = means.quantile(torch.tensor(ends, dtype=torch.float64)).tolist()
    return low, high


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
        >>> [round(value, 3) for value in pair_pseudo_values(matrix)]
        [-0.3, 0.5, 0.7]

    References:
        Arvesen (1969), Jackknifing U-statistics.
    """
    both = _pairs(matrix)
    size, whole = len(matrix), fmean(both.values())
    if size == 2:
        return [whole, None]
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
