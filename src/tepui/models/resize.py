"""Images enlarged for a model that was trained on larger ones."""

from typing import final

import torch.nn.functional as F
from torch import Tensor, nn

from tepui.models.base import positive


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
