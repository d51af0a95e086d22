"""Edges of drops and the distance to them, for whole batches."""

import torch
import torch.nn.functional as F
from torch import Tensor

from tepui.data.corruptions.filters import correlated

_SOBEL = torch.tensor([[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]])
_TAN = 13573 / 2**15


def canny(images: Tensor, low: float, high: float) -> Tensor:
    """Return the edges of images by Canny's method, as OpenCV computes it.

    Slopes by Sobel's filters, their sizes summed over the axes; a pixel is on a ridge
    if its slope exceeds those of its neighbors across it. Ridges above ``high`` are
    edges, and so is every ridge above ``low`` connected to one.
    """
    right = correlated(images, _SOBEL, "nearest")
    down = correlated(images, _SOBEL.T, "nearest")
    slope = right.abs() + down.abs()
    ridge = (slope > low) & _is_ridge(slope, right, down)
    edges = ridge & (slope > high)
    while True:
        grown = ridge & (F.max_pool2d(edges.float(), 3, 1, 1) > 0)
        if torch.equal(grown, edges):
            return edges
        edges = grown


def distance_to(marked: Tensor, limit: int) -> Tensor:
    """Return the Euclidean distance of each pixel to the nearest marked one."""
    far = torch.full_like(marked, limit**2, dtype=torch.float32)
    squares = far.masked_fill(marked, 0)
    for axis in (2, 3):
        near = squares.clone()
        for step in range(1, min(limit, marked.shape[axis])):
            length = marked.shape[axis] - step
            for start, stop in ((0, step), (step, 0)):
                part = near.narrow(axis, stop, length)
                other = squares.narrow(axis, start, length) + step**2
                torch.minimum(part, other, out=part)
        squares = near
    return squares.sqrt()


def _is_ridge(slope: Tensor, right: Tensor, down: Tensor) -> Tensor:
    around = F.pad(slope, (1, 1, 1, 1))
    height, width = slope.shape[2:]

    def at(row: int, column: int) -> Tensor:
        return around[..., row + 1 : row + 1 + height, column + 1 : column + 1 + width]

    across, along = right.abs(), down.abs()
    horizontal = (slope > at(0, -1)) & (slope >= at(0, 1))
    vertical = (slope > at(-1, 0)) & (slope >= at(1, 0))
    falling = (slope > at(-1, -1)) & (slope > at(1, 1))
    rising = (slope > at(-1, 1)) & (slope > at(1, -1))
    diagonal = torch.where(right * down < 0, rising, falling)
    steep = torch.where(along > (_TAN + 2) * across, vertical, diagonal)
    return torch.where(along < _TAN * across, horizontal, steep)
