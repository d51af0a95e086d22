"""Losses that return one value per sample."""

from typing import Protocol

import torch.nn.functional as F
from torch import Tensor

from tepui.checks import require


class Loss(Protocol):
    """A callable ``(outputs, targets) -> (samples,)`` of per-sample losses."""

    def __call__(self, outputs: Tensor, targets: Tensor, /) -> Tensor:
        """Return one loss per sample."""


def cross_entropy(
    outputs: Tensor, targets: Tensor, label_smoothing: float = 0.0
) -> Tensor:
    """Per-sample softmax cross-entropy.

    Args:
        outputs: Logits of shape ``(samples, classes)``.
        targets: Class indices ``(samples,)`` or probabilities ``(samples, classes)``.
        label_smoothing: Share of the target spread evenly over all classes.

    Returns:
        Losses of shape ``(samples,)``.

    Example:
        >>> import torch
        >>> cross_entropy(torch.zeros(1, 4), torch.tensor([2]))
        tensor([1.3863])
    """
    require(
        0 <= label_smoothing <= 1, "label_smoothing", "lie in [0, 1]", label_smoothing
    )
    if not targets.is_floating_point():
        targets = targets.long()
    return F.cross_entropy(
        outputs, targets, reduction="none", label_smoothing=label_smoothing
    )
