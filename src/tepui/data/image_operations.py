"""Pillow's operations on batches of bytes, another one for every sample.

Three steps do any operation of any sample, with parameters that change nothing if it
has another one:

1. One affine map moves pixels: shear, translate, rotate.
2. One blend with a degenerate image enhances: brightness, color, contrast, sharpness.
3. One table of 256 values per channel replaces values: posterize, solarize,
   autocontrast, invert. Another one equalizes.

A GPU computes every step for all samples: shapes are fixed and nothing waits for the
device. On the CPU only the samples that need a step take it. Results are bit-identical
to Pillow's on x86, except rotations read bilinearly, within one gray level.
"""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from tepui.core.checks import require

MOVES = ("shear_x", "shear_y", "translate_x", "translate_y", "rotate")
ENHANCEMENTS = ("brightness", "color", "contrast", "sharpness")
TONES = ("posterize", "solarize", "autocontrast", "invert")
OPERATIONS = ("identity", *MOVES, *ENHANCEMENTS, "equalize", *TONES)
"""All operations; a sample's is given by its place."""

# Weights of red, green and blue in gray, of 2 to the power of 16.
LUMA = (19595, 38470, 7471)


def operated(
    images: Tensor, operation: Tensor, magnitude: Tensor, *, bilinear: bool = False
) -> Tensor:
    """Return images after one operation each.

    Args:
        images: Bytes of shape ``(samples, channels, height, width)``, gray or color.
        operation: Place in ``OPERATIONS`` of each sample's operation.
        magnitude: How much, for each sample: the slope of a shear, pixels to translate
            by, degrees to rotate by, the factor of an enhancement, bits that posterize
            keeps, the threshold of solarize. The other operations have none.
        bilinear: Whether moved pixels are read between four instead of the nearest.

    Returns:
        Bytes of the same shape.

    Example:
        >>> images = torch.tensor([0, 100, 200], dtype=torch.uint8).expand(2, 1, 1, 3)
        >>> places = [OPERATIONS.index(name) for name in ("invert", "rotate")]
        >>> magnitude = torch.tensor([0.0, 180.0])
        >>> operated(images, torch.tensor(places), magnitude).flatten(1)
        tensor([[255, 155,  55],
                [200, 100,   0]], dtype=torch.uint8)
    """
    images = check_bytes(images)
    move = partial(moved, bilinear=bilinear)
    for step, names in ((move, MOVES), (enhanced, ENHANCEMENTS), (toned, TONES)):
        images = applied(_is(operation, *names), step, images, operation, magnitude)
    return applied(_is(operation, "equalize"), equalized, images)


def applied(
    chosen: Tensor, step: Callable[..., Tensor], images: Tensor, *others: Tensor
) -> Tensor:
    """Return images after a step for the chosen samples, the others as they are.

    Other devices compute all samples: counting the chosen ones would wait for them.
    """
    if images.device.type != "cpu":
        return torch.where(chosen[:, None, None, None], step(images, *others), images)
    rows = chosen.nonzero()[:, 0]
    return images.index_copy(0, rows, step(images[rows], *(o[rows] for o in others)))


def check_bytes(images: Tensor) -> Tensor:
    """Return images that are bytes, gray or in color, and refuse others."""
    rule = "be bytes (torch.uint8)"
    require(images.dtype == torch.uint8, "images", rule, images.dtype)
    require(
        images.shape[1] in (1, 3), "images", "have 1 or 3 channels", images.shape[1]
    )
    return images


def moved(
    images: Tensor, operation: Tensor, magnitude: Tensor, *, bilinear: bool = False
) -> Tensor:
    """Return images after those operations that move pixels; what comes in is black.

    Args:
        images: Bytes of shape ``(samples, channels, height, width)``.
        operation: Place in ``OPERATIONS`` of each sample's operation.
        magnitude: Slope, pixels or degrees.
        bilinear: Whether to read between four pixels instead of the nearest one.
    """
    matrix = _matrix(operation, magnitude, *images.shape[2:])
    return _bilinear(images, matrix) if bilinear else _nearest(images, matrix)


def enhanced(images: Tensor, operation: Tensor, magnitude: Tensor) -> Tensor:
    """Return images after those operations that blend with a degenerate image."""
    factor = torch.where(_is(operation, *ENHANCEMENTS), magnitude, 1)
    degenerate = torch.zeros_like(images)
    for name, image in {
        "color": gray(images),
        "contrast": mean_gray(images),
        "sharpness": smooth(images),
    }.items():
        chosen = _is(operation, name)[:, None, None, None]
        degenerate = torch.where(chosen, image, degenerate)
    return blend(degenerate, images, factor)


