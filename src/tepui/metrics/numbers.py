"""How far an ensemble's predicted numbers lie from the targets, and how sure it was.

Members predict means of shape ``(members, samples, …)`` and, where they know it, the
variance of the target around each; the ensemble is their mixture with equal weights.

The continuous ranked probability score, ``CRPS(F, y) = ∫ (F(z) - 1[y ≤ z])² dz``, is
the absolute error of a prediction that is a whole distribution. Lower is better; range
[0, ∞), in the unit of the targets. It has three forms, by what the members answer:
means and variances, plain numbers, or quantiles.

Intervals and quantiles are judged by how often they hold, and by how wide they have to
be for that.

References:
    Gneiting and Raftery 2007, "Strictly proper scoring rules, prediction, and
    estimation"; Grimit et al. 2006, "The continuous ranked probability score for
    circular variables and its application to mesoscale forecast ensemble verification"
    (the mixture).
"""

import math
from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from tepui.core.checks import have_values, require
from tepui.metrics.chunks import wide
from tepui.metrics.streaming import (
    Streaming,
    TargetMean,
    check_levels,
    check_variances,
    joint_tensors,
    member_tensors,
)


def rmse(means: Tensor, targets: Tensor) -> Tensor:
    """Root of the mean squared error of the ensemble, ``√ mean (μ̄ - y)²``.

    ``μ̄`` is the mean over members. Lower is better; range [0, ∞), in the unit of the
    targets.

    Args:
        means: What each member predicts, of shape ``(members, samples, …)``.
        targets: The true numbers, of shape ``(samples, …)``.

    Returns:
        A scalar.

    Example:
        >>> rmse(torch.tensor([[1.0, 2.0], [3.0, 2.0]]), torch.tensor([2.0, 5.0]))
        tensor(2.1213)
    """
    return RMSE().once(means, targets)


@final
class RMSE(TargetMean):
    """Streaming :func:`rmse`."""

    def update(self, means: Tensor, targets: Tensor) -> None:
        """Take in some samples, as :func:`rmse` takes them."""
        predicted, answers = member_tensors(targets, means=means)
        self.add((predicted.mean(0) - answers).square(), means, targets)

    def value(self, *state: Tensor) -> Tensor:
        """Return the root of the mean."""
        return super().value(*state).sqrt()


def gaussian_nll(means: Tensor, variances: Tensor, targets: Tensor) -> Tensor:
    """Negative log-likelihood of the mixture, ``-mean log (1/M) Σ_m N(y; μ_m, σ_m²)``.

    Lower is better; range (-∞, ∞), in nats. Numbers of one sample count each for
    itself, as if they were independent.

    Args:
        means: Means of shape ``(members, samples, …)``.
        variances: Variances of the same shape, positive.
        targets: The true numbers, of shape ``(samples, …)``.

    Returns:
        A scalar.

    Example:
        >>> gaussian_nll(torch.zeros(2, 1), torch.ones(2, 1), torch.zeros(1))
        tensor(0.9189)
    """
    return GaussianNLL().once(means, variances, targets)


@final
class GaussianNLL(TargetMean):
    """Streaming :func:`gaussian_nll`."""

    def update(self, means: Tensor, variances: Tensor, targets: Tensor) -> None:
        """Take in some samples, as :func:`gaussian_nll` takes them."""
        parts = member_tensors(targets, means=means, variances=variances)
        check_variances(parts[1])
        self.add(-mixture_log_density(*parts), means, variances, targets)


_HALVINGS = {torch.float32: 40, torch.float64: 70}
_HALVINGS_IN_GRAPHS = 26  # enough for float32 next to the bracket's width


