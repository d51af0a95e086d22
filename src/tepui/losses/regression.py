"""Squared error of numbers."""

from dataclasses import dataclass
from typing import final

from torch import Tensor

from tepui.losses.base import like_outputs, mean_per_sample


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
