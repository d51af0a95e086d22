"""Weather: snow, frost, fog, brightness, and spatter of water or mud."""

import functools
import math

import torch
import torch.nn.functional as F
from torch import Tensor

from tepui.core.seeding import generator
from tepui.data.corruptions.draws import Draws
from tepui.data.corruptions.filters import (
    along_line,
    correlated,
    gaussian,
    gray,
    zoomed,
)

_SIDE = 512
# Red, green and blue of the ice; how far light and dark lie apart.
_TINTS = (
    (0.34, 0.55, 0.62, 0.10),
    (0.77, 0.79, 0.82, 0.09),
    (0.68, 0.72, 0.78, 0.10),
    (0.54, 0.60, 0.65, 0.12),
    (0.44, 0.48, 0.53, 0.16),
)


@functools.lru_cache(maxsize=1)
def procedural_frost() -> Tensor:
    """Return five textures ``(5, 3, height, width)`` of ferns of ice, always the same.

    The plane is cut into the cells of random points. Each cell is a fern: a stem
    through its point in a random direction and barbs on both sides. Noise at several
    scales roughens it.
    """
    tints = enumerate(_TINTS)
    return torch.stack([_texture(number, tint[:3], tint[3]) for number, tint in tints])


def fitted(scale: float, height: int, width: int) -> Tensor:
    """Return textures resized by ``scale``, or by more if an image needs it."""
    factor = max(scale, height / _SIDE, width / _SIDE)
    size = max(height, round(_SIDE * factor)), max(width, round(_SIDE * factor))
    return F.interpolate(procedural_frost(), size=size, mode="bilinear")


def _texture(number: int, color: tuple[float, ...], spread: float) -> Tensor:
    draws = generator(0, "frost", number)
    ice = _ferns(draws) + _roughness(draws)
    ice = (ice - ice.mean()) / ice.std()
    warmth = torch.tensor([0.9, 1.0, 1.1]).view(3, 1, 1)
    tint = torch.tensor(color).view(3, 1, 1)
    return (tint + spread * warmth * ice).clamp_(0, 1)


def _ferns(draws: torch.Generator, count: int = 90) -> Tensor:
    place = _SIDE * torch.rand(count, 2, generator=draws)
    angle = 2 * math.pi * torch.rand(count, generator=draws)
    wave = 7 + 7 * torch.rand(count, generator=draws)
    line = torch.arange(_SIDE, dtype=torch.float32)
    pixels = torch.cartesian_prod(line, line)
    nearest = torch.cdist(pixels, place).argmin(dim=1)
    down, right = (pixels - place[nearest]).unbind(1)
    turn, length = angle[nearest], wave[nearest]
    along = right * turn.cos() + down * turn.sin()
    beside = (down * turn.cos() - right * turn.sin()).abs()
    barbs = ((along - beside) * (2 * math.pi / length)).sin()
    ferns = barbs * (-beside / 25).exp() + 2 * (-beside / 2).exp()
    return ferns.view(_SIDE, _SIDE)


def _roughness(draws: torch.Generator) -> Tensor:
    total = torch.zeros(_SIDE, _SIDE)
    for cells, weight in ((6, 1.2), (24, 0.8), (96, 0.7), (256, 0.5)):
        grid = torch.randn(1, 1, cells, cells, generator=draws)
        total += weight * F.interpolate(grid, size=_SIDE, mode="bilinear")[0, 0]
    return total


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


def frost(images: Tensor, weights: tuple[float, float, float], draws: Draws) -> Tensor:
    """Blend in part of a frost texture (weight of image, weight of frost, scale)."""
    share, ice, scale = weights
    channels, height, width = images.shape[1:]
    textures = fitted(scale, height, width).to(images)
    count, _, rows, columns = textures.shape
    which, top, left = draws.uniform(3).T
    choice = (which * count).long()[:, None, None]
    top = (top * (rows - height + 1)).long()[:, None, None]
    left = (left * (columns - width + 1)).long()[:, None, None]
    y = top + torch.arange(height, device=images.device)[:, None]
    x = left + torch.arange(width, device=images.device)
    piece = textures.transpose(0, 1)[:, choice, y, x].transpose(0, 1)
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


_WATER = 175, 238, 238
_MUD = 63, 42, 20


def spatter(
    images: Tensor, drops: tuple[float, float, float, float, float, int], draws: Draws
) -> Tensor:
    """Splash water or mud on the lens.

    Drops lie where normal noise of a mean and a width, blurred, exceeds a threshold;
    then follow the strength of water or the blur of mud, and 0 for water, 1 for mud.
    """
    mean, std, sigma, threshold, strength, is_mud = drops
    noise = mean + std * draws.normal(1, *images.shape[2:])
    liquid = gaussian(noise, sigma)
    if not is_mud:
        liquid = torch.where(liquid < threshold, 0, liquid)
        water = strength * _water(liquid).to(images.dtype)
        return images + water * _color(_WATER, images)
    mud = gaussian((liquid > threshold).float(), strength)
    mud = torch.where(mud < 0.8, 0, mud).to(images.dtype)
    return images * (1 - mud) + mud * _color(_MUD, images)


def _water(liquid: Tensor) -> Tensor:
    """Return how much light drops add: they glow toward one side of their edges."""
    drops = (liquid * 255).floor() % 256
    far = distance_to(canny(drops, 50, 150), limit=20)
    box = torch.full((3, 3), 1 / 9)
    slope = torch.tensor([[-2.0, -1, 0], [-1, 1, 1], [0, 1, 2]])
    height = _equalized((correlated(far, box) + 1e-4).floor(), 21)
    light = correlated(height, slope).clamp(0, 255)
    glow = drops * correlated(light, box).round()
    brightest = glow.amax(dim=(2, 3), keepdim=True)
    return torch.where(brightest > 0, glow / brightest, 0)


def _equalized(levels: Tensor, count: int) -> Tensor:
    """Spread whole numbers below ``count`` evenly over 0 to 255 in each image."""
    rows = levels.flatten(1).long()
    histogram = torch.zeros(len(rows), count, device=levels.device)
    histogram.scatter_add_(1, rows, torch.ones_like(rows, dtype=torch.float32))
    below = histogram.cumsum(1)
    least = below.gather(1, rows.amin(dim=1, keepdim=True))
    spread = rows.shape[1] - least
    new = ((below - least) * (255 / spread)).round()
    same = torch.arange(count, device=levels.device)
    return torch.where(spread > 0, new, same).gather(1, rows).view_as(levels)


def _color(color: tuple[int, int, int], images: Tensor) -> Tensor:
    pixel = images.new_tensor(color).div_(255).view(3, 1, 1)
    return pixel if images.shape[1] == 3 else gray(pixel)
