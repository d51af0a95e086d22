"""Cross-entropy of labels that hold or not, each on its own."""

from dataclasses import dataclass
from typing import final

import torch.nn.functional as F
from torch import Tensor

from tepui.core.checks import require
from tepui.core.types import check_fields
from tepui.losses.base import like_outputs, mean_per_sample, numbers_like


def binary_cross_entropy(
    outputs: Tensor,
    targets: Tensor,
    positive_weights: tuple[float, ...] | None = None,
) -> Tensor:
    """Per-sample cross-entropy of labels that hold or not, each on its own.

    Args:
        outputs: Logits of shape ``(samples, labels, …)``; one label is a yes or no,
            for which ``(samples,)`` will do.
        targets: 1 where a label holds and 0 where it does not, or probabilities, of
            the same shape; for one label ``(samples,)`` will do.
        positive_weights: A factor for every label on the loss where it holds.

    Returns:
        Losses of shape ``(samples,)``, over labels their mean.

    Example:
        >>> import torch
        >>> binary_cross_entropy(torch.zeros(2, 3), torch.ones(2, 3))
        tensor([0.6931, 0.6931])
    """
    wanted = like_outputs(targets, outputs)
    factors = None
    if positive_weights is not None:
        labels = outputs.shape[1] if outputs.ndim > 1 else 1
        rule = f"hold one number for each label of the outputs ({labels})"
        fits = len(positive_weights) == labels
        require(fits, "positive_weights", rule, positive_weights)
        factors = numbers_like(positive_weights, outputs)
        factors = factors.view(-1, *[1] * (outputs.ndim - 2))
    losses = F.binary_cross_entropy_with_logits(
        outputs, wanted, pos_weight=factors, reduction="none"
    )
    return mean_per_sample(losses)


@final
@dataclass(frozen=True)
class BinaryCrossEntropy:
    """Cross-entropy of labels that hold or not, or of a yes or no in one output.

    Attributes:
        positive_weights: A factor for every label on the loss where it holds, above 1
            for rare ones; none by default.
    """

    positive_weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.positive_weights is not None:
            weights = tuple(map(float, self.positive_weights))
            rule = "be positive numbers, one for each label"
            fits = min(weights, default=0.0) > 0
            require(fits, "positive_weights", rule, weights)
            object.__setattr__(self, "positive_weights", weights)

    def __call__(self, outputs: Tensor, targets: Tensor, /) -> Tensor:
        """Return one loss per sample."""
        return binary_cross_entropy(outputs, targets, self.positive_weights)
