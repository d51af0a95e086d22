"""A convolution over few channels, as the tensor cores of a GPU take it."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tepui.models.hooks import hooked

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
