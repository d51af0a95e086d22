"""VGG-19, without and with BatchNorm.

``(n, c, h, w)`` passes sixteen 3×3 convolutions with ReLU in five stages of 2, 2, 4, 4
and 4, of ``w, 2w, 4w, 8w, 8w`` channels, each stage ending in a 2×2 max-pooling. Two
heads can follow: ``"linear"``, the mean over pixels and one linear layer, customary for
images of 32 pixels; or ``"imagenet"``, a mean pooling to 7×7 and three linear layers
with dropout, as published.

References:
    Simonyan and Zisserman (2015), Very Deep Convolutional Networks for Large-Scale
    Image Recognition, ICLR.
"""

from typing import ClassVar, Literal, final, get_args

from torch import nn

from tepui.core.checks import one_of
from tepui.models.base import Chain, Model, kaiming_fan_out

Head = Literal["linear", "imagenet"]

STAGES = ((1, 2), (2, 2), (4, 4), (8, 4), (8, 4))  # width in units of the first, layers


class _VGG(Model):
    """What both share; layers are the convolutions, the pooling, the hidden layers.

    Args:
        num_classes: Number of logits.
        in_channels: Channels of the images.
        width: Channels of the first stage.
        head: What follows the convolutions.
    """

    norm: ClassVar[bool]

    def __init__(
        self,
        num_classes: int = 10,
        in_channels: int = 3,
        width: int = 64,
        head: Head = "linear",
    ) -> None:
        super().__init__(
            num_classes=num_classes, in_channels=in_channels, width=width, head=head
        )
        one_of("head", head, get_args(Head))
        modules: list[nn.Module] = []
        channels = in_channels
        for scale, convolutions in STAGES:
            for _ in range(convolutions):
                modules.append(_convolution(channels, scale * width, self.norm))
                channels = scale * width
            modules.append(nn.MaxPool2d(2))
        side, hidden = (7, 64 * width) if head == "imagenet" else (1, channels)
        modules.append(nn.Sequential(nn.AdaptiveAvgPool2d(side), nn.Flatten()))
        if head == "imagenet":
            modules += [_hidden(49 * channels, hidden), _hidden(hidden, hidden)]
        self.layers = nn.Sequential(*modules)
        self.classifier = nn.Linear(hidden, num_classes)
        kaiming_fan_out(self)

    def torchvision_names(self) -> dict[str, str]:
        """Map the name of each part that holds weights to torchvision's name."""
        names = {"classifier": "classifier.6"}
        position, hidden = 0, 0
        for index, layer in enumerate(self.layers):
            parts = list(layer.children())
            if not parts:  # a max-pooling
                position += 1
            elif isinstance(parts[0], nn.Conv2d):
                for number in range(len(parts)):
                    names[f"layers.{index}.{number}"] = f"features.{position + number}"
                position += len(parts)
            elif isinstance(parts[0], nn.Linear):
                names[f"layers.{index}.0"] = f"classifier.{hidden}"
                hidden += 3
        return names


@final
class VGG19(_VGG):
    """VGG-19 without BatchNorm.

    Takes ``num_classes``, ``in_channels``, ``width``, the channels of the first stage,
    and ``head``, what follows the convolutions: ``"linear"`` or ``"imagenet"``.

    Example:
        >>> import torch
        >>> VGG19(num_classes=100, width=4)(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 100])
    """

    norm = False


@final
class VGG19BN(_VGG):
    """VGG-19 with BatchNorm after every convolution.

    Takes ``num_classes``, ``in_channels``, ``width``, the channels of the first stage,
    and ``head``, what follows the convolutions: ``"linear"`` or ``"imagenet"``.

    Example:
        >>> import torch
        >>> VGG19BN(num_classes=200, width=4)(torch.zeros(2, 3, 64, 64)).shape
        torch.Size([2, 200])
    """

    norm = True


def _convolution(channels: int, width: int, norm: bool) -> Chain:
    layer = nn.Conv2d(channels, width, 3, padding=1)
    norms = [nn.BatchNorm2d(width)] if norm else []
    return Chain(layer, *norms, nn.ReLU())


def _hidden(features: int, width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(features, width), nn.ReLU(), nn.Dropout())
