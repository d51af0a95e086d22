"""Noise, blur, and digital ones: contrast, elastic, pixelation, JPEG, saturation."""

import os
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tepui.data.corruptions.draws import Draws
from tepui.data.corruptions.filters import (
    along_line,
    box_matrix,
    correlated,
    gaussian,
    gaussian_matrix,
    separable,
    zoomed,
)

_FEW = 4.0
_MOST = 18  # at such rates, a greater count is rarer than one in a million


def gaussian_noise(images: Tensor, std: float, draws: Draws) -> Tensor:
    """Add normal numbers of standard deviation ``std``."""
    return images + std * draws.normal(*images.shape[1:]).to(images.dtype)


def shot_noise(images: Tensor, photons: float, draws: Draws) -> Tensor:
    """Count photons, ``photons`` of them where an image is white."""
    normal = draws.normal(*images.shape[1:])
    return poisson_quantile(normal, photons * images.float()).to(images.dtype) / photons


def impulse_noise(images: Tensor, amount: float, draws: Draws) -> Tensor:
    """Turn a share ``amount`` of the values into 0 or 1, evenly."""
    uniform = draws.uniform(*images.shape[1:])
    salted = torch.where(uniform < amount, torch.ones_like(images), images)
    return torch.where(uniform < amount / 2, torch.zeros_like(images), salted)


def poisson_quantile(normal: Tensor, rate: Tensor) -> Tensor:
    """Return the Poisson quantile at the same probability as a normal number.

    Rates up to four sum the distribution; greater ones take the expansion of the
    quantile in powers of ``rate ** -0.5`` (Giles 2016), which misses the exact count
    by one in fewer than two draws of a thousand.
    """
    count = _expanded(normal, rate.clamp(min=_FEW))
    few = rate <= _FEW
    count[few] = _summed(torch.special.ndtr(normal[few]), rate[few])
    return count


def _summed(uniform: Tensor, rate: Tensor) -> Tensor:
    term = (-rate).exp_()
    left = uniform - term
    count, passed = torch.zeros_like(rate), torch.empty_like(rate)
    for number in range(1, _MOST + 1):
        count += torch.ge(left, 0, out=passed)
        left -= term.mul_(rate).mul_(1 / number)
    return count


def _expanded(w: Tensor, rate: Tensor) -> Tensor:
    root = rate.sqrt()
    w2 = w * w
    first = rate + root * w + (2 + w2) / 6
    second = -w * (2 + w2) / (72 * root)
    third = (-16 + 7 * w2 + 3 * w2 * w2) / (810 * rate)
    return (first + second + third).floor().clamp_(min=0)


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


def speckle_noise(images: Tensor, std: float, draws: Draws) -> Tensor:
    """Multiply by one plus normal numbers of standard deviation ``std``."""
    return images * (1 + std * draws.normal(*images.shape[1:]).to(images.dtype))


def gaussian_blur(images: Tensor, sigma: float, draws: Draws) -> Tensor:
    """Blur with a Gaussian of width ``sigma`` pixels, cut at four widths."""
    return gaussian(images, sigma)


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
