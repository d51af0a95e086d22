"""Tests of means: paired and crossed differences, and several hypotheses at once."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from tepui.core.checks import require
from tepui.studies.statistics import estimate, t_interval

LEAST_SEEDS, LEAST_SAMPLES = 3, 300  # with which simulated intervals hold what they say
SMALLEST = 1e-12  # p that is told


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
    low, high = t_interval(values, confidence)
    mean = estimate(values)
    p = min(1.0, 2 * min(tails(mean.mean, mean.error, mean.count - 1, 0.0)))
    return Difference(mean.mean, low, high, p, len(values))


def crossed_errors(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return the standard errors of a mean over seeds and over samples.

    Args:
        values: ``(…, seeds, samples)``: the same samples under every seed.

    Returns:
        The error of what another seed changes, at all samples and at each, and that of
        what another test changes under all seeds, ``(…)``.

    Example:
        >>> import torch
        >>> seeds, samples = crossed_errors(torch.tensor([[0.0, 2.0], [2.0, 4.0]]))
        >>> float(seeds), float(samples)
        (1.0, 1.0)
    """
    repeated, tested = values.shape[-2:]
    by_seed, by_sample = values.mean(-1, keepdim=True), values.mean(-2, keepdim=True)
    rest = values - by_seed - by_sample + by_seed.mean(-2, keepdim=True)
    both = rest.square().sum((-2, -1)) / ((repeated - 1) * (tested - 1) * tested)
    of_samples = by_sample.squeeze(-2).var(-1) / tested - both / repeated
    of_seeds = by_seed.squeeze(-1).var(-1) / repeated
    return of_seeds.sqrt(), of_samples.clamp(min=0).sqrt()


def crossed_difference(values: Tensor, confidence: float = 0.95) -> Difference:
    r"""Return a mean over seeds and test samples, with an interval for both.

    Other seeds would give other networks, and other samples another test:

    .. math:: r^2 = (t_{S-1} e_S)^2 + (t_{N-1} e_N)^2

    is the square of half the width for :math:`S` seeds and :math:`N` samples, with the
    errors :math:`e` of :func:`crossed_errors`. In simulations
    (``research/crossed_intervals.md``) 95 % intervals hold the true difference at least
    93 % of the time from three seeds and 300 samples on.

    Args:
        values: Differences of two methods, ``(seeds, samples)``.
        confidence: Probability that the interval covers the difference.

    Returns:
        The difference; the interval at the level 1 - p begins at zero. For fewer seeds
        or samples than that no interval is known: its ends are NaN and p is 1.

    Example:
        >>> import torch
        >>> values = torch.arange(900.0).reshape(3, 300) % 7 + torch.arange(3)[:, None]
        >>> found = crossed_difference(values)
        >>> round(found.mean, 2), round(found.reach, 2), found.count
        (3.99, 2.49, 3)
    """
    from scipy import optimize, stats

    require(values.ndim == 2, "values", "have shape (seeds, samples)", values.shape)
    require(0 < confidence < 1, "confidence", "be between 0 and 1", confidence)
    values, (seeds, samples) = values.double(), values.shape
    mean = float(values.mean())
    if seeds < LEAST_SEEDS or samples < LEAST_SAMPLES:
        return Difference(mean, math.nan, math.nan, 1.0, seeds)
    errors = [float(error) for error in crossed_errors(values)]

    def reach(p: float) -> float:
        quantiles = stats.t.isf(p / 2, [seeds - 1, samples - 1])
        return math.hypot(*(q * e for q, e in zip(quantiles, errors, strict=True)))

    p, half = SMALLEST if mean else 1.0, reach(1 - confidence)
    if reach(p) > abs(mean):
        p = float(optimize.brentq(lambda p: reach(p) - abs(mean), p, 1.0))
    return Difference(mean, mean - half, mean + half, p, seeds)


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