def gaussian_quantiles(
    means: Tensor, variances: Tensor, levels: Sequence[float]
) -> Tensor:
    """Quantiles of a mixture of Gaussians, ``(1/M) Σ_m N(μ_m, σ_m²)``.

    A quantile of the mixture lies between the least and the greatest of the members';
    that bracket is halved until it cannot be told from one number.

    Args:
        means: Means of shape ``(members, samples, …)``.
        variances: Variances of the same shape, positive.
        levels: Which quantiles, each in (0, 1).

    Returns:
        Quantiles of shape ``(samples, …, levels)``.

    Example:
        >>> means, variances = torch.tensor([[-9.0], [9.0]]), torch.ones(2, 1)
        >>> gaussian_quantiles(means, variances, [0.25, 0.75])  # the middle of each
        tensor([[-9.,  9.]])
    """
    given = check_levels(levels)
    shape, filled = tuple(means.shape), means.ndim > 1 and len(means) > 0
    require(filled, "means", "have shape (members, samples, …)", shape)
    spreads, values = joint_tensors(variances=variances, means=means)
    check_variances(spreads)
    wanted = given.to(values)
    centers, scales = values.unsqueeze(-1), spreads.sqrt().unsqueeze(-1)
    by_member: Tensor = centers + scales * _standard(levels, values)
    low, high = by_member.amin(0), by_member.amax(0)
    halvings = _HALVINGS[values.dtype] if have_values() else _HALVINGS_IN_GRAPHS
    for _ in range(halvings):
        middle = low + (high - low) / 2
        short = torch.special.ndtr((middle - centers) / scales).mean(0) < wanted
        low, high = torch.where(short, middle, low), torch.where(short, high, middle)
    return high


def _standard(levels: Sequence[float], like: Tensor) -> Tensor:
    """Return quantiles of the standard normal distribution, which are plain numbers.

    So a graph that is traced holds them as constants.
    """
    at = (torch.tensor(level, dtype=like.dtype) for level in levels)
    return like.new_tensor([torch.special.ndtri(level).item() for level in at])


def mixture_log_density(means: Tensor, variances: Tensor, targets: Tensor) -> Tensor:
    """Return the logarithm of the mixture's density at the targets."""
    squares = (targets - means).square() / variances
    logs = -0.5 * (squares + variances.log() + math.log(2 * math.pi))
    return logs.logsumexp(0) - math.log(len(means))


def gaussian_crps(means: Tensor, variances: Tensor, targets: Tensor) -> Tensor:
    """CRPS of the mixture of the members' Gaussians, in closed form.

    With ``A(δ, σ²) = E|X|`` for ``X ~ N(δ, σ²)`` it is
    ``(1/M) Σ_m A(y - μ_m, σ_m²) - 1/(2M²) Σ_mn A(μ_m - μ_n, σ_m² + σ_n²)``.

    Args:
        means: Means of shape ``(members, samples, …)``.
        variances: Variances of the same shape, positive.
        targets: The true numbers, of shape ``(samples, …)``.

    Returns:
        A scalar.

    Example:
        >>> gaussian_crps(torch.zeros(2, 1), torch.ones(2, 1), torch.zeros(1))
        tensor(0.2337)
    """
    return GaussianCRPS().once(means, variances, targets)


@final
class GaussianCRPS(TargetMean):
    """Streaming :func:`gaussian_crps`."""

    def update(self, means: Tensor, variances: Tensor, targets: Tensor) -> None:
        """Take in some samples, as :func:`gaussian_crps` takes them."""
        parts = member_tensors(targets, means=means, variances=variances)
        centers, spreads, answers = parts
        check_variances(spreads)
        error = _mean_distance(answers - centers, spreads).mean(0)
        spread = torch.zeros_like(answers)
        for center, variance in zip(centers, spreads, strict=True):
            spread += _mean_distance(center - centers, variance + spreads).mean(0)
        crps = error - spread / (2 * len(centers))
        self.add(crps.clamp(min=0), means, variances, targets)


def sample_crps(means: Tensor, targets: Tensor) -> Tensor:
    """CRPS of the members' answers, taken as equally likely values of the target.

    ``(1/M) Σ_m |x_m - y| - 1/(2M²) Σ_mn |x_m - x_n|``; the mean absolute error of a
    single member.

    Args:
        means: What each member predicts, of shape ``(members, samples, …)``.
        targets: The true numbers, of shape ``(samples, …)``.

    Returns:
        A scalar.

    Example:
        >>> sample_crps(torch.tensor([[0.0], [2.0]]), torch.tensor([1.0]))
        tensor(0.5000)
    """
    return SampleCRPS().once(means, targets)


@final
class SampleCRPS(TargetMean):
    """Streaming :func:`sample_crps`."""

    def update(self, means: Tensor, targets: Tensor) -> None:
        """Take in some samples, as :func:`sample_crps` takes them."""
        predicted, answers = member_tensors(targets, means=means)
        members = len(predicted)
        # From the target on, so that what is subtracted below stays small.
        offsets = (predicted - answers).sort(0).values
        places = torch.arange(members, device=offsets.device)
        weights = (2 * places + 1 - members).view(-1, *[1] * answers.ndim)
        crps = offsets.abs().mean(0) - (weights * offsets).sum(0) / members**2
        self.add(crps.clamp(min=0), means, targets)


