"""Residual networks for small images.

``(n, c, h, w)`` passes a 3×3 convolution of stride 1 without pooling, then four stages
of two basic blocks with ``w, 2w, 4w, 8w`` channels, the last three of stride 2, so that
32×32 pixels end as 4×4; then the mean over pixels and a linear layer. A block whose
shape changes adds its input through a 1×1 convolution and BatchNorm. With the default
arguments: 11 173 962 parameters and 512 features.

References:
    He, Zhang, Ren and Sun (2016), Deep Residual Learning for Image Recognition, CVPR.
"""

from typing import final

import torch.nn.functional as F
from torch import Tensor, nn

from tepui.models.base import Model, positive


@final
class ResNet18(Model):
    """ResNet-18 with the stem for images of 32 or 64 pixels.

    Args:
        num_classes: Number of logits.
        in_channels: Channels of the images.
        width: Channels of the first stage; the features are eight times as wide.

    Raises:
        ValueError: If an argument is not positive.

    Example:
        >>> import torch
        >>> model = ResNet18(num_classes=10, width=8)
        >>> model(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """

    def __init__(
        self, num_classes: int = 10, in_channels: int = 3, width: int = 64
    ) -> None:
        super().__init__()
        positive(num_classes=num_classes, in_channels=in_channels, width=width)
        self.config = {
            "num_classes": num_classes,
            "in_channels": in_channels,
            "width": width,
        }
        self.stem = _convolution(in_channels, width, kernel=3)
        self.stages = nn.Sequential(
            _stage(width, width, stride=1),
            _stage(width, 2 * width, stride=2),
            _stage(2 * width, 4 * width, stride=2),
            _stage(4 * width, 8 * width, stride=2),
        )
        self.classifier = nn.Linear(8 * width, num_classes)

    def features(self, x: Tensor) -> Tensor:
        """Return the last stage averaged over pixels, ``(samples, 8 * width)``.

        Args:
            x: Images ``(samples, channels, height, width)``.

        Returns:
            What the classifier sees.
        """
        maps: Tensor = self.stages(F.relu(self.stem(x)))
        return maps.mean(dim=(2, 3))


class _Block(nn.Module):
    """Two 3×3 convolutions around a shortcut."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.first = _convolution(channels, width, kernel=3, stride=stride)
        self.second = _convolution(width, width, kernel=3)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels != width:
            self.shortcut = _convolution(channels, width, kernel=1, stride=stride)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.second(F.relu(self.first(x))) + self.shortcut(x))


def _stage(channels: int, width: int, stride: int) -> nn.Sequential:
    return nn.Sequential(_Block(channels, width, stride), _Block(width, width, 1))


def _convolution(
    channels: int, width: int, kernel: int, stride: int = 1
) -> nn.Sequential:
    """Return a convolution that keeps the size, up to stride, and its BatchNorm."""
    layer = nn.Conv2d(channels, width, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(width))
