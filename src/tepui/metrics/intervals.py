"""How often intervals and quantiles hold, and how wide they have to be for that."""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.metrics.chunks import wide
from tepui.metrics.streaming import Streaming
from tepui.metrics.targets import (
    TargetMean,
    check_levels,
    joint_tensors,
    quantile_tensors,
)


def interval_coverage(lower: Tensor, upper: Tensor, targets: Tensor) -> Tensor:
    """Share of targets inside their interval, ends included.

    Best where it is what was promised; range [0, 1].

    Args:
        lower: Lower ends, of shape ``(samples, …)``.
        upper: Upper ends, of the same shape.
        targets: The true numbers, of the same shape.

    Returns:
        A scalar.

    Example:
        >>> lower, upper = torch.zeros(4), torch.ones(4)
        >>> interval_coverage(lower, upper, torch.tensor([0.0, 0.5, 1.0, 2.0]))
        tensor(0.7500)
    """
    stream = IntervalCoverage()
    stream.update(lower, upper, targets)
    return stream.compute()


@final
class IntervalCoverage(TargetMean):
    """Streaming :func:`interval_coverage`."""

    def update(self, lower: Tensor, upper: Tensor, targets: Tensor) -> None:
        """Take in some samples.

        Args:
            lower: Lower ends, of shape ``(samples, …)``.
            upper: Upper ends, of the same shape.
            targets: The true numbers, of the same shape.
        """
        low, high, answers = joint_tensors(lower=lower, upper=upper, targets=targets)
        inside = (low <= answers) & (answers <= high)
        self.add(inside, lower, upper, targets)


def interval_width(lower: Tensor, upper: Tensor) -> Tensor:
    """Mean width of intervals, ``mean (u - l)``.

    Lower is better among intervals that hold equally often; in the unit of the targets.

    Args:
        lower: Lower ends, of shape ``(samples, …)``.
        upper: Upper ends, of the same shape.

    Returns:
        A scalar.

    Example:
        >>> interval_width(torch.zeros(2), torch.tensor([1.0, 2.0]))
        tensor(1.5000)
    """
    stream = IntervalWidth()
    stream.update(lower, upper)
    return stream.compute()


@final
class IntervalWidth(TargetMean):
    """Streaming :func:`interval_width`."""

    def update(self, lower: Tensor, upper: Tensor) -> None:
        """Take in some samples.

        Args:
            lower: Lower ends, of shape ``(samples, …)``.
            upper: Upper ends, of the same shape.
        """
        low, high = joint_tensors(lower=lower, upper=upper)
        self.add(high - low, lower, upper)


def interval_score(
    lower: Tensor, upper: Tensor, targets: Tensor, *, coverage: float = 0.9
) -> Tensor:
    """Winkler's score: the width, and a fine for each target outside.

    ``mean [u - l + (2/α) (l - y)₊ + (2/α) (y - u)₊]`` with ``α = 1 - coverage``, least
    for the true quantiles (Gneiting and Raftery 2007). Lower is better; range [0, ∞)
    where no interval is turned around, in the unit of the targets.

    Args:
        lower: Lower ends, of shape ``(samples, …)``.
        upper: Upper ends, of the same shape.
        targets: The true numbers, of the same shape.
        coverage: The share of targets that the intervals are to hold, in (0, 1).

    Returns:
        A scalar.

    Example:
        >>> lower, upper = torch.zeros(2), torch.ones(2)
        >>> interval_score(lower, upper, torch.tensor([0.5, 2.0]), coverage=0.5)
        tensor(3.)
    """
    stream = IntervalScore(coverage=coverage)
    stream.update(lower, upper, targets)
    return stream.compute()


@final
class IntervalScore(TargetMean):
    """Streaming :func:`interval_score`.

    Args:
        coverage: The share of targets that the intervals are to hold, in (0, 1).
    """

    def __init__(self, *, coverage: float = 0.9) -> None:
        require(0 < coverage < 1, "coverage", "lie in (0, 1)", coverage)
        super().__init__()
        self.coverage = coverage

    def update(self, lower: Tensor, upper: Tensor, targets: Tensor) -> None:
        """Take in some samples.

        Args:
            lower: Lower ends, of shape ``(samples, …)``.
            upper: Upper ends, of the same shape.
            targets: The true numbers, of the same shape.
        """
        low, high, answers = joint_tensors(lower=lower, upper=upper, targets=targets)
        outside = (low - answers).clamp(min=0) + (answers - high).clamp(min=0)
        score = high - low + 2 / (1 - self.coverage) * outside
        self.add(score, lower, upper, targets)


def quantile_calibration(
    quantiles: Tensor, targets: Tensor, *, levels: Sequence[float]
) -> Tensor:
    """Calibration error of quantiles, ``(1/L) Σ_l |share of y ≤ q_l - τ_l|``.

    Lower is better; range [0, 1). For members with mean and variance take the quantiles
    from :func:`gaussian_quantiles`.

    Args:
        quantiles: Predicted quantiles of shape ``(samples, …, levels)``.
        targets: The true numbers, of shape ``(samples, …)``.
        levels: Which quantiles they are, each in (0, 1).

    Returns:
        A scalar.

    Example:
        >>> quantiles = torch.tensor([[-1.0, 1.0], [-1.0, 1.0]])
        >>> quantile_calibration(quantiles, torch.zeros(2), levels=[0.1, 0.9])
        tensor(0.1000)
    """
    stream = QuantileCalibration(levels=levels)
    stream.update(quantiles, targets)
    return stream.compute()


@final
class QuantileCalibration(Streaming[Tensor]):
    """Streaming :func:`quantile_calibration`.

    Args:
        levels: Which quantiles are given, each in (0, 1).
    """

    num_states = 2

    def __init__(self, *, levels: Sequence[float]) -> None:
        super().__init__()
        self.levels = check_levels(levels)

    def update(self, quantiles: Tensor, targets: Tensor) -> None:
        """Take in some samples.

        Args:
            quantiles: Predicted quantiles of shape ``(samples, …, levels)``.
            targets: The true numbers, of shape ``(samples, …)``.
        """
        values, answers = quantile_tensors(targets, quantiles, self.levels)
        below = (answers <= values).flatten(0, -2).sum(0)
        count = below.new_full((), targets.numel(), dtype=torch.int64)
        self.keep((count, below), quantiles, targets)

    def value(self, *state: Tensor) -> Tensor:
        """Return the mean gap between a level and how often it holds."""
        count, below = state
        levels = self.levels.to(below.device)
        return (wide(below) / count - wide(levels)).abs().mean()
