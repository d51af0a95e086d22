"""Tests of means: paired differences, equivalence, and several hypotheses at once."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tepui.core.checks import require
from tepui.studies.statistics import error_in_steps, estimate, t_interval


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

    @property
    def apart(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low > 0 or self.high < 0

    @property
    def reach(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2


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
    gaps = (a - b for a, b in pairs if a is not None and b is not None)
    return [value for value in gaps if not math.isnan(value)]


def paired_difference(
    first: Sequence[float | None],
    second: Sequence[float | None],
    confidence: float = 0.95,
    *,
    step: float = 0.0,
) -> Difference:
    """Compare two methods by Student's t on the differences over shared seeds.

    What a seed does to both methods cancels, so that far fewer repetitions are needed
    than without pairs.

    Args:
        first: One per repetition; None and NaN where it is not defined.
        second: As many, in the same order of seeds.
        confidence: Probability that the interval covers the difference.
        step: The smallest change that a value can show, see :func:`t_interval`;
            differences of two such values are known to √2 times that.

    Returns:
        The difference of the pairs that are defined. Where all differences are the
        same and no step is given, the interval is that point and p is 0, or 1 for a
        difference of zero.

    Raises:
        ValueError: If lengths differ, fewer than two pairs are defined or a difference
            is infinite.

    Example:
        >>> found = paired_difference([91.0, 93.0, 92.0], [90.0, 91.5, 90.5])
        >>> round(found.mean, 3), round(found.p, 3), found.count
        (1.333, 0.015, 3)
    """
    values = differences(first, second)
    rule = "have at least two pairs that are defined"
    require(len(values) >= 2, "first and second", rule, len(values))
    finite = all(map(math.isfinite, values))
    require(finite, "first and second", "differ by finite numbers", values)
    both = math.sqrt(2) * step
    low, high = t_interval(values, confidence, step=both)
    mean = estimate(values)
    error = error_in_steps(mean, both)
    below, above = tails(mean.mean, error, mean.count - 1, 0.0)
    return Difference(
        mean.mean, low, high, min(1.0, 2 * min(below, above)), len(values)
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
    require(low < high, "margin", "have its lower end below its upper end", margin)
    require(len(values) >= 2, "values", "hold at least two", len(values))
    mean = estimate(values)
    above = tails(mean.mean, mean.error, mean.count - 1, low)[1]
    below = tails(mean.mean, mean.error, mean.count - 1, high)[0]
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
