"""One call for every corruption: images, a name and a severity in, images out."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from tepui.core.checks import one_of, require
from tepui.core.types import check_types
from tepui.data.arrays import scaled
from tepui.data.corruptions import pixels, weather
from tepui.data.corruptions.draws import Draws

Parameters = float | tuple[float, ...]

# The published parameters, a table for each benchmark: CIFAR-10-C and CIFAR-100-C (32
# pixels), Tiny-ImageNet-C (64), ImageNet-C (224), as in the scripts released with them.
# The function of the same name says what the numbers of a cell mean.
_CIFAR = """
gaussian_noise: 0.04 | 0.06 | 0.08 | 0.09 | 0.1
shot_noise: 500 | 250 | 100 | 75 | 50
impulse_noise: 0.01 | 0.02 | 0.03 | 0.05 | 0.07
defocus_blur: 0.3 0.4 | 0.4 0.5 | 0.5 0.6 | 1 0.2 | 1.5 0.1
glass_blur: 0.05 1 1 | 0.25 1 1 | 0.4 1 1 | 0.25 1 2 | 0.4 1 2
motion_blur: 6 1 | 6 1.5 | 6 2 | 8 2 | 9 2.5
zoom_blur: 1.06 0.01 | 1.11 0.01 | 1.16 0.01 | 1.21 0.01 | 1.26 0.01
snow: 0.1 0.2 1 0.6 8 3 0.95 | 0.1 0.2 1 0.5 10 4 0.9 | 0.15 0.3 1.75 0.55 10 4 0.9
  | 0.25 0.3 2.25 0.6 12 6 0.85 | 0.3 0.3 1.25 0.65 14 12 0.8
frost: 1 0.2 0.2 | 1 0.3 0.2 | 0.9 0.4 0.2 | 0.85 0.4 0.2 | 0.75 0.45 0.2
fog: 0.2 3 | 0.5 3 | 0.75 2.5 | 1 2 | 1.5 1.75
brightness: 0.05 | 0.1 | 0.15 | 0.2 | 0.3
contrast: 0.75 | 0.5 | 0.4 | 0.3 | 0.15
elastic_transform: 0 0 0.08 | 0.05 0.2 0.07 | 0.08 0.06 0.06 | 0.1 0.04 0.05
  | 0.1 0.03 0.03
pixelate: 0.95 | 0.9 | 0.85 | 0.75 | 0.65
jpeg_compression: 80 | 65 | 58 | 50 | 40
speckle_noise: 0.06 | 0.1 | 0.12 | 0.16 | 0.2
gaussian_blur: 0.4 | 0.6 | 0.7 | 0.8 | 1
spatter: 0.62 0.1 0.7 0.7 0.5 0 | 0.65 0.1 0.8 0.7 0.5 0 | 0.65 0.3 1 0.69 0.5 0
  | 0.65 0.1 0.7 0.69 0.6 1 | 0.65 0.1 0.5 0.68 0.6 1
saturate: 0.3 0 | 0.1 0 | 1.5 0 | 2 0.1 | 2.5 0.2
"""
_TINY_IMAGENET = """
gaussian_noise: 0.04 | 0.08 | 0.12 | 0.15 | 0.18
shot_noise: 250 | 100 | 50 | 30 | 15
impulse_noise: 0.01 | 0.02 | 0.05 | 0.08 | 0.14
defocus_blur: 0.5 0.6 | 1 0.1 | 1.5 0.1 | 2.5 0.01 | 3 0.1
glass_blur: 0.1 1 1 | 0.5 1 1 | 0.6 1 2 | 0.7 2 1 | 0.9 2 2
motion_blur: 10 1 | 10 1.5 | 10 2 | 10 2.5 | 12 3
zoom_blur: 1.06 0.01 | 1.11 0.01 | 1.16 0.01 | 1.21 0.01 | 1.26 0.01
snow: 0.1 0.2 1 0.6 8 3 0.8 | 0.1 0.2 1 0.5 10 4 0.8 | 0.15 0.3 1.75 0.55 10 4 0.7
  | 0.25 0.3 2.25 0.6 12 6 0.65 | 0.3 0.3 1.25 0.65 14 12 0.6
frost: 1 0.3 0.3 | 0.9 0.4 0.3 | 0.8 0.45 0.3 | 0.75 0.5 0.3 | 0.7 0.55 0.3
fog: 0.4 3 | 0.7 3 | 1 2.5 | 1.5 2 | 2 1.75
brightness: 0.1 | 0.2 | 0.3 | 0.4 | 0.5
contrast: 0.4 | 0.3 | 0.2 | 0.1 | 0.05
elastic_transform: 0 0 0.08 | 0.05 0.3 0.06 | 0.1 0.08 0.06 | 0.1 0.03 0.03
  | 0.16 0.03 0.02
