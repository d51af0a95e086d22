"""What every corruption promises."""

from itertools import pairwise

import torch
from torch import Tensor

from tepui.core.seeding import generator
from tepui.data import Corruption, corrupt
from tepui.testing.expecting import (
    expect,
    expect_close,
    global_generators_kept,
    name_of,
)

SAMPLES, SIZE = 32, 32


def check_corruption(corruption: str | Corruption, *, rising: bool = True) -> None:
    """Check that a corruption does what those of tepui do.

    It keeps shape and type of images with one channel or three, stays in [0, 1], has
    no effect on its arguments or on global generators, changes images further the more
    severe it is, and draws for an image what depends on the seed and the image's
    number alone, not on the batch it comes in.

    Args:
        corruption: A function of float images ``(samples, channels, height, width)``
            in [0, 1], a severity from 1 to 5 and :class:`tepui.data.Draws`, or the name
            of a corruption of tepui.
        rising: Whether images lie further from the clean ones, on average, at every
            higher severity.

    Raises:
        AssertionError: If it does not; the message names corruption, rule and what was
            seen.

    Example:
        >>> check_corruption(lambda images, severity, draws: images / (1 + severity))
    """
    name = corruption if isinstance(corruption, str) else name_of(corruption)
    for channels in (1, 3):
        images = _images(channels)
        distances = []
        for severity in range(1, 6):
            changed = _check_images(corruption, images, severity, name)
            distances.append(float((changed - images).abs().mean()))
        if rising:
            _expect_rising(distances, name)
        _check_draws(corruption, images, name)


def _expect_rising(distances: list[float], name: str) -> None:
    expect(distances[0] > 0, name, "change images at severity 1", "the same")
    rises = all(low <= high for low, high in pairwise(distances))
    rule = "change images further at every severity (rising)"
    expect(rises, name, rule, distances)


def _images(channels: int) -> Tensor:
    """Return gray gradients with some noise, so that blur and noise both show."""
    ramp = torch.linspace(0.1, 0.9, SIZE)
    noise = torch.rand(
        SAMPLES, channels, SIZE, SIZE, generator=generator("testing", "images")
    )
    return 0.7 * (ramp[:, None] + ramp) / 2 + 0.3 * noise


def _check_images(
    corruption: str | Corruption, images: Tensor, severity: int, name: str
) -> Tensor:
    before = images.clone()
    with global_generators_kept(name):
        changed = corrupt(images, corruption, severity)
    same = torch.equal(images, before) and images._version == 0
    expect(same, name, "leave its images as they are", "changed ones")
    right = changed.shape == images.shape and changed.dtype == images.dtype
    rule = f"return float images of shape {tuple(images.shape)}"
    expect(right, name, rule, f"{changed.dtype} of shape {tuple(changed.shape)}")
    finite = bool(changed.isfinite().all())
    expect(finite, name, "return finite values", "NaN or infinite ones")
    as_bytes = corrupt((images * 255).byte(), corruption, severity)
    expect(as_bytes.dtype == torch.uint8, name, "turn bytes into bytes", as_bytes.dtype)
    return changed


def _check_draws(corruption: str | Corruption, images: Tensor, name: str) -> None:
    whole = corrupt(images, corruption, 3, seed=1)
    rule = "give the same images for the same seed"
    again = corrupt(images, corruption, 3, seed=1)
    expect_close([again], [whole], name, rule, rtol=0, atol=0)
    rule = "draw for an image what its number says, in a batch or alone"
    last = corrupt(images[4:], corruption, 3, seed=1, first=4)
    expect_close([last], [whole[4:]], name, rule)
