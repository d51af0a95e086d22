"""Digital: contrast, elastic deformation, pixelation and JPEG compression."""

import os
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tepui.data.corruptions.draws import Draws
from tepui.data.corruptions.filters import box_matrix, gaussian, separable


def contrast(images: Tensor, factor: float, draws: Draws) -> Tensor:
    """Pull every value toward the mean of its channel, by ``factor``."""
    mean = images.mean(dim=(2, 3), keepdim=True)
    return (images - mean) * factor + mean


def elastic_transform(
    images: Tensor, stretch: tuple[float, float, float], draws: Draws
) -> Tensor:
    """Shear the image, then move each pixel by smooth noise.

    ``stretch`` holds the height of the noise, its smoothness and the reach of the
    shear, each in units of the shorter side.
    """
    height, width = images.shape[2:]
    unit = min(height, width)
    lift, sigma, reach = (unit * value for value in stretch)
    corners = reach * (2 * draws.uniform(3, 2, stream=1) - 1)
    sheared = _sampled(images, _sheared_grid(corners, height, width), "mirror")
    if lift == 0:
        return sheared
    noise = 2 * draws.uniform(2, height, width) - 1
    down, right = (lift * gaussian(noise, sigma, "reflect", 3)).unbind(1)
    y = torch.arange(height, device=images.device)[:, None] + down
    x = torch.arange(width, device=images.device) + right
    return _sampled(sheared, torch.stack([x, y], dim=3), "reflect")


def pixelate(images: Tensor, factor: float, draws: Draws) -> Tensor:
    """Shrink the sides by ``factor`` and grow them back, with box filters."""
    rows, columns = (
        box_matrix(small, side) @ box_matrix(side, small)
        for side in images.shape[2:]
        for small in [max(1, int(side * factor))]
    )
    return separable(images, rows, columns)


def jpeg_compression(images: Tensor, quality: int, draws: Draws) -> Tensor:
    """Write and read as JPEG: in color with three channels, else in gray."""
    from PIL import Image

    levels = (images * 255).round().byte().cpu()
    color = images.shape[1] == 3
    pictures = levels.permute(0, 2, 3, 1) if color else levels.flatten(0, 1)

    def compressed(picture: Tensor) -> Tensor:
        file = BytesIO()
        Image.fromarray(picture.numpy()).save(file, "JPEG", quality=quality)
        return torch.from_numpy(np.array(Image.open(file)))

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        read = torch.stack([*pool.map(compressed, pictures.contiguous())])
    # Color stays as decoders lay it out: a convolution's last bits depend on it.
    levels = read.permute(0, 3, 1, 2) if color else read.view_as(levels)
    return levels.to(images.device, images.dtype) / 255


def _sheared_grid(corners: Tensor, height: int, width: int) -> Tensor:
    """Return where each pixel comes from when three points move by ``corners``."""
    reach = max(min(height, width) // 3, 1)
    center = corners.new_tensor([width // 2, height // 2])
    lower_right, upper_right, upper_left = corners.unbind(1)
    # The linear map that takes the old triangle to the new one, column by column.
    down = (lower_right - upper_right) / (2 * reach)
    along = (lower_right - upper_left) / (2 * reach) - down
    a, c = (along + along.new_tensor([1, 0])).unbind(1)
    b, d = (down + down.new_tensor([0, 1])).unbind(1)
    y, x = torch.meshgrid(
        torch.arange(height, device=corners.device),
        torch.arange(width, device=corners.device),
        indexing="ij",
    )
    start = center + reach
    moved = torch.stack([x, y], dim=2) - (start + lower_right)[:, None, None]
    u, v = moved.unbind(3)
    a, b, c, d = (entry[:, None, None] for entry in (a, b, c, d))
    area = a * d - b * c
    source = torch.stack([d * u - b * v, a * v - c * u], dim=3) / area[..., None]
    return source + start


def _sampled(images: Tensor, grid: Tensor, border: str) -> Tensor:
    """Read images bilinearly at ``(x, y)`` in pixels."""
    centered = border == "mirror"
    sides = grid.new_tensor([images.shape[3], images.shape[2]])
    if centered:
        grid = 2 * grid / (sides - 1).clamp(min=1) - 1
    else:
        grid = (2 * grid + 1) / sides - 1
    return F.grid_sample(
        images, grid.to(images.dtype), padding_mode="reflection", align_corners=centered
    )
