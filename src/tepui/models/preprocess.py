"""What is done to images before a model, as a layer of it.

Before a pretrained model images are scaled until a square of ``size / crop`` pixels
fits into them, the square of ``size`` pixels at their center is kept, and every channel
is normalized.
"""

import math
from collections.abc import Sequence
from typing import Literal, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tepui.core.checks import require
from tepui.core.types import check_types
from tepui.models.base import positive

Interpolation = Literal["bicubic", "bilinear"]


@final
class Preprocess(nn.Module):
    """Resizing, cropping and normalizing, for images in ``[0, 1]`` of any size.

    Args:
        size: Height and width of the result.
        crop: Share of the resized image's shorter side that is kept.
        mean: One mean per channel.
        std: One standard deviation per channel.
        interpolation: How images are resized, as Pillow does it.

    Raises:
        ValueError: If a size is not positive, the crop lies outside (0, 1], or there
            are not as many standard deviations as means.

    Example:
        >>> import torch
        >>> Preprocess(224, crop=0.9)(torch.zeros(2, 3, 32, 48)).shape
        torch.Size([2, 3, 224, 224])
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        size: int = 224,
        crop: float = 1.0,
        mean: Sequence[float] = (0.485, 0.456, 0.406),
        std: Sequence[float] = (0.229, 0.224, 0.225),
        interpolation: Interpolation = "bicubic",
    ) -> None:
        super().__init__()
        check_types(Preprocess.__init__, locals())
        positive(size=size)
        require(0 < crop <= 1, "crop", "lie in (0, 1]", crop)
        fits = len(std) == len(mean) > 0 and min(std) > 0
        require(fits, "std", "be positive, one for each mean", tuple(std))
        self.size, self.crop, self.interpolation = size, crop, interpolation
        for name, values in (("mean", mean), ("std", std)):
            tensor = torch.tensor(values).reshape(-1, 1, 1)
            self.register_buffer(name, tensor, persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Return images ``(samples, channels, size, size)`` as the model takes them.

        Args:
            images: Images in ``[0, 1]``, ``(samples, channels, height, width)``.

        Returns:
            The same images, resized, cropped and normalized.
        """
        resized = self._resized(images)
        height, width = resized.shape[2:]
        top, left = round((height - self.size) / 2), round((width - self.size) / 2)
        square = resized[:, :, top : top + self.size, left : left + self.size]
        return (square - self.mean) / self.std

    def _resized(self, images: Tensor) -> Tensor:
        height, width = images.shape[2:]
        shorter = math.floor(self.size / self.crop)
        longer = int(shorter * max(height, width) / min(height, width))
        sides = (longer, shorter) if height > width else (shorter, longer)
        if (height, width) == sides:
            return images
        # With it, torch's kernels are Pillow's, also where images are enlarged.
        scaled = F.interpolate(
            images, sides, mode=self.interpolation, antialias=True, align_corners=False
        )
        return scaled.clamp(0, 1)  # cubic curves overshoot

    def extra_repr(self) -> str:
        """Show size, crop and interpolation."""
        return f"size={self.size}, crop={self.crop}, interpolation={self.interpolation}"


@final
class Resize(nn.Module):
    """Bicubic resizing to a square, such as 32 to 224 pixels for a pretrained ViT.

    Args:
        size: Height and width of the result.

    Raises:
        ValueError: If the size is not positive.

    Example:
        >>> import torch
        >>> Resize(224)(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 3, 224, 224])
    """

    def __init__(self, size: int = 224) -> None:
        super().__init__()
        positive(size=size)
        self.size = size

    def forward(self, images: Tensor) -> Tensor:
        """Return images ``(samples, channels, size, size)``.

        Args:
            images: Images of any size, ``(samples, channels, height, width)``.

        Returns:
            The same images, unchanged if they already have that size.
        """
        if images.shape[2:] == (self.size, self.size):
            return images
        shrinks = max(images.shape[2:]) > self.size
        return F.interpolate(
            images, self.size, mode="bicubic", antialias=shrinks, align_corners=False
        )

    def extra_repr(self) -> str:
        """Show the size."""
        return f"size={self.size}"
