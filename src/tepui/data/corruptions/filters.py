"""Linear filters of whole batches, and what lies beyond an image's border."""

import functools
import math
import warnings
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Border = Literal["nearest", "reflect", "mirror"]


def border_index(index: Tensor, side: int, border: Border) -> Tensor:
    """Map positions beyond an axis to positions on it; the names are scipy's.

    Example:
        >>> border_index(torch.arange(-2, 5), 3, "mirror")
        tensor([2, 1, 0, 1, 2, 1, 0])
    """
    if border == "nearest":
        return index.clamp(0, side - 1)
    last = 2 * side - 1 if border == "reflect" else max(2 * side - 2, 1)
    period = 2 * side if border == "reflect" else last
    index = index % period
    return torch.where(index < side, index, last - index)


def separable(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Apply one matrix along the height and one along the width."""
    return rows.to(images) @ (images @ columns.to(images).T)


def gaussian(
    images: Tensor, sigma: float, border: Border = "nearest", truncate: float = 4
) -> Tensor:
    """Blur with a Gaussian that ends ``truncate`` widths from its center."""
    if sigma == 0:
        return images
    radius = int(truncate * sigma + 0.5)
    rows, columns = (
        gaussian_matrix(side, sigma, radius, border) for side in images.shape[-2:]
    )
    return separable(images, rows, columns)


def gaussian_matrix(side: int, sigma: float, radius: int, border: Border) -> Tensor:
    """Return the matrix that blurs an axis, in float64."""
    offset = torch.arange(-radius, radius + 1)
    weights = (-(offset.double() ** 2) / (2 * sigma**2)).softmax(0)
    source = border_index(torch.arange(side)[:, None] + offset, side, border)
    matrix = torch.zeros(side, side, dtype=torch.float64)
    return matrix.scatter_add_(1, source, weights.expand(side, -1))


def box_matrix(side: int, result: int) -> Tensor:
    """Return the matrix that resizes an axis as Pillow's box filter does, in float64.

    Each new pixel averages the old ones whose centers it covers. The two conditions
    say the same but for ties, which rounding decides as in Pillow.
    """
    scale = side / result
    radius = max(scale, 1.0) / 2
    pixel = torch.arange(side)
    center = (torch.arange(result, dtype=torch.float64)[:, None] + 0.5) * scale
    start, stop = (center - radius + 0.5).floor(), (center + radius + 0.5).floor()
    offset = (pixel - center + 0.5) / (2 * radius)
    inside = (start <= pixel) & (pixel < stop) & (offset > -0.5) & (offset <= 0.5)
    return inside.double() / inside.sum(dim=1, keepdim=True)


def padded(images: Tensor, radius: int, border: Border) -> Tensor:
    """Add ``radius`` pixels on each side of images ``(..., height, width)``."""
    rows, columns = (
        border_index(torch.arange(-radius, side + radius), side, border)
        for side in images.shape[-2:]
    )
    device = images.device
    images = images.index_select(-1, columns.to(device))
    return images.index_select(-2, rows.to(device))


def correlated(images: Tensor, kernel: Tensor, border: Border = "mirror") -> Tensor:
    """Correlate each channel with one kernel of odd, equal sides."""
    planes = padded(images, len(kernel) // 2, border).flatten(0, 1)[None]
    count = planes.shape[1]
    kernels = kernel.to(images).repeat(count, 1, 1, 1)
    # One group for each plane is several times faster than one plane for each sample.
    return F.conv2d(planes, kernels, groups=count).view_as(images)


def zoom_matrix(side: int, factor: float) -> tuple[Tensor, Tensor]:
    """Return how to enlarge the middle of an axis linearly, to the length it has.

    First and last pixel of the middle stay whole; what exceeds the length is cut off
    at the end.
    """
    cut = math.ceil(side / factor)
    large = round(cut * factor)
    old = torch.arange(side, dtype=torch.float64) * ((cut - 1) / max(large - 1, 1))
    left = old.floor().clamp(max=max(cut - 2, 0))
    weight = (old - left)[:, None]
    index = left.long()[:, None] + torch.tensor([0, 1])
    return index.clamp(max=cut - 1) + (side - cut) // 2, torch.cat(
        [1 - weight, weight], dim=1
    )


@functools.lru_cache(maxsize=4)
def zoom_operator(height: int, width: int, factors: tuple[float, ...]) -> Tensor:
    """Return the mean over several zooms as one sparse matrix on pixels, in float64."""
    indices, values = [], []
    target = torch.arange(height * width).view(height, width, 1, 1)
    for factor in factors:
        rows, down = zoom_matrix(height, factor)
        columns, right = zoom_matrix(width, factor)
        source = rows[:, None, :, None] * width + columns[None, :, None, :]
        weight = down[:, None, :, None] * right[None, :, None, :]
        indices.append(torch.stack([target.expand_as(source), source]).flatten(1))
        values.append(weight.flatten() / len(factors))
    sides = (height * width,) * 2
    with warnings.catch_warnings():
        # torch 2.11 asks for a choice about invariants even where one is made.
        warnings.filterwarnings("ignore", message="Sparse invariant checks")
        return torch.sparse_coo_tensor(
            torch.cat(indices, 1), torch.cat(values), sides, check_invariants=False
        ).coalesce()


def zoomed(images: Tensor, *factors: float) -> Tensor:
    """Enlarge the middle of images bilinearly, to the size they have."""
    operator = zoom_operator(*images.shape[2:], factors).to(images)
    planes = images.flatten(2).flatten(0, 1)
    zoomed_planes: Tensor = torch.sparse.mm(operator, planes.T.contiguous())
    return zoomed_planes.T.reshape(images.shape)


def along_line(images: Tensor, radius: int, sigma: float, angle: Tensor) -> Tensor:
    """Smear each image along its own direction with half a Gaussian."""
    height, width = images.shape[2:]
    device = images.device
    step = torch.arange(2 * radius + 1, dtype=torch.float64)
    weights = (-(step**2) / (2 * sigma**2)).softmax(0).tolist()
    # In float64, so that rounding to whole pixels agrees between devices.
    turn, step = angle.double().deg2rad(), step.to(device)[:, None]
    down = (step * turn.sin() - 0.5).ceil().long()[..., None]
    right = (step * turn.cos() - 0.5).ceil().long()[..., None]
    rows = (torch.arange(height, device=device) + down).clamp(0, height - 1)
    columns = (torch.arange(width, device=device) + right).clamp(0, width - 1)
    pixels = images.flatten(2)
    result = torch.zeros_like(pixels)
    for weight, row, column in zip(weights, rows, columns, strict=True):
        index = (row[:, :, None] * width + column[:, None]).flatten(1)
        moved = pixels.gather(2, index[:, None].expand_as(pixels))
        result.add_(moved, alpha=weight)
    return result.view_as(images)


def gray(images: Tensor) -> Tensor:
    """Return one channel: the brightness of color (ITU-R 601), else the mean."""
    if images.shape[-3] != 3:
        return images.mean(dim=-3, keepdim=True)
    weights = images.new_tensor([0.299, 0.587, 0.114])[:, None, None]
    return (weights * images).sum(dim=-3, keepdim=True)
