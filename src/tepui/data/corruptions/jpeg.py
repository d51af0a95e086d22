"""What a JPEG file of a given quality gives back, without the file.

The entropy code of a file loses nothing, so that writing and reading are a chain of
linear maps, each rounded to integers: color to brightness and two planes of chroma,
chroma averaged over squares of four pixels, blocks of 8×8 pixels to frequencies,
frequencies to multiples of a table, and all of it back. Every rounding is that of
libjpeg-turbo as Pillow calls it (half as many rows and columns of chroma, the accurate
integer transform, smooth chroma), so that the bytes are the same on any device.

References:
    ITU-T (1992), T.81: Digital compression and coding of continuous-tone still images.
    Loeffler, Ligtenberg and Moschytz (1989), Practical fast 1-D DCT algorithms with 11
    multiplications, ICASSP.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from tepui.core.checks import require

# The left half of the cosine transform in units of 2**-13, with what libjpeg rounds its
# constants to; even rows go on mirrored, odd rows mirrored with the other sign.
_COSINES = (
    (8192, 8192, 8192, 8192),
    (11363, 9633, 6437, 2260),
    (10703, 4433, -4433, -10703),
    (9633, -2259, -11362, -6436),
    (8192, -8192, -8192, 8192),
    (6437, -11362, 2261, 9633),
    (4433, -10704, 10704, -4433),
    (2260, -6436, 9633, -11363),
)

# Steps of the frequencies at quality 50 (T.81, annex K), symmetric only for chroma:
# a row for each vertical frequency.
_BRIGHTNESS = (
    (16, 11, 10, 16, 24, 40, 51, 61),
    (12, 12, 14, 19, 26, 58, 60, 55),
    (14, 13, 16, 24, 40, 57, 69, 56),
    (14, 17, 22, 29, 51, 87, 80, 62),
    (18, 22, 37, 56, 68, 109, 103, 77),
    (24, 35, 55, 64, 81, 104, 113, 92),
    (49, 64, 78, 87, 103, 121, 120, 101),
    (72, 92, 95, 98, 112, 100, 103, 99),
)
_CHROMA = (
    (17, 18, 24, 47, 99, 99, 99, 99),
    (18, 21, 26, 66, 99, 99, 99, 99),
    (24, 26, 56, 99, 99, 99, 99, 99),
    (47, 66, 99, 99, 99, 99, 99, 99),
    *((99,) * 8 for _ in range(4)),
)


def through_jpeg(images: Tensor, quality: int) -> Tensor:
    """Return images as they come back from a JPEG file.

    Args:
        images: Bytes of shape ``(samples, channels, height, width)``: with three
            channels one picture in color, else one in gray for each channel.
        quality: From 1 to 100.

    Returns:
        Bytes of the same shape.

    Raises:
        ValueError: If images are not bytes, or ``quality`` is not from 1 to 100.

    Example:
        >>> edge = torch.tensor([0, 0, 0, 255, 255, 255], dtype=torch.uint8)
        >>> through_jpeg(edge.expand(1, 1, 6, 6), quality=50)[0, 0, 0]
        tensor([  0,   3,   0, 255, 255, 255], dtype=torch.uint8)
    """
    require(images.dtype == torch.uint8, "images", "be uint8", images.dtype)
    known = quality in range(1, 101)
    require(known, "quality", "be an integer from 1 to 100", quality)
    # Below, values are integers that float32 holds exactly.
    planes = images.float()
    if images.shape[1] != 3:
        return _quantized(planes, _steps(_BRIGHTNESS, quality)).byte()
    height, width = images.shape[2:]
    brightness, chroma = _from_rgb(planes)
    brightness = _quantized(brightness, _steps(_BRIGHTNESS, quality))
    chroma = _quantized(_halved(chroma), _steps(_CHROMA, quality))
    chroma = _doubled(chroma[..., : (height + 1) // 2, : (width + 1) // 2])
    return _to_rgb(brightness, chroma[..., :height, :width]).byte()


def _from_rgb(images: Tensor) -> tuple[Tensor, Tensor]:
    """Return brightness, and how far blue and red differ from it."""
    red, green, blue = images.split(1, dim=1)
    middle = 128 * 2**16 + 2**15 - 1
    return _shifted(19595 * red + 38470 * green + 7471 * blue + 2**15, 16), torch.cat(
        [
            _shifted(-11059 * red - 21709 * green + 32768 * blue + middle, 16),
            _shifted(32768 * red - 27439 * green - 5329 * blue + middle, 16),
        ],
        dim=1,
    )


def _to_rgb(brightness: Tensor, chroma: Tensor) -> Tensor:
    blue, red = (chroma - 128).split(1, dim=1)
    differences = [
        _shifted(91881 * red + 2**15, 16),
        _shifted(-22554 * blue - 46802 * red + 2**15, 16),
        _shifted(116130 * blue + 2**15, 16),
    ]
    return (brightness + torch.cat(differences, dim=1)).clamp_(0, 255)


def _halved(planes: Tensor) -> Tensor:
    """Average squares of four pixels; halves go down and up in turn along a row."""
    # To the right pixels are repeated before the average, downwards after it.
    planes = _filled(planes, 2, 16)
    rows = planes[..., ::2, :] + planes[..., 1::2, :]
    squares = rows[..., ::2] + rows[..., 1::2]
    bias = 1 + torch.arange(squares.shape[-1], device=planes.device) % 2
    return _shifted(squares + bias, 2)


def _doubled(planes: Tensor) -> Tensor:
    """Put two pixels for one on each axis: three parts of it, one of the next one."""
    if planes.shape[-1] <= 2:  # libjpeg does not smooth these
        return planes.repeat_interleave(2, -2).repeat_interleave(2, -1)
    near = F.pad(planes, (0, 0, 1, 1), mode="replicate")
    above, below = near[..., :-2, :], near[..., 2:, :]
    rows = torch.stack([3 * planes + above, 3 * planes + below], dim=3).flatten(2, 3)
    near = F.pad(rows, (1, 1, 0, 0), mode="replicate")
    left, right = 3 * rows + near[..., :-2], 3 * rows + near[..., 2:]
    return _shifted(torch.stack([left + 8, right + 7], dim=4).flatten(3, 4), 4)


def _quantized(planes: Tensor, steps: Tensor) -> Tensor:
    """Round the frequencies of each block of 8×8 pixels to whole ``steps``."""
    height, width = planes.shape[2:]
    blocks = _filled(planes, 8, 8).unflatten(3, (-1, 8)).unflatten(2, (-1, 8))
    # Columns and rows of a block come first, so that products of matrices are long.
    blocks = blocks.permute(5, 3, 0, 1, 2, 4)
    values = (blocks.contiguous().view(8, 8, -1) - 128).double()
    steps = steps.to(planes.device)[..., None]
    values = _by_frequency(values).div_(8 * steps)
    # Halves are rounded away from zero.
    values = values.add_(torch.full_like(values, 0.5).copysign_(values)).trunc_()
    pixels = _by_pixel(values.mul_(steps)).add_(128).clamp_(0, 255)
    blocks = pixels.float().view(blocks.shape).permute(2, 3, 4, 1, 5, 0)
    return blocks.flatten(4, 5).flatten(2, 3)[..., :height, :width]


def _by_frequency(pixels: Tensor) -> Tensor:
    """Return eight times the cosine transform of blocks ``(column, row, ...)``."""
    cosines = _cosine_matrix(pixels.device)
    rows = _rounded(cosines @ pixels.flatten(1), 11).view_as(pixels)
    return _rounded(cosines @ rows, 15)


def _by_pixel(frequencies: Tensor) -> Tensor:
    """Return blocks of pixels from their cosine transform."""
    cosines = _cosine_matrix(frequencies.device).T
    columns = _rounded(cosines @ frequencies, 11)
    return _rounded(cosines @ columns.flatten(1), 18).view_as(frequencies)


def _cosine_matrix(device: torch.device) -> Tensor:
    """Return the transform in float64, where products with integers are exact."""
    left = torch.tensor(_COSINES, dtype=torch.float64)
    signs = torch.tensor([1, -1]).repeat(4)[:, None]
    return torch.cat([left, signs * left.flip(1)], dim=1).to(device)


def _steps(table: tuple[tuple[int, ...], ...], quality: int) -> Tensor:
    """Return the steps at a quality, a row for each horizontal frequency."""
    percent = 5000 // quality if quality < 50 else 200 - 2 * quality
    return ((torch.tensor(table).T * percent + 50) // 100).clamp(1, 255)


def _filled(planes: Tensor, height: int, width: int) -> Tensor:
    """Repeat the last row and column until sides are multiples of two numbers."""
    rows, columns = -planes.shape[2] % height, -planes.shape[3] % width
    return F.pad(planes, (0, columns, 0, rows), mode="replicate")


def _shifted(values: Tensor, bits: int) -> Tensor:
    return values.mul_(2.0**-bits).floor_()


def _rounded(values: Tensor, bits: int) -> Tensor:
    return values.mul_(2.0**-bits).add_(0.5).floor_()