pixelate: 0.9 | 0.8 | 0.7 | 0.6 | 0.5
jpeg_compression: 65 | 58 | 50 | 40 | 25
speckle_noise: 0.15 | 0.2 | 0.25 | 0.3 | 0.35
gaussian_blur: 0.5 | 0.75 | 1 | 1.25 | 1.5
spatter: 0.62 0.1 0.7 0.7 0.6 0 | 0.65 0.1 0.8 0.7 0.6 0 | 0.65 0.3 1 0.69 0.6 0
  | 0.65 0.1 0.7 0.68 0.6 1 | 0.65 0.1 0.5 0.67 0.6 1
saturate: 0.3 0 | 0.1 0 | 2 0 | 5 0.1 | 30 0.2
"""
_IMAGENET = """
gaussian_noise: 0.08 | 0.12 | 0.18 | 0.26 | 0.38
shot_noise: 60 | 25 | 12 | 5 | 3
impulse_noise: 0.03 | 0.06 | 0.09 | 0.17 | 0.27
defocus_blur: 3 0.1 | 4 0.5 | 6 0.5 | 8 0.5 | 10 0.5
glass_blur: 0.7 1 2 | 0.9 2 1 | 1 2 3 | 1.1 3 2 | 1.5 4 2
motion_blur: 10 3 | 15 5 | 15 8 | 15 12 | 20 15
zoom_blur: 1.11 0.01 | 1.16 0.01 | 1.21 0.02 | 1.26 0.02 | 1.31 0.03
snow: 0.1 0.3 3 0.5 10 4 0.8 | 0.2 0.3 2 0.5 12 4 0.7 | 0.55 0.3 4 0.9 12 8 0.7
  | 0.55 0.3 4.5 0.85 12 8 0.65 | 0.55 0.3 2.5 0.85 12 12 0.55
frost: 1 0.4 1 | 0.8 0.6 1 | 0.7 0.7 1 | 0.65 0.7 1 | 0.6 0.75 1
fog: 1.5 2 | 2 2 | 2.5 1.7 | 2.5 1.5 | 3 1.4
brightness: 0.1 | 0.2 | 0.3 | 0.4 | 0.5
contrast: 0.4 | 0.3 | 0.2 | 0.1 | 0.05
elastic_transform: 2 0.7 0.1 | 2 0.08 0.2 | 0.05 0.01 0.02 | 0.07 0.01 0.02
  | 0.12 0.01 0.02
pixelate: 0.6 | 0.5 | 0.4 | 0.3 | 0.25
jpeg_compression: 25 | 18 | 15 | 10 | 7
speckle_noise: 0.15 | 0.2 | 0.35 | 0.45 | 0.6
gaussian_blur: 1 | 2 | 3 | 4 | 6
spatter: 0.65 0.3 4 0.69 0.6 0 | 0.65 0.3 3 0.68 0.6 0 | 0.65 0.3 2 0.68 0.5 0
  | 0.65 0.3 1 0.65 1.5 1 | 0.67 0.4 1 0.65 1.5 1
