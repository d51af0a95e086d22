"""Common corruptions of images, five severities each, batched and seeded.

Seven of the corruptions behind CIFAR-10-C, Tiny-ImageNet-C and ImageNet-C that need
neither external textures nor an image library. For pixels ``x`` in ``[0, 1]`` and a
parameter ``c`` that depends on strength and severity, before clipping to ``[0, 1]``:

- ``gaussian_noise``: ``x + c·N(0, 1)``
- ``shot_noise``: ``Poisson(c·x) / c``
- ``impulse_noise``: each value becomes 0 or 1, evenly, with probability ``c``
- ``gaussian_blur``: Gaussian of width ``c`` pixels cut at ``4c``, edges repeated
- ``brightness``: the largest channel grows by ``c`` up to 1, hue and saturation stay
- ``contrast``: ``(x - m)·c + m`` with the mean ``m`` of each channel
- ``pixelate``: shrink the sides by ``c`` and grow them back with box filters

Differs from the published scripts: the random numbers are torch's, one stream for each
image, so bytes are not those of the released sets; images may have any size and any
number of channels.

References:
    Hendrycks and Dietterich (2019), Benchmarking Neural Network Robustness to Common
    Corruptions and Perturbations, ICLR.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Generator, Tensor

from tepui.checks import one_of, require
from tepui.data.arrays import to_float
from tepui.seeding import generator

PARAMETERS: Mapping[str, Mapping[str, tuple[float, ...]]] = {
    "cifar": {
        "gaussian_noise": (0.04, 0.06, 0.08, 0.09, 0.10),
        "shot_noise": (500, 250, 100, 75, 50),
        "impulse_noise": (0.01, 0.02, 0.03, 0.05, 0.07),
        "gaussian_blur": (0.4, 0.6, 0.7, 0.8, 1),
        "brightness": (0.05, 0.1, 0.15, 0.2, 0.3),
        "contrast": (0.75, 0.5, 0.4, 0.3, 0.15),
        "pixelate": (0.95, 0.9, 0.85, 0.75, 0.65),
    },
    "tiny_imagenet": {
        "gaussian_noise": (0.04, 0.08, 0.12, 0.15, 0.18),
        "shot_noise": (250, 100, 50, 30, 15),
        "impulse_noise": (0.01, 0.02, 0.05, 0.08, 0.14),
        "gaussian_blur": (0.5, 0.75, 1, 1.25, 1.5),
        "brightness": (0.1, 0.2, 0.3, 0.4, 0.5),
        "contrast": (0.4, 0.3, 0.2, 0.1, 0.05),
        "pixelate": (0.9, 0.8, 0.7, 0.6, 0.5),
    },
    "imagenet": {
        "gaussian_noise": (0.08, 0.12, 0.18, 0.26, 0.38),
        "shot_noise": (60, 25, 12, 5, 3),
        "impulse_noise": (0.03, 0.06, 0.09, 0.17, 0.27),
        "gaussian_blur": (1, 2, 3, 4, 6),
        "brightness": (0.1, 0.2, 0.3, 0.4, 0.5),
        "contrast": (0.4, 0.3, 0.2, 0.1, 0.05),
        "pixelate": (0.6, 0.5, 0.4, 0.3, 0.25),
    },
}


def corrupt(
    images: Tensor,
    name: str,
    severity: int,
    *,
    strength: str = "cifar",
    seed: int = 0,
    first: int = 0,
) -> Tensor:
    """Return images with one corruption.

    An image's noise depends on ``seed``, ``name``, ``severity`` and its number, not on
    the batch it comes in nor on the device.

    Args:
        images: Bytes or floats in ``[0, 1]`` of shape
            ``(samples, channels, height, width)``.
        name: One of :data:`CORRUPTIONS`.
        severity: From 1, weak, to 5, strong.
        strength: Whose parameters to take: ``"cifar"``, ``"tiny_imagenet"`` or
            ``"imagenet"``, made for images of 32, 64 and 224 pixels.
        seed: Same seed, same noise.
        first: Number of the first image, where the batch is part of a data set.

    Returns:
        Images of the same shape and type. Bytes are cut off as in the published
        scripts, except those of ``pixelate``, which are rounded as in them.

    Raises:
        ValueError: If a name is unknown, ``severity`` lies outside 1 to 5, or
            ``images`` are not images.

    Example:
        >>> images = torch.full((2, 3, 4, 4), 0.5)
        >>> corrupt(images, "brightness", 5)[0, 0, 0, 0]
        tensor(0.8000)
    """
    value = parameter(name, severity, strength)
    check_images("images", images)
    pixels = to_float(images)
    if name in _NOISES:
        numbers = range(first, first + len(images))
        streams = [generator(seed, "corrupt", name, severity, i) for i in numbers]
        pixels = _NOISES[name](pixels, value, streams)
    else:
        pixels = _FILTERS[name](pixels, value)
    pixels = pixels.clamp(0, 1)
    return _to_bytes(pixels, name) if images.dtype == torch.uint8 else pixels


def parameter(name: str, severity: int, strength: str = "cifar") -> float:
    """Return the parameter behind a corruption, a severity and a strength.

    Args:
        name: One of :data:`CORRUPTIONS`.
        severity: From 1, weak, to 5, strong.
        strength: ``"cifar"``, ``"tiny_imagenet"`` or ``"imagenet"``.

    Returns:
        The parameter ``c`` of the module's formulas.

    Raises:
        ValueError: If a name is unknown or ``severity`` lies outside 1 to 5.

    Example:
        >>> parameter("shot_noise", 5, "imagenet")
        3
    """
    one_of("name", name, CORRUPTIONS)
    one_of("strength", strength, PARAMETERS)
    whole = isinstance(severity, int) and 1 <= severity <= 5
    require(whole, "severity", "be a whole number from 1 to 5", severity)
    return PARAMETERS[strength][name][severity - 1]


def check_images(argument: str, images: object) -> Tensor:
    """Return images that are bytes or floats in ``[0, 1]`` with four axes.

    Args:
        argument: What the caller calls them.
        images: What to check.

    Returns:
        The images.

    Raises:
        ValueError: If type, shape or values break the rule.
    """
    if not isinstance(images, Tensor):
        kind = type(images).__name__
        raise ValueError(f"{argument} must hold images in one tensor, got {kind}")
    shape = tuple(images.shape)
    rule = "be images of shape (samples, channels, height, width), none of them 0"
    require(len(shape) == 4 and min(shape) > 0, argument, rule, shape)
    if images.dtype != torch.uint8:
        rule = "be uint8 or floating point"
        require(images.is_floating_point(), argument, rule, images.dtype)
        low, high = images.min().item(), images.max().item()
        rule = "lie in [0, 1], before any normalisation"
        require(low >= 0 and high <= 1, argument, rule, f"values from {low} to {high}")
    return images


def _gaussian_noise(images: Tensor, std: float, streams: Sequence[Generator]) -> Tensor:
    shape = images.shape[1:]
    noise = torch.stack([torch.randn(shape, generator=stream) for stream in streams])
    return images + std * noise.to(images)


def _shot_noise(images: Tensor, photons: float, streams: Sequence[Generator]) -> Tensor:
    rates = (photons * images).float().cpu()
    pairs = zip(rates, streams, strict=True)
    counts = torch.stack([torch.poisson(rate, generator=own) for rate, own in pairs])
    return counts.to(images) / photons


def _impulse_noise(
    images: Tensor, amount: float, streams: Sequence[Generator]
) -> Tensor:
    shape = (2, *images.shape[1:])
    drawn = torch.stack([torch.rand(shape, generator=stream) for stream in streams])
    hit, salt = drawn.to(images.device).unbind(1)
    return torch.where(hit < amount, (salt < 0.5).to(images), images)


def _gaussian_blur(images: Tensor, sigma: float) -> Tensor:
    rows, columns = (_blur_matrix(side, sigma) for side in images.shape[2:])
    return _separable(images, rows, columns)


def _brightness(images: Tensor, shift: float) -> Tensor:
    value = images.amax(dim=1, keepdim=True)
    raised = (value + shift).clamp(max=1)
    return torch.where(value > 0, images / value * raised, raised)


def _contrast(images: Tensor, factor: float) -> Tensor:
    mean = images.mean(dim=(2, 3), keepdim=True)
    return (images - mean) * factor + mean


def _pixelate(images: Tensor, factor: float) -> Tensor:
    rows, columns = (_pixel_matrix(side, factor) for side in images.shape[2:])
    return _separable(images, rows, columns)


def _separable(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Apply one matrix along the height and one along the width."""
    return rows.to(images) @ images @ columns.to(images).T


