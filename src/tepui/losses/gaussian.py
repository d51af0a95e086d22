"""Likelihood of normal distributions, whose means and variances are outputs."""

import math
from dataclasses import dataclass
from typing import ClassVar, final

from torch import Tensor

from tepui.core.checks import require
from tepui.core.types import check_types
from tepui.losses.base import check_outputs, like_outputs, mean_per_sample

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
