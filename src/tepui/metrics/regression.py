"""How far an ensemble's predicted numbers lie from the targets.

Members predict means of shape ``(members, samples, …)`` and, where they know it, the
variance of the target around each; the ensemble is their mixture with equal weights.
"""

from typing import final

import torch  # noqa: F401 - the examples use it
from torch import Tensor

from tepui.metrics.gaussian_mixture import mixture_log_density
from tepui.metrics.targets import TargetMean, check_variances, member_tensors


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
    stream = RMSE()
    stream.update(means, targets)
    return stream.compute()


@final
class RMSE(TargetMean):
    """Streaming :func:`rmse`."""

    def update(self, means: Tensor, targets: Tensor) -> None:
        """Take in some samples.

        Args:
            means: What each member predicts, of shape ``(members, samples, …)``.
            targets: The true numbers, of shape ``(samples, …)``.
        """
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
    stream = GaussianNLL()
    stream.update(means, variances, targets)
    return stream.compute()


@final
class GaussianNLL(TargetMean):
    """Streaming :func:`gaussian_nll`."""

    def update(self, means: Tensor, variances: Tensor, targets: Tensor) -> None:
        """Take in some samples.

        Args:
            means: Means of shape ``(members, samples, …)``.
            variances: Variances of the same shape, positive.
            targets: The true numbers, of shape ``(samples, …)``.
        """
        parts = member_tensors(targets, means=means, variances=variances)
        check_variances(parts[1])
        self.add(-mixture_log_density(*parts), means, variances, targets)
