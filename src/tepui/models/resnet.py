"""ResNet-18 for images of 32, 64 or 224 pixels.

``(n, c, h, w)`` passes a stem, then four stages of two basic blocks with ``w, 2w, 4w,
8w`` channels, the last three of stride 2; then the mean over pixels and a linear layer.
A block whose shape changes adds its input through a 1×1 convolution and BatchNorm. The
stems for 32 and 64 pixels are one 3×3 convolution of stride 1 without pooling; that for
64 pixels is initialized as in the released TinyImageNet network. The stem for ImageNet
is a 7×7 convolution and a 3×3 max-pooling, both of stride 2.

References:
    He, Zhang, Ren and Sun (2016), Deep Residual Learning for Image Recognition, CVPR.
"""

from typing import Literal, final, get_args

from torch import Tensor, nn

from tepui.core.checks import one_of
from tepui.models.base import Chain, Model, NormalizedConvolution, kaiming_fan_out

Stem = Literal["32px", "64px", "imagenet"]


@final
class ResNet18(Model):
    """ResNet-18; its layers are the stem, eight blocks and the mean over pixels.

    Args:
        num_classes: Number of logits.
        in_channels: Channels of the images.
        width: Channels of the first stage; the features are eight times as wide.
        stem: The first layers, made for images of this size.
        scaled_shortcut: Whether a shortcut that keeps its shape scales each channel by
            a learned weight, initially one.

    Raises:
        ValueError: If a size is not positive, or the stem is unknown.

    Example:
        >>> import torch
        >>> model = ResNet18(num_classes=10, width=8)
        >>> model(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """

    fused = True

    def __init__(
        self,
        num_classes: int = 10,
        in_channels: int = 3,
        width: int = 64,
        stem: Stem = "32px",
        scaled_shortcut: bool = False,
    ) -> None:
        super().__init__(
            num_classes=num_classes,
            in_channels=in_channels,
            width=width,
            stem=stem,
            scaled_shortcut=scaled_shortcut,
        )
        one_of("stem", stem, get_args(Stem))
        self.layers = nn.Sequential(
            _stem(in_channels, width, stem),
            *_stage(width, width, 1, scaled_shortcut),
            *_stage(width, 2 * width, 2, scaled_shortcut),
            *_stage(2 * width, 4 * width, 2, scaled_shortcut),
            *_stage(4 * width, 8 * width, 2, scaled_shortcut),
            nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        )
        self.classifier = nn.Linear(8 * width, num_classes)
        if stem != "32px":
            kaiming_fan_out(self)

    def torchvision_names(self) -> dict[str, str]:
        """Map the name of each part that holds weights to torchvision's name."""
        names = {"layers.0.0": "conv1", "layers.0.1": "bn1", "classifier": "fc"}
        for index in range(8):
            ours = f"layers.{index + 1}"
            theirs = f"layer{index // 2 + 1}.{index % 2}"
            for number, part in ((1, "first"), (2, "second")):
                names[f"{ours}.{part}.0"] = f"{theirs}.conv{number}"
                names[f"{ours}.{part}.1"] = f"{theirs}.bn{number}"
            names[f"{ours}.shortcut"] = f"{theirs}.downsample"
        return names

    def released_names(self) -> dict[str, str]:
        """Map the name of each part to its name in SharpBalance's released code."""
        names = self.torchvision_names()
        names = {n: t.replace("downsample", "shortcut") for n, t in names.items()}
        return {**names, "classifier": "linear"}


class _Block(nn.Module):
    """Two 3×3 convolutions around a shortcut."""

    def __init__(self, channels: int, width: int, stride: int, scaled: bool) -> None:
        super().__init__()
        self.first = NormalizedConvolution(channels, width, stride=stride)
        self.second = NormalizedConvolution(width, width)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels != width:
            self.shortcut = NormalizedConvolution(
                channels, width, kernel=1, stride=stride
            )
        elif scaled:
            self.shortcut = _scale(width)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x, relu=True)
        out: Tensor = self.second(hidden, added=self.shortcut(x), relu=True)
        return out


def _stem(channels: int, width: int, stem: Stem) -> Chain:
    if stem != "imagenet":
        return Chain(*NormalizedConvolution(channels, width), nn.ReLU())
    convolution = NormalizedConvolution(channels, width, kernel=7, stride=2)
    return Chain(*convolution, nn.ReLU(), nn.MaxPool2d(3, 2, 1))


def _stage(
    channels: int, width: int, stride: int, scaled: bool
) -> tuple[_Block, _Block]:
    return _Block(channels, width, stride, scaled), _Block(width, width, 1, scaled)


def _scale(width: int) -> nn.Conv2d:
    """Return one weight per channel as a layer whose Fisher trace is known."""
    layer = nn.Conv2d(width, width, 1, groups=width, bias=False)
    nn.init.ones_(layer.weight)
    return layer