def _blur_matrix(side: int, sigma: float) -> Tensor:
    radius = int(4 * sigma + 0.5)
    offset = torch.arange(-radius, radius + 1)
    weights = (-(offset.double() ** 2) / (2 * sigma**2)).softmax(0)
    source = (torch.arange(side)[:, None] + offset).clamp(0, side - 1)
    matrix = torch.zeros(side, side, dtype=torch.float64)
    return matrix.scatter_add_(1, source, weights.expand(side, -1))


def _pixel_matrix(side: int, factor: float) -> Tensor:
    small = max(1, int(side * factor))
    return _box_matrix(small, side) @ _box_matrix(side, small)


def _box_matrix(side: int, result: int) -> Tensor:
    """Average, for each new pixel, the old ones whose centres it covers.

    The two conditions say the same but for ties, which rounding decides as in Pillow.
    """
    scale = side / result
    radius = max(scale, 1.0) / 2
    pixel = torch.arange(side)
    centre = (torch.arange(result, dtype=torch.float64)[:, None] + 0.5) * scale
    start, stop = (centre - radius + 0.5).floor(), (centre + radius + 0.5).floor()
    offset = (pixel - centre + 0.5) / (2 * radius)
    inside = (start <= pixel) & (pixel < stop) & (offset > -0.5) & (offset <= 0.5)
    return inside.double() / inside.sum(dim=1, keepdim=True)


def _to_bytes(pixels: Tensor, name: str) -> Tensor:
    # Without the 1e-4, rounding error would cost flat areas a level.
    return (pixels * 255 + (0.5 if name == "pixelate" else 1e-4)).to(torch.uint8)


_NOISES: Mapping[str, Callable[[Tensor, float, Sequence[Generator]], Tensor]] = {
    "gaussian_noise": _gaussian_noise,
    "shot_noise": _shot_noise,
    "impulse_noise": _impulse_noise,
}
_FILTERS: Mapping[str, Callable[[Tensor, float], Tensor]] = {
    "gaussian_blur": _gaussian_blur,
    "brightness": _brightness,
    "contrast": _contrast,
    "pixelate": _pixelate,
}
CORRUPTIONS: tuple[str, ...] = (*_NOISES, *_FILTERS)
"""Names that :func:`corrupt` knows."""
