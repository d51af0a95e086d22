"""The four extra types: speckle noise, Gaussian blur, spatter and saturation."""

import torch
import torch.nn.functional as F
from torch import Tensor

from tepui.data.corruptions.draws import Draws
from tepui.data.corruptions.filters import correlated, gaussian, gray

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


def speckle_noise(images: Tensor, std: float, draws: Draws) -> Tensor:
    """Multiply by one plus normal numbers of standard deviation ``std``."""
    return images * (1 + std * draws.normal(*images.shape[1:]).to(images.dtype))


def gaussian_blur(images: Tensor, sigma: float, draws: Draws) -> Tensor:
    """Blur with a Gaussian of width ``sigma`` pixels, cut at four widths."""
    return gaussian(images, sigma)


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


def saturate(images: Tensor, saturation: tuple[float, float], draws: Draws) -> Tensor:
    """Multiply the saturation by a factor and add a shift; hue and value stay.

    As in the published code, gray gets the hue of the first channel.
    """
    factor, shift = saturation
    value, least = images.amax(1, keepdim=True), images.amin(1, keepdim=True)
    range_ = value - least
    old = torch.where(value > 0, range_ / value, 0)
    new = (old * factor + shift).clamp(0, 1)
    missing = (value - images) / range_ * (value * new)
    first = torch.zeros_like(missing)
    first[:, 1:] = value * new
    return value - torch.where(range_ > 0, missing, first)


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
