"""WideResNet-40-2 for images of 32 pixels.

``(n, c, h, w)`` passes a 3×3 convolution of ``w`` channels, then three stages of six
pre-activation blocks (BatchNorm, ReLU, 3×3 convolution, twice) with ``2w, 4w, 8w``
channels, the last two of stride 2; then BatchNorm, ReLU, the mean over pixels and a
linear layer. A block whose width changes takes its shortcut, a 1×1 convolution, after
the first activation. No dropout.

References:
    Zagoruyko and Komodakis (2016), Wide Residual Networks, BMVC.
"""

from typing import final

from torch import Tensor, nn

from tepui.models.base import Chain, Model, kaiming_fan_out
from tepui.models.batch_norm import normalized

BLOCKS = 6  # per stage: 40 = 3 stages · 6 blocks · 2 convolutions + 4


@final
class WideResNet40x2(Model):
    """WideResNet of 40 layers, twice as wide; its layers are the stem and 18 blocks.

    Args:
        num_classes: Number of logits.
        in_channels: Channels of the images.
        width: Channels of the stem; the features are eight times as wide.

    Raises:
        ValueError: If an argument is not positive.

    Example:
        >>> import torch
        >>> model = WideResNet40x2(num_classes=100, width=4)
        >>> model(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 100])
    """

    def __init__(
        self, num_classes: int = 10, in_channels: int = 3, width: int = 16
    ) -> None:
        super().__init__(num_classes=num_classes, in_channels=in_channels, width=width)
        self.layers = nn.Sequential(
            nn.Conv2d(in_channels, width, 3, padding=1, bias=False),
            *_stage(width, 2 * width, stride=1),
            *_stage(2 * width, 4 * width, stride=2),
            *_stage(4 * width, 8 * width, stride=2),
            Chain(nn.BatchNorm2d(8 * width), nn.ReLU()),
            nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        )
        self.classifier = nn.Linear(8 * width, num_classes)
        kaiming_fan_out(self)
        nn.init.zeros_(self.classifier.bias)


class _Block(nn.Module):
    """Two convolutions, each after BatchNorm and ReLU, around a shortcut."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(channels)
        self.convolution1 = nn.Conv2d(channels, width, 3, stride, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.convolution2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.shortcut: nn.Module | None = None
        if channels != width:
            self.shortcut = nn.Conv2d(channels, width, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        active = normalized(self.norm1, x)
        kept = x if self.shortcut is None else self.shortcut(active)
        hidden = normalized(self.norm2, self.convolution1(active))
        total: Tensor = kept + self.convolution2(hidden)
        return total


def _stage(channels: int, width: int, stride: int) -> list[_Block]:
    rest = [_Block(width, width, 1) for _ in range(BLOCKS - 1)]
    return [_Block(channels, width, stride), *rest]