def toned(images: Tensor, operation: Tensor, magnitude: Tensor) -> Tensor:
    """Return images after those operations that replace each value by another."""
    value = torch.arange(256, device=images.device)
    bits = torch.where(_is(operation, "posterize"), magnitude, 8).long()[:, None]
    kept = value & (256 - 2 ** (8 - bits))
    threshold = torch.where(_is(operation, "solarize"), magnitude, 256)
    threshold = torch.where(_is(operation, "invert"), 0, threshold)[:, None]
    table = torch.where(kept < threshold, kept, 255 - kept)[:, None]
    low, high = (part.long()[..., None] for part in images.flatten(2).aminmax(dim=2))
    chosen = _is(operation, "autocontrast")[:, None, None] & (high > low)
    spread = precise((high - low).clamp(min=1))
    scale = torch.full_like(spread, 255) / spread  # a number over it would round twice
    stretched = (value * scale + -low * scale).clamp(0, 255).long()
    return _replaced(images, torch.where(chosen, stretched, table))


def equalized(images: Tensor) -> Tensor:
    """Return images whose values are, in each channel, about equally frequent."""
    pixels = images.flatten(2)
    value = torch.arange(256, device=images.device)
    places = value.to(torch.uint8).expand(*pixels.shape[:2], 256).contiguous()
    # Sorting counts without additions in an order that changes.
    ordered = pixels.sort().values
    below = torch.searchsorted(ordered, places)
    highest = pixels.amax(2, keepdim=True).long()
    step = below.gather(2, highest) // 255
    table = ((below + step // 2) // step.clamp(min=1)).clamp(max=255)
    return _replaced(images, torch.where(step > 0, table, value))


def blend(degenerate: Tensor, images: Tensor, factor: Tensor) -> Tensor:
    """Return bytes between images, and beyond them for factors outside ``[0, 1]``.

    Args:
        degenerate: Bytes that factor 0 gives.
        images: Bytes that factor 1 gives.
        factor: One per sample.
    """
    start = degenerate.float()
    way = factor.float()[:, None, None, None] * (images.float() - start)
    return (start + way).clamp(0, 255).to(torch.uint8)


def gray(images: Tensor) -> Tensor:
    """Return the luma of color images, and gray ones as they are, in one channel.

    Example:
        >>> gray(torch.tensor([255, 0, 0], dtype=torch.uint8).view(1, 3, 1, 1)).item()
        76
    """
    if images.shape[1] == 1:
        return images
    red, green, blue = images.int().unbind(1)
    luma = red * LUMA[0] + green * LUMA[1] + blue * LUMA[2] + 2**15
    return (luma >> 16).to(torch.uint8)[:, None]


def mean_gray(images: Tensor) -> Tensor:
    """Return the rounded mean of each image's luma, of shape ``(samples, 1, 1, 1)``."""
    pixels = images.shape[2] * images.shape[3]
    total = gray(images).sum((1, 2, 3), keepdim=True)
    return ((2 * total + pixels) // (2 * pixels)).to(torch.uint8)


def smooth(images: Tensor) -> Tensor:
    """Return a mean over 3 by 3 pixels, the middle five times; borders are kept."""
    height, width = images.shape[2:]
    if min(height, width) < 3:
        return images
    pixels = images.short()
    rows = pixels[..., :-2, :] + pixels[..., 1:-1, :] + pixels[..., 2:, :]
    total = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:]
    total += 4 * pixels[..., 1:-1, 1:-1]
    result = images.clone()
    result[..., 1:-1, 1:-1] = (2 * total + 13) // 26
    return result


def hue_turned(images: Tensor, turn: Tensor) -> Tensor:
    """Return color images whose hue is turned by a share of the circle for each.

    Example:
        >>> red = torch.tensor([200, 0, 0], dtype=torch.uint8).view(1, 3, 1, 1)
        >>> hue_turned(red, torch.tensor([1 / 3])).flatten()
        tensor([  0, 200,   0], dtype=torch.uint8)
    """
    hue, saturation, value = _hsv(images)
    hue = (hue + (turn * 255).trunc().int()[:, None, None]) % 256
    return _rgb(hue, saturation, value)


def _is(operation: Tensor, *names: str) -> Tensor:
    first, last = OPERATIONS.index(names[0]), OPERATIONS.index(names[-1])
    return (operation >= first) & (operation <= last)


def precise(tensor: Tensor) -> Tensor:
    """Return numbers of the most digits a device has."""
    return tensor.float() if tensor.device.type == "mps" else tensor.double()


def _matrix(
    operation: Tensor, magnitude: Tensor, height: int, width: int
) -> tuple[Tensor, ...]:
    """Return where pixels are read from: x of column, row and 1, then y of them."""
    amount = precise(magnitude)
    shear_x, shear_y, x, y, angle = (
        torch.where(_is(operation, name), amount, 0)[:, None, None] for name in MOVES
    )
    # Rounded, so that right angles are exact.
    cos, sin = (f(angle.deg2rad()).round(decimals=15) for f in (torch.cos, torch.sin))
    x = x + width / 2 - (cos * width / 2 - sin * height / 2)
    y = y + height / 2 - (sin * width / 2 + cos * height / 2)
    return cos, shear_x - sin, x, shear_y + sin, cos, y


def _nearest(images: Tensor, matrix: tuple[Tensor, ...]) -> Tensor:
    """Read the nearest pixels, found in Pillow's numbers of 16 binary digits."""
    height, width = images.shape[2:]
    column = torch.arange(width, device=images.device, dtype=torch.int32)
    row = torch.arange(height, device=images.device, dtype=torch.int32)[:, None]

    def position(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        a, b, c = (
            (part * 65536 + 0.5).floor().int() for part in (a, b, c + (a + b) / 2)
        )
        return (a * column + b * row + c) >> 16

    x, y = position(*matrix[:3]), position(*matrix[3:])
    return _read(images, x, y, (x >= 0) & (x < width) & (y >= 0) & (y < height))


def _bilinear(images: Tensor, matrix: tuple[Tensor, ...]) -> Tensor:
    """Read between four pixels, which are gathered as the bytes of one number."""
    height, width = images.shape[2:]
    a, b, c, d, e, f = matrix
    column = torch.arange(width, device=images.device).to(a) + 0.5
    row = (torch.arange(height, device=images.device).to(a) + 0.5)[:, None]
    x, y = a * column + b * row + c, d * column + e * row + f
    inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    left, top = (x - 0.5).floor(), (y - 0.5).floor()
    right, down = (x - 0.5 - left)[:, None], (y - 0.5 - top)[:, None]
    wide = images
    for axis in (2, 3):
        place = torch.arange(-1, images.shape[axis] + 1, device=images.device)
        wide = wide.index_select(axis, place.clamp(0, images.shape[axis] - 1))
    lines = (wide[..., :-1, :], wide[..., 1:, :])
    corners = [part for line in lines for part in (line[..., :-1], line[..., 1:])]
    four = torch.stack(corners, dim=-1).view(torch.int32)[..., 0]
    four = _read(four, left.int() + 1, top.int() + 1, inside)[..., None]
    upper, upper_end, lower, lower_end = (
        part.to(right) for part in four.view(torch.uint8).unbind(-1)
    )
    upper += upper_end.sub_(upper).mul_(right)
    lower += lower_end.sub_(lower).mul_(right)
    return upper.add_(lower.sub_(upper).mul_(down)).to(torch.uint8)


def _read(images: Tensor, x: Tensor, y: Tensor, inside: Tensor) -> Tensor:
    """Return the pixels at columns ``x`` and rows ``y``, black where not inside."""
    channels, height, width = images.shape[1:]
    pixel = torch.where(inside, y * width + x, height * width).long().flatten(1)
    pixels = F.pad(images.flatten(2), (0, 1))
    found = pixels.gather(2, pixel[:, None].expand(-1, channels, -1))
    return found.view(*found.shape[:2], *x.shape[1:])


def _replaced(images: Tensor, table: Tensor) -> Tensor:
    """Return what values become by a table for each sample and channel."""
    found = table.to(torch.uint8).gather(2, images.flatten(2).long())
    return found.view_as(images)


def _hsv(images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return hue, saturation and value from 0 to 255, rounded where Pillow rounds."""
    red, green, blue = images.unbind(1)
    high, low = images.amax(1), images.amin(1)
    spread = (high - low).float()
    divisor = spread.clamp(min=1)
    r, g, b = ((high - color).float() / divisor for color in (red, green, blue))
    of_green = (2 + precise(r) - precise(b)).float()
    of_blue = (4 + precise(g) - precise(r)).float()
    hue = torch.where(green == high, of_green, of_blue)
    hue = torch.where(red == high, b - g, hue)
    hue = ((precise(hue) / 6 + 1) % 1).float()
    saturation = spread / high.float().clamp(min=1)
    hue, saturation = ((precise(part) * 255).int() for part in (hue, saturation))
    return hue * (high > low), saturation, high.int()


def _rgb(hue: Tensor, saturation: Tensor, value: Tensor) -> Tensor:
    sixth = precise(hue) * 6 / 255
    place = sixth.floor()
    part, share = (sixth - place).float(), (precise(saturation) / 255).float()
    lost = (
        precise(share),
        precise(share * part),
        precise(share) * (1 - precise(part)),
    )
    p, q, t = ((value * (1 - less) + 0.5).floor().int() for less in lost)
    v = value
    sides = torch.stack(
        [torch.stack(c, 1) for c in ((v, t, p), (q, v, p), (p, v, t))]
        + [torch.stack(c, 1) for c in ((p, q, v), (t, p, v), (v, p, q))],
        dim=1,
    )
    side = (place.long() % 6)[:, None, None].expand(-1, 1, 3, -1, -1)
    return sides.gather(1, side)[:, 0].to(torch.uint8)
