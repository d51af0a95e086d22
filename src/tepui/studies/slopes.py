"""The slope of diversity against sharpness over ensembles."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, linear_regression

from tepui.core.checks import require


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
