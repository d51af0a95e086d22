"""Losses of numbers: squared error, normal likelihood, quantiles' pinball loss."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, final

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.core.types import check_types
from tepui.losses.base import check_outputs, like_outputs, mean_per_sample


def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """Per-sample squared error.

    Args:
        outputs: Numbers of shape ``(samples, numbers, …)`` or ``(samples,)``.
        targets: The same shape; for one number ``(samples,)`` will do.

    Returns:
        Losses of shape ``(samples,)``, over several numbers their mean.

    Example:
        >>> import torch
        >>> squared_error(torch.tensor([[1.0], [3.0]]), torch.tensor([1.0, 1.0]))
        tensor([0., 4.])
    """
    return mean_per_sample((outputs - like_outputs(targets, outputs)).square())


@final
@dataclass(frozen=True)
class MSE:
    """Squared error: outputs are numbers."""

    def __call__(self, outputs: Tensor, targets: Tensor, /) -> Tensor:
        """Return one loss per sample."""
        return squared_error(outputs, targets)


# Standard deviations below a thousandth of the targets' unit are not told apart.
SMALLEST_LOG_VARIANCE = math.log(1e-6)
# So that float32 holds the sum over a thousand members, too.
LARGEST_VARIANCE = 1e35


def gaussian_parameters(outputs: Tensor, axis: int = 1) -> tuple[Tensor, Tensor]:
    """Return means and log-variances of outputs that hold both.

    Args:
        outputs: Shape ``(samples, 2 * numbers, …)``: all means, and after them as many
            logarithms of variances.
        axis: Where these lie.

    Returns:
        Means and log-variances, each of shape ``(samples, numbers, …)``; variances
        are at least 1e-6.

    Raises:
        ValueError: If there is an odd number of outputs, they are not floating point,
            or have no such axis.

    Example:
        >>> import torch
        >>> mean, log_variance = gaussian_parameters(torch.tensor([[5.0, -1.0]]))
        >>> mean, log_variance
        (tensor([[5.]]), tensor([[-1.]]))
    """
    check_types(gaussian_parameters, locals())
    require(axis >= 0, "axis", "be at least 0", axis)
    check_outputs(outputs)
    even = outputs.ndim > axis and outputs.shape[axis] % 2 == 0
    rule = "be a mean and a log-variance for each number, 2 * numbers in all"
    require(even, "outputs", rule, f"shape {tuple(outputs.shape)}")
    mean, log_variance = outputs.chunk(2, axis)
    return mean, log_variance.clamp(min=SMALLEST_LOG_VARIANCE)


def finite_variances(log_variances: Tensor) -> Tensor:
    """Return variances of at most 1e35, so that one extreme sample stays a number.

    Losses need no such bound, which would stop their gradient.

    Example:
        >>> import torch
        >>> finite_variances(torch.tensor([0.0, 500.0]))
        tensor([1.0000e+00, 1.0000e+35])
    """
    return log_variances.exp().clamp(max=LARGEST_VARIANCE)


def gaussian_nll(outputs: Tensor, targets: Tensor) -> Tensor:
    """Per-sample negative log-likelihood of normal distributions.

    Args:
        outputs: Means and log-variances, see :func:`gaussian_parameters`.
        targets: Numbers of shape ``(samples, numbers, …)``; for one number
            ``(samples,)`` will do.

    Returns:
        Losses of shape ``(samples,)``, over several numbers their mean.

    Example:
        >>> import torch
        >>> gaussian_nll(torch.zeros(1, 2), torch.zeros(1)).exp()  # sqrt(2 pi)
        tensor([2.5066])
    """
    mean, log_variance = gaussian_parameters(outputs)
    error = (mean - like_outputs(targets, mean)).square()
    spread = log_variance + math.log(2 * math.pi)
    return mean_per_sample((spread + error * (-log_variance).exp()) / 2)


@final
@dataclass(frozen=True)
class GaussianNLL:
    """Likelihood of normal distributions, whose means and variances are outputs.

    A model has two outputs for each number: all means, and after them as many
    logarithms of variances, so that a last layer with twice as many outputs will do.

    The gradient of a mean is its error over the variance, up to 1e6 if a member is
    surer than the data: training bounds its norm by :attr:`clip_norm` by default.
    """

    clip_norm: ClassVar[float] = 1.0

    def __call__(self, outputs: Tensor, targets: Tensor, /) -> Tensor:
        """Return one loss per sample."""
        return gaussian_nll(outputs, targets)


def pinball(outputs: Tensor, targets: Tensor, levels: tuple[float, ...]) -> Tensor:
    """Per-sample pinball loss, which quantiles minimize.

    Args:
        outputs: Shape ``(samples, levels * numbers, …)``: the first level of all
            numbers, then the second, and so on.
        targets: Numbers of shape ``(samples, numbers, …)``; for one number
            ``(samples,)`` will do.
        levels: The levels of the quantiles, within (0, 1).

    Returns:
        Losses of shape ``(samples,)``, over levels and numbers their mean.

    Raises:
        ValueError: If outputs are not a multiple of the levels.

    Example:
        >>> import torch
        >>> pinball(torch.zeros(2, 1), torch.tensor([1.0, -1.0]), (0.9,))
        tensor([0.9000, 0.1000])
    """
    inside = len(levels) > 0 and all(0 < level < 1 for level in levels)
    require(inside, "levels", "lie in (0, 1), at least one", tuple(levels))
    fits = outputs.ndim > 1 and outputs.shape[1] % len(levels) == 0
    rule = f"be one for each of {len(levels)} levels and each number"
    require(fits, "outputs", rule, f"shape {tuple(outputs.shape)}")
    by_level = outputs.chunk(len(levels), 1)
    wanted = like_outputs(targets, by_level[0])
    losses = [
        torch.maximum(level * (wanted - output), (level - 1) * (wanted - output))
        for level, output in zip(levels, by_level, strict=True)
    ]
    return mean_per_sample(torch.stack(losses, 1))


@final
@dataclass(frozen=True)
class Quantiles:
    """Pinball loss: outputs are quantiles of the numbers.

    Attributes:
        levels: Which quantiles, rising within (0, 1). A model has one output for each
            level and number: the first level of all numbers, then the second.
    """

    levels: tuple[float, ...] = (0.05, 0.5, 0.95)

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", rising(self.levels))

    def __call__(self, outputs: Tensor, targets: Tensor, /) -> Tensor:
        """Return one loss per sample."""
        return pinball(outputs, targets, self.levels)


def rising(levels: Iterable[float]) -> tuple[float, ...]:
    """Return levels of quantiles, which rise within (0, 1)."""
    given = tuple(levels)
    inside = all(0 < level < 1 for level in given)
    fits = inside and all(low < high for low, high in pairwise(given))
    rule = "rise within (0, 1), at least one of them"
    require(len(given) > 0 and fits, "levels", rule, given)
    return given
