"""Weights of samples: what each adds to the loss, relative to the others.

Targets carry the weight of their sample in a last column, so that it follows the sample
into every batch. Weights have mean one: a batch of all samples has the loss of data in
which samples are repeated as often as their weights say.
"""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from tepui.losses import Loss


@final
@dataclass(frozen=True)
class Weighted:
    """A loss of targets that carry weights.

    It names no task, since its targets are not those of the loss inside.

    Attributes:
        loss: Returns one loss per sample.
        as_classes: Whether targets beside the weights are numbers of classes.
    """

    loss: Loss
    as_classes: bool

    def __call__(self, outputs: Tensor, targets: Tensor, /) -> Tensor:
        """Return one loss per sample, times its weight."""
        values, weights = targets[:, :-1], targets[:, -1]
        wanted = values[:, 0].long() if self.as_classes else values
        return self.loss(outputs, wanted) * weights


def with_weights(targets: Tensor, weights: Tensor) -> Tensor:
    """Return targets with a last column of weights, whose mean is one.

    Example:
        >>> with_weights(torch.tensor([0, 2]), torch.tensor([1.0, 3.0]))
        tensor([[0.0000, 0.5000],
                [2.0000, 1.5000]])
    """
    columns = targets if targets.ndim > 1 else targets[:, None]
    scaled = weights / weights.mean()
    return torch.cat([columns.to(scaled.dtype), scaled[:, None]], 1)
