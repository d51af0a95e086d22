"""Blur: out of focus, behind frosted glass, in motion, while zooming."""

import numpy as np
import torch
from torch import Tensor

from tepui.data.corruptions.draws import Draws
from tepui.data.corruptions.filters import (
    along_line,
    correlated,
    gaussian,
    gaussian_matrix,
    separable,
    zoomed,
)


def defocus_blur(images: Tensor, disk: tuple[float, float], draws: Draws) -> Tensor:
    """Blur with a disk of a given radius whose edge is itself blurred."""
    return correlated(images, disk_kernel(*disk))


def glass_blur(images: Tensor, glass: tuple[float, int, int], draws: Draws) -> Tensor:
    """Blur, copy pixels from nearby several times, and blur again."""
    sigma, distance, times = glass
    pixels = (gaussian(images, sigma) * 255 + 1e-4).floor().flatten(2)
    height, width = images.shape[2:]
    for turn in range(times):
        uniform = draws.uniform(2, height, width, stream=turn)
        offset = (uniform * (2 * distance)).long() - distance
        source = copied_from(offset, distance)[:, None]
        pixels = pixels.gather(2, source.expand_as(pixels))
    return gaussian(pixels.view_as(images) / 255, sigma)


def motion_blur(images: Tensor, line: tuple[int, float], draws: Draws) -> Tensor:
    """Smear along a line at most 45° from the horizontal."""
    return along_line(images, *line, 90 * draws.uniform() - 45)


def zoom_blur(images: Tensor, zoom: tuple[float, float], draws: Draws) -> Tensor:
    """Average the image with itself, zoomed from 1 to below ``stop`` by ``step``."""
    return zoomed(images, 1.0, *np.arange(1, *zoom).tolist())


def disk_kernel(radius: float, alias: float) -> Tensor:
    """Return a disk of weight one with a soft edge."""
    half, reach = (8, 1) if radius <= 8 else (int(radius), 2)
    line = torch.arange(-half, half + 1)
    disk = (line[:, None] ** 2 + line**2 <= radius**2).double()
    soft = gaussian_matrix(len(line), alias, reach, "mirror")
    kernel = separable(disk / disk.sum(), soft, soft)
    spare = max(0, half - int(radius) - reach)
    return kernel[spare : len(line) - spare, spare : len(line) - spare]


def copied_from(offset: Tensor, distance: int) -> Tensor:
    """Return where each pixel's value comes from after copying one by one.

    From the last row to the first and from right to left, each pixel takes the present
    value of the one at its offset, which may have been copied before. (The published
    code means to swap the two, but copies.) Each pixel points to a pixel that was
    copied before, or to an old value; following all pointers twice as far at each turn
    resolves any chain in logarithmically many turns.
    """
    samples, _, height, width = offset.shape
    device = offset.device
    rows, columns = (
        torch.arange(height, device=device),
        torch.arange(width, device=device),
    )
    inside = (_inner(rows, distance)[:, None] & _inner(columns, distance)).flatten()
    pixel = torch.arange(height * width, device=device)
    target = pixel + inside * (offset[:, 0] * width + offset[:, 1]).flatten(1)
    copied_before = inside[target] & (target > pixel)
    old = (pixel + len(pixel)).expand(samples, -1)
    pointer = torch.where(copied_before, target, target + len(pixel))
    while (pointer < len(pixel)).any():
        pointer = torch.cat([pointer, old], dim=1).gather(1, pointer)
    return pointer - len(pixel)


def _inner(index: Tensor, distance: int) -> Tensor:
    return (index > distance) & (index <= len(index) - distance)
