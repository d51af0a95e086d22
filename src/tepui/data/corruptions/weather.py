"""Weather: snow, frost, fog and brightness."""

from collections.abc import Sequence

import torch
from torch import Tensor

from tepui.data.corruptions.draws import Draws
from tepui.data.corruptions.filters import along_line, gray, zoomed
from tepui.data.corruptions.frost import fitted, packed


def snow(
    images: Tensor,
    flakes: tuple[float, float, float, float, int, float, float],
    draws: Draws,
) -> Tensor:
    """Whiten the image and add snowflakes that fall both ways.

    Flakes are normal noise of a mean and a width, zoomed, cut off below a threshold
    and smeared downwards along a line of a radius and a width; the last number is the
    share of the image that is not whitened.
    """
    mean, std, zoom, threshold, radius, sigma, share = flakes
    noise = mean + std * draws.normal(1, *images.shape[2:])
    layer = zoomed(noise.to(images.dtype), zoom)
    layer = torch.where(layer < threshold, 0, layer).clamp_(0, 1)
    angle = -135 + 90 * draws.uniform(stream=1)
    layer = (along_line(layer, int(radius), sigma, angle) * 255).round() / 255
    white = images.maximum(gray(images) * 1.5 + 0.5)
    return share * images + (1 - share) * white + layer + layer.flip(2, 3)


def frost(
    images: Tensor,
    weights: tuple[float, float, float],
    draws: Draws,
    textures: Sequence[Tensor] | None = None,
) -> Tensor:
    """Blend in part of a frost texture (weight of image, weight of frost, scale)."""
    share, ice, scale = weights
    channels, height, width = images.shape[1:]
    values, rows, columns, start = packed(
        fitted(textures, scale, height, width), images.device
    )
    which, top, left = draws.uniform(3).T
    choice = (which * len(rows)).long()
    top = (top * (rows[choice] - height + 1)).long()
    left = (left * (columns[choice] - width + 1)).long()
    y = top[:, None, None] + torch.arange(height, device=images.device)[:, None]
    x = left[:, None, None] + torch.arange(width, device=images.device)
    index = start[choice, None, None] + y * columns[choice, None, None] + x
    piece = values.to(images.dtype)[:, index].transpose(0, 1)
    return share * images + ice * (piece if channels == 3 else gray(piece))


def fog(images: Tensor, fog: tuple[float, float], draws: Draws) -> Tensor:
    """Add clouds of a given amount and roughness, and darken to the old range."""
    amount, decay = fog
    height, width = images.shape[2:]
    side = 1 << max(max(height, width) - 1, 1).bit_length()
    clouds = plasma(2 * draws.uniform(side, side) - 1, decay)[:, None, :height, :width]
    brightest = images.amax(dim=(1, 2, 3), keepdim=True)
    foggy = images + amount * clouds.to(images.dtype)
    return foggy * (brightest / (brightest + amount))


def brightness(images: Tensor, shift: float, draws: Draws) -> Tensor:
    """Raise the largest channel by ``shift`` up to 1; hue and saturation stay."""
    value = images.amax(dim=1, keepdim=True)
    raised = (value + shift).clamp(max=1)
    return torch.where(value > 0, images / value * raised, raised)


def plasma(wobble: Tensor, decay: float) -> Tensor:
    """Return clouds by the diamond-square rule, from 0 to 1 in each image.

    A point is the mean of four neighbors, on a grid that wraps around, plus its own
    wobble times a height that falls by ``decay**2`` as the grid is halved.
    """
    clouds = torch.zeros_like(wobble)
    step, height = wobble.shape[1], 100.0

    def fill(rows: slice, columns: slice, neighbors: Tensor) -> None:
        clouds[:, rows, columns] = neighbors / 4 + height**2 * wobble[:, rows, columns]

    while step >= 2:
        even, odd = slice(0, None, step), slice(step // 2, None, step)
        corners = clouds[:, even, even]
        sides = corners + corners.roll(-1, 1)
        fill(odd, odd, sides + sides.roll(-1, 2))
        centers = clouds[:, odd, odd]
        above = centers + centers.roll(1, 1)
        fill(even, odd, above + corners + corners.roll(-1, 2))
        beside = centers + centers.roll(1, 2)
        fill(odd, even, beside + sides)
        step, height = step // 2, height / decay
    clouds -= clouds.amin(dim=(1, 2), keepdim=True)
    return clouds / clouds.amax(dim=(1, 2), keepdim=True)
