"""What tepui's own models share: features, a linear classifier, and a configuration.

Any ``nn.Module`` can be a member. A :class:`Model` can also be rebuilt by a saved
ensemble, and be cut where only its last layers are to be trained.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tepui.core.checks import require
from tepui.core.types import check_types
from tepui.models.batch_norm import hooked, is_plain_relu, normalized


class Model(nn.Module):
    """A classifier that is linear in its features.

    Args:
        config: The arguments of the subclass's constructor, by name; integers must be
            positive.

    Attributes:
        layers: Their composition yields the features; a model can be cut between any
            two of them.
        classifier: The last layer.
        config: Arguments from which the constructor builds the same model; each can
            be written as JSON.
        fused: Whether training on a GPU runs in kernels of our own, so that compiling
            gains nothing.

    Raises:
        ValueError: If the configuration holds something of another type than the
            constructor declares, or an integer that is not positive.
    """

    layers: nn.Sequential
    classifier: nn.Linear
    config: dict[str, Any]
    fused: ClassVar[bool] = False

    def __init__(self, **config: Any) -> None:
        super().__init__()
        check_types(type(self).__init__, config)
        integers = {n: value for n, value in config.items() if type(value) is int}
        positive(**integers)
        self.config = config

    def features(self, *inputs: Any, **named: Any) -> Tensor:
        """Return what the classifier sees, ``(samples, width)``: all layers in order.

        Args:
            inputs: A batch of inputs.
            named: A batch of dict inputs, by name.

        Returns:
            The features.
        """
        return composed(self.layers, *inputs, **named)

    def forward(self, *inputs: Tensor, **named: Tensor) -> Tensor:
        """Return logits of shape ``(samples, classes)``.

        Args:
            inputs: A batch of inputs.
            named: A batch of dict inputs, by name.

        Returns:
            The classifier applied to the features.
        """
        features = self.features(*inputs, **named)
        dtype = self.classifier.weight.dtype  # wider than that of a frozen body, maybe
        if features.dtype != dtype and not torch.is_autocast_enabled(
            features.device.type
        ):
            features = features.to(dtype)
        logits: Tensor = self.classifier(features)
        return logits


@dataclass(frozen=True)
class CutFrom:
    """What a part of a model was cut from, so that a saved part can be rebuilt."""

    model: type[Model]
    config: dict[str, Any]
    layers: int  # of the tail


@final
class Composed(Model):
    """A model put together from parts, perhaps ones that were cut from another."""

    def __init__(
        self,
        layers: Iterable[nn.Module],
        classifier: nn.Linear,
        cut_from: CutFrom | None = None,
    ) -> None:
        super().__init__()
        self.cut_from = cut_from
        self.layers = nn.Sequential(*layers)
        self.classifier = classifier


def composed(layers: Iterable[nn.Module], *inputs: Any, **named: Any) -> Tensor:
    """Apply layers in order, a BatchNorm and the ReLU that follows it at once."""
    left = list(layers)[::-1]
    while left:
        layer = left.pop()
        if left and isinstance(layer, nn.BatchNorm2d) and is_plain_relu(left[-1]):
            left.pop()
            inputs = (normalized(layer, *inputs),)
        elif type(layer) is nn.Conv2d:
            inputs = (convolved(layer, *inputs),)
        else:
            inputs, named = (layer(*inputs, **named),), {}
    x: Tensor = inputs[0]
    return x


class Chain(nn.Sequential):
    """Layers in order, as :func:`composed` applies them."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply all layers."""
        return composed(self, x)


def positive(**sizes: int) -> None:
    """Check the sizes a constructor was given.

    Example:
        >>> positive(width=0)
        Traceback (most recent call last):
        ValueError: width must be positive, got 0
    """
    for name, size in sizes.items():
        require(size > 0, name, "be positive", size)


class NormalizedConvolution(nn.Sequential):
    """A convolution that keeps the size, up to stride, and its BatchNorm."""

    def __init__(
        self, channels: int, width: int, kernel: int = 3, stride: int = 1
    ) -> None:
        layer = nn.Conv2d(channels, width, kernel, stride, kernel // 2, bias=False)
        super().__init__(layer, nn.BatchNorm2d(width))

    def forward(
        self, x: Tensor, *, added: Tensor | None = None, relu: bool = False
    ) -> Tensor:
        """Return the result, plus a tensor if given, then ReLU if wanted."""
        return normalized(self[1], self[0](x), added=added, relu=relu)


def kaiming_fan_out(module: nn.Module) -> None:
    """Draw convolutions from N(0, 2 / (kernel² · channels out)); biases become zero.

    References:
        He, Zhang, Ren and Sun (2015), Delving Deep into Rectifiers, ICCV.
    """
    for part in module.modules():
        if isinstance(part, nn.Conv2d) and part.groups == 1:
            nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")
            if part.bias is not None:
                nn.init.zeros_(part.bias)


CHANNELS = 8  # that tensor cores read at once in half precision


def convolved(layer: nn.Conv2d, images: Tensor) -> Tensor:
    """Return a convolution of images, which are filled up where that is faster.

    A GPU has no fast kernel for three channels. In training in half precision both the
    images and the weight get channels of zeros, which change no sum.
    """
    out: Tensor
    if not _gains(layer, images):
        out = layer(images)
        return out
    fill = (0, 0, 0, 0, 0, CHANNELS - layer.in_channels)
    filled, weight = (
        F.pad(tensor, fill).contiguous(memory_format=torch.channels_last)
        for tensor in (images, layer.weight)
    )
    out = layer._conv_forward(filled, weight, layer.bias)
    return out


def _gains(layer: nn.Conv2d, images: Tensor) -> bool:
    """Return whether filling up is faster and nobody would notice it."""
    return (
        images.is_cuda
        and images.ndim == 4
        and layer.in_channels < CHANNELS
        and layer.groups == 1
        and layer.padding_mode == "zeros"
        and layer.training
        and torch.is_autocast_enabled("cuda")
        and not torch.compiler.is_compiling()
        and not hooked(layer)
    )
