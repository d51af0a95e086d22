"""One call for every corruption: images, a name and a severity in, images out."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from tepui.core.checks import one_of, require
from tepui.core.types import check_types
from tepui.data.arrays import scaled
from tepui.data.corruptions import blur, digital, extra, noise, weather
from tepui.data.corruptions.draws import Draws
from tepui.data.corruptions.strengths import PARAMETERS, Parameters

_Published = Callable[[Tensor, Any, Draws], Tensor]

Corruption = Callable[[Tensor, int, Draws], Tensor]
"""A corruption of your own: float images in ``[0, 1]``, a severity from 1 to 5 and
:class:`Draws` go in; changed images come out and are then clipped to ``[0, 1]``."""

_STANDARD: tuple[_Published, ...] = (
    *(noise.gaussian_noise, noise.shot_noise, noise.impulse_noise),
    *(blur.defocus_blur, blur.glass_blur, blur.motion_blur, blur.zoom_blur),
    *(weather.snow, weather.frost, weather.fog, weather.brightness),
    *(digital.contrast, digital.elastic_transform),
    *(digital.pixelate, digital.jpeg_compression),
)
_EXTRA: tuple[_Published, ...] = (
    *(extra.speckle_noise, extra.gaussian_blur, extra.spatter, extra.saturate),
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
    textures: Sequence[Tensor] | None = None,
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
        textures: For ``frost``, from :func:`load_frost`; None for procedural ones.

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
    corruption, value = _function(name, severity, strength, textures)
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


def check_severity(severity: object) -> None:
    """Raise unless a severity is one of the published five."""
    whole = isinstance(severity, int) and 1 <= severity <= 5
    require(whole, "severity", "be an integer from 1 to 5", severity)


def _function(
    name: str | Corruption,
    severity: int,
    strength: str,
    textures: Sequence[Tensor] | None,
) -> tuple[_Published, Any]:
    """Return the function to call, and what it takes for the severity."""
    if not isinstance(name, str):
        check_severity(severity)
        return name, severity
    value = parameter(name, severity, strength)
    if name == "frost":
        return partial(weather.frost, textures=textures), value
    return _BY_NAME[name], value


def parameter(name: str, severity: int, strength: str = "cifar") -> Parameters:
    """Return the parameters behind a corruption, a severity and a strength.

    Example:
        >>> parameter("shot_noise", 5, "imagenet")
        3
    """
    one_of("name", name, CORRUPTIONS)
    one_of("strength", strength, PARAMETERS)
    check_severity(severity)
    return PARAMETERS[strength][name][severity - 1]


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
