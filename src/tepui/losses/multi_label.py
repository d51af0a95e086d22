"""Cross-entropy of labels that hold or not, each on its own."""

from dataclasses import dataclass
from typing import ClassVar, final

import torch.nn.functional as F
from torch import Tensor

from tepui.core.task import MULTI_LABEL, Task
from tepui.losses.base import like_outputs, mean_per_sample


def binary_cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Per-sample cross-entropy of labels that hold or not, each on its own.

    Args:
        outputs: Logits of shape ``(samples, labels, …)``; one label is a yes or no.
        targets: 1 where a label holds and 0 where it does not, or probabilities, of
            the same shape; for one label ``(samples,)`` will do.

    Returns:
        Losses of shape ``(samples,)``, over labels their mean.

    Example:
        >>> import torch
        >>> binary_cross_entropy(torch.zeros(2, 3), torch.ones(2, 3))
        tensor([0.6931, 0.6931])
    """
    wanted = like_outputs(targets, outputs)
    losses = F.binary_cross_entropy_with_logits(outputs, wanted, reduction="none")
    return mean_per_sample(losses)


@final
@dataclass(frozen=True)
class BinaryCrossEntropy:
    """Cross-entropy of labels that hold or not, or of a yes or no in one output."""

    task: ClassVar[Task] = MULTI_LABEL

    def __call__(self, outputs: Tensor, targets: Tensor, /) -> Tensor:
        """Return one loss per sample."""
        return binary_cross_entropy(outputs, targets)
