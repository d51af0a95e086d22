"""A small convolutional network for digits, fast on a CPU.

``(n, c, h, w)`` passes three 3×3 convolutions with BatchNorm and ReLU of ``w, 2w, 4w``
channels, a 2×2 max-pooling after the first, the mean over each quarter of the image,
and a linear layer on ``16w`` features. By default: gray images of 8×8 to 28×28 pixels.

References:
    LeCun, Bottou, Bengio and Haffner (1998), Gradient-Based Learning Applied to
    Document Recognition, Proceedings of the IEEE.
    Ioffe and Szegedy (2015), Batch Normalization, ICML.
"""

from typing import final

from torch import nn

from tepui.models.base import Model, NormalizedConvolution


@final
class ConvNet(Model):
    """Three convolutions for small images.

    Args:
        num_classes: Number of logits.
        in_channels: Channels of the images.
        width: Channels of the first convolution.
        stride: Step of the first convolution; 2 makes a network for larger images
            about four times cheaper.

    Raises:
        ValueError: If an argument is not positive.

    Example:
        >>> import torch
        >>> ConvNet()(torch.zeros(2, 1, 8, 8)).shape
        torch.Size([2, 10])
    """

    def __init__(
        self,
        num_classes: int = 10,
        in_channels: int = 1,
        width: int = 8,
        stride: int = 1,
    ) -> None:
        super().__init__(
            num_classes=num_classes, in_channels=in_channels, width=width, stride=stride
        )
        self.layers = nn.Sequential(
            *NormalizedConvolution(in_channels, width, stride=stride),
            nn.ReLU(),
            nn.MaxPool2d(2),
            *NormalizedConvolution(width, 2 * width),
            nn.ReLU(),
            *NormalizedConvolution(2 * width, 4 * width),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
        )
        self.classifier = nn.Linear(16 * width, num_classes)