saturate: 0.3 0 | 0.1 0 | 2 0 | 5 0.1 | 20 0.2
"""


def _read(text: str) -> dict[str, tuple[Parameters, ...]]:
    """Return five cells for each name; a cell of one number is that number."""
    rows = (row.split(": ") for row in text.replace("\n  |", " |").strip().split("\n"))
    return {name: tuple(map(_cell, cells.split(" | "))) for name, cells in rows}


def _cell(text: str) -> Parameters:
    numbers = [float(word) if "." in word else int(word) for word in text.split()]
    return tuple(numbers) if len(numbers) > 1 else numbers[0]


def _scaled(
    table: dict[str, tuple[Parameters, ...]], name: str, factor: float
) -> dict[str, tuple[Parameters, ...]]:
    cells = (cell for cell in table[name] if isinstance(cell, tuple))
    scaled = tuple(tuple(factor * number for number in cell) for cell in cells)
    return {**table, name: scaled}


PARAMETERS: Mapping[str, Mapping[str, tuple[Parameters, ...]]] = {
    "cifar": _read(_CIFAR),
    "tiny_imagenet": _read(_TINY_IMAGENET),
    # The released script scales elastic displacements by 244, not 224 pixels.
    "imagenet": _scaled(_read(_IMAGENET), "elastic_transform", 244 / 224),
}


_Published = Callable[[Tensor, Any, Draws], Tensor]

Corruption = Callable[[Tensor, int, Draws], Tensor]
"""A corruption of your own: float images in ``[0, 1]``, a severity from 1 to 5 and
:class:`Draws` go in; changed images come out and are then clipped to ``[0, 1]``."""

_STANDARD: tuple[_Published, ...] = (
    *(pixels.gaussian_noise, pixels.shot_noise, pixels.impulse_noise),
    *(pixels.defocus_blur, pixels.glass_blur, pixels.motion_blur, pixels.zoom_blur),
    *(weather.snow, weather.frost, weather.fog, weather.brightness),
    *(pixels.contrast, pixels.elastic_transform),
    *(pixels.pixelate, pixels.jpeg_compression),
)
_EXTRA: tuple[_Published, ...] = (
    *(pixels.speckle_noise, pixels.gaussian_blur, weather.spatter, pixels.saturate),
)
_BY_NAME: dict[str, _Published] = {f.__name__: f for f in (*_STANDARD, *_EXTRA)}
CORRUPTIONS: tuple[str, ...] = tuple(_BY_NAME)
"""All types that :func:`corrupt` knows: the standard fifteen and four extra ones."""
STANDARD: tuple[str, ...] = CORRUPTIONS[: len(_STANDARD)]
"""The fifteen types that published averages run over."""
EXTRA: tuple[str, ...] = CORRUPTIONS[len(_STANDARD) :]
"""The four types that published averages leave out."""


def corrupt(
    images: Tensor,
    name: str | Corruption,
    severity: int,
    *,
    strength: str = "cifar",
    seed: int = 0,
    first: int = 0,
) -> Tensor:
    """Return images with one corruption.

    The randomness of an image depends on ``seed``, ``name``, ``severity`` and the
    image's number, but not on its batch or the device.

    Args:
        images: Bytes or floats in ``[0, 1]`` of shape
            ``(samples, channels, height, width)``.
        name: One of :data:`CORRUPTIONS`, or a function of your own
            (:data:`Corruption`).
        severity: From 1, weak, to 5, strong.
        strength: Whose parameters to take: ``"cifar"``, ``"tiny_imagenet"`` or
            ``"imagenet"``, made for images of 32, 64 and 224 pixels; without effect on
            a function of your own.
        seed: Same seed, same draws.
        first: Number of the first image, where the batch is part of a data set.

    Returns:
        Images of the same shape and type. As in the published scripts, bytes are
        truncated, except for ``pixelate``, where they are rounded.

    Raises:
        ValueError: If a name is unknown, ``severity`` is not from 1 to 5, or
            ``images`` are not images.

    Example:
        >>> images = torch.full((2, 3, 4, 4), 0.5)
        >>> corrupt(images, "brightness", 5)[0, 0, 0, 0]
        tensor(0.8000)
    """
    check_types(corrupt, locals())
    named = name_of(name)
    corruption, value = function_of(name, severity, strength)
    check_images("images", images)
    pixels = scaled(images)
    if pixels.dtype != torch.float64:
        pixels = pixels.float()
    draws = Draws((seed, "corrupt", named, severity), first, len(images), images.device)
    pixels = corruption(pixels, value, draws).clamp(0, 1)
    rule = f"keep the shape of images {tuple(images.shape)}"
    require(pixels.shape == images.shape, named, rule, tuple(pixels.shape))
    if images.dtype == torch.uint8:
        return _to_bytes(pixels, named)
    return pixels.to(images.dtype)


def name_of(corruption: str | Corruption) -> str:
    """Return what a corruption is called: its name, or that of its function."""
    if isinstance(corruption, str):
        return corruption
    return str(getattr(corruption, "__name__", type(corruption).__name__))


def function_of(
    kind: str | Corruption, severity: int, strength: str
) -> tuple[_Published, Any]:
    """Return the function of a corruption, and what it takes for the severity.

    Example:
        >>> function_of("shot_noise", 5, "imagenet")[1]
        3
    """
    whole = isinstance(severity, int) and 1 <= severity <= 5
    require(whole, "severity", "be an integer from 1 to 5", severity)
    if not isinstance(kind, str):
        return kind, severity
    one_of("name", kind, CORRUPTIONS)
    one_of("strength", strength, PARAMETERS)
    return _BY_NAME[kind], PARAMETERS[strength][kind][severity - 1]


def check_images(argument: str, images: object) -> Tensor:
    """Return images if they are bytes or floats in ``[0, 1]`` with four axes."""
    if not isinstance(images, Tensor):
        kind = type(images).__name__
        raise ValueError(f"{argument} must hold images in one tensor, got {kind}")
    shape = tuple(images.shape)
    rule = "be images of shape (samples, channels, height, width), each at least 1"
    require(len(shape) == 4 and min(shape) > 0, argument, rule, shape)
    if images.dtype != torch.uint8:
        rule = "be uint8 or floating point"
        require(images.is_floating_point(), argument, rule, images.dtype)
        low, high = images.min().item(), images.max().item()
        rule = "lie in [0, 1], before any normalization"
        require(low >= 0 and high <= 1, argument, rule, f"values from {low} to {high}")
    return images


def _to_bytes(pixels: Tensor, name: str) -> Tensor:
    # Without the 1e-4, rounding error would cost flat areas a level.
    return (pixels * 255 + (0.5 if name == "pixelate" else 1e-4)).to(torch.uint8)
