"""Pictures of one image under corruptions."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from torch import Tensor

from tepui.report.drawing import grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = 4


def image_grid(images: Mapping[str, Tensor]) -> "Figure":
    """Draw images side by side."""
    figure, axes = grid(len(images), COLUMNS)
    figure.set_size_inches(figure.get_figwidth() / 2, figure.get_figheight() / 1.6)
    for axis, (title, image) in zip(axes, images.items(), strict=True):
        pixels = image.permute(1, 2, 0).squeeze(-1)
        axis.imshow(pixels.numpy(), cmap="gray" if pixels.ndim == 2 else None)
        axis.set_title(title)
        axis.set_axis_off()
    return figure
