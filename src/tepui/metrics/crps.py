"""The continuous ranked probability score of an ensemble's predicted distribution.

``CRPS(F, y) = ∫ (F(z) - 1[y ≤ z])² dz``: the absolute error of a prediction that is a
whole distribution. Lower is better; range [0, ∞), in the unit of the targets. Three
forms, by what the members answer: means and variances, plain numbers, or quantiles.

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

from tepui.metrics.targets import (
    TargetMean,
    check_levels,
    check_variances,
    member_tensors,
    quantile_tensors,
)


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
    stream = GaussianCRPS()
    stream.update(means, variances, targets)
    return stream.compute()


@final
class GaussianCRPS(TargetMean):
    """Streaming :func:`gaussian_crps`."""

    def update(self, means: Tensor, variances: Tensor, targets: Tensor) -> None:
        """Take in some samples.

        Args:
            means: Means of shape ``(members, samples, …)``.
            variances: Variances of the same shape, positive.
            targets: The true numbers, of shape ``(samples, …)``.
        """
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
    stream = SampleCRPS()
    stream.update(means, targets)
    return stream.compute()


@final
class SampleCRPS(TargetMean):
    """Streaming :func:`sample_crps`."""

    def update(self, means: Tensor, targets: Tensor) -> None:
        """Take in some samples.

        Args:
            means: What each member predicts, of shape ``(members, samples, …)``.
            targets: The true numbers, of shape ``(samples, …)``.
        """
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
    stream = QuantileCRPS(levels=levels)
    stream.update(quantiles, targets)
    return stream.compute()


@final
class QuantileCRPS(TargetMean):
    """Streaming :func:`quantile_crps`.

    Args:
        levels: Which quantiles are given, each in (0, 1).
    """

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
        gap, levels = answers - values, self.levels.to(values)
        pinball = torch.maximum(levels * gap, (levels - 1) * gap)
        self.add(2 * pinball.mean(-1), quantiles, targets)


def _mean_distance(offset: Tensor, variance: Tensor) -> Tensor:
    """Return the mean of ``|X|`` for a Gaussian of this mean and variance."""
    deviation = variance.sqrt()
    scaled = offset / deviation
    density = (-0.5 * scaled.square()).exp() / math.sqrt(2 * math.pi)
    balance: Tensor = torch.special.erf(scaled / math.sqrt(2))
    return 2 * deviation * density + offset * balance