def quantile_crps(
    quantiles: Tensor, targets: Tensor, *, levels: Sequence[float]
) -> Tensor:
    """CRPS as far as quantiles tell it: twice their mean pinball loss.

    ``2/L Σ_l max(τ_l (y - q_l), (τ_l - 1)(y - q_l))``, which approaches the integral as
    evenly spaced levels get closer. At few levels it is another number (of a standard
    normal at 0.05, 0.5 and 0.95 it is 0.40, not 0.56) and compares equal levels alone.

    Args:
        quantiles: Predicted quantiles of shape ``(samples, …, levels)``.
        targets: The true numbers, of shape ``(samples, …)``.
        levels: Which quantiles they are, each in (0, 1).

    Returns:
        A scalar.

    Example:
        >>> quantiles = torch.tensor([[-1.0, 0.0, 1.0]])
        >>> quantile_crps(quantiles, torch.tensor([0.0]), levels=[0.1, 0.5, 0.9])
        tensor(0.1333)
    """
    return QuantileCRPS(levels=levels).once(quantiles, targets)


@final
class QuantileCRPS(TargetMean):
    """Streaming :func:`quantile_crps`, with its ``levels``."""

    def __init__(self, *, levels: Sequence[float]) -> None:
        super().__init__()
        self.levels = check_levels(levels)

    def update(self, quantiles: Tensor, targets: Tensor) -> None:
        """Take in some samples, as :func:`quantile_crps` takes them."""
        values, answers = _beside_quantiles(targets, quantiles, self.levels)
        gap, levels = answers - values, self.levels.to(values)
        pinball = torch.maximum(levels * gap, (levels - 1) * gap)
        self.add(2 * pinball.mean(-1), quantiles, targets)


def _beside_quantiles(
    targets: Tensor, quantiles: Tensor, levels: Tensor
) -> tuple[Tensor, Tensor]:
    """Return quantiles and targets, the latter with an axis for the levels."""
    trail = levels.shape
    values, answers = joint_tensors((), trail, quantiles=quantiles, targets=targets)
    return values, answers.unsqueeze(-1)


def _mean_distance(offset: Tensor, variance: Tensor) -> Tensor:
    """Return the mean of ``|X|`` for a Gaussian of this mean and variance."""
    deviation = variance.sqrt()
    scaled = offset / deviation
    density = (-0.5 * scaled.square()).exp() / math.sqrt(2 * math.pi)
    balance: Tensor = torch.special.erf(scaled / math.sqrt(2))
    return 2 * deviation * density + offset * balance


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
    return IntervalCoverage().once(lower, upper, targets)


@final
class IntervalCoverage(TargetMean):
    """Streaming :func:`interval_coverage`."""

    def update(self, lower: Tensor, upper: Tensor, targets: Tensor) -> None:
        """Take in some samples, as :func:`interval_coverage` takes them."""
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
    return IntervalWidth().once(lower, upper)


@final
class IntervalWidth(TargetMean):
    """Streaming :func:`interval_width`."""

    def update(self, lower: Tensor, upper: Tensor) -> None:
        """Take in some samples, as :func:`interval_width` takes them."""
        low, high = joint_tensors(lower=lower, upper=upper)
        self.add(high - low, lower, upper)


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
    return QuantileCalibration(levels=levels).once(quantiles, targets)


@final
class QuantileCalibration(Streaming[Tensor]):
    """Streaming :func:`quantile_calibration`, with its ``levels``."""

    num_states = 2

    def __init__(self, *, levels: Sequence[float]) -> None:
        super().__init__()
        self.levels = check_levels(levels)

    def update(self, quantiles: Tensor, targets: Tensor) -> None:
        """Take in some samples, as :func:`quantile_calibration` takes them."""
        values, answers = _beside_quantiles(targets, quantiles, self.levels)
        below = (answers <= values).flatten(0, -2).sum(0)
        count = below.new_full((), targets.numel(), dtype=torch.int64)
        self.keep((count, below), quantiles, targets)

    def value(self, *state: Tensor) -> Tensor:
        """Return the mean gap between a level and how often it holds."""
        count, below = state
        levels = self.levels.to(below.device)
        return (wide(below) / count - wide(levels)).abs().mean()
