"""A multilayer perceptron: the smallest model with features.

``(n, ...)`` is flattened to ``in_features`` numbers and passes linear layers with ReLU,
without BatchNorm, and a last linear layer.

References:
    Rumelhart, Hinton and Williams (1986), Learning Representations by Back-Propagating
    Errors, Nature.
"""

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import final

from torch import nn

from tepui.models.base import Model, positive


@final
class MLP(Model):
    """Linear layers with ReLU between them.

    Args:
        in_features: Numbers in one flattened input.
        hidden: Width of each hidden layer; none makes the model linear.
        num_classes: Number of logits.

    Raises:
        ValueError: If a size is not positive.

    Example:
        >>> import torch
        >>> MLP(in_features=64, hidden=(32,))(torch.zeros(2, 1, 8, 8)).shape
        torch.Size([2, 10])
    """

    def __init__(
        self,
        in_features: int = 64,
        hidden: Sequence[int] = (128, 128),
        num_classes: int = 10,
    ) -> None:
        super().__init__(
            in_features=in_features, hidden=list(hidden), num_classes=num_classes
        )
        positive(**{f"hidden[{layer}]": width for layer, width in enumerate(hidden)})
        widths = [in_features, *hidden]
        layers = ((nn.Linear(*sizes), nn.ReLU()) for sizes in pairwise(widths))
        self.layers = nn.Sequential(nn.Flatten(), *chain.from_iterable(layers))
        self.classifier = nn.Linear(widths[-1], num_classes)
