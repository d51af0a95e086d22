"""A convolution over few channels, as the tensor cores of a GPU take it."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

CHANNELS = 8  # that tensor cores read at once in half precision


def convolved(layer: nn.Conv2d, images: Tensor) -> Tensor:
    """Return a convolution of images, which are filled up where that is faster.

    A GPU has no fast kernel for three channels. In training in half precision both the
    images and the weight get channels of zeros, which change no sum.
    """
    missing = -layer.in_channels % CHANNELS
    halved = images.is_cuda and torch.is_autocast_enabled("cuda")
    if not (missing and halved and layer.training) or torch.compiler.is_compiling():
        out: Tensor = layer(images)
        return out
    fill = (0, 0, 0, 0, 0, missing)
    filled = F.pad(images, fill).contiguous(memory_format=torch.channels_last)
    weight = F.pad(layer.weight, fill)
    return F.conv2d(filled, weight, layer.bias, layer.stride, layer.padding)
