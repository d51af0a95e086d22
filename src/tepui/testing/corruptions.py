"""What every corruption promises."""

from itertools import pairwise

import torch
from torch import Tensor

from tepui.core.seeding import generator
from tepui.data import Corruption, corrupt
from tepui.testing.expecting import Subject, name_of

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
    checked = Subject(name)
    for channels in (1, 3):
        images = _images(channels)
        distances = []
        for severity in range(1, 6):
            changed = _check_images(checked, corruption, images, severity)
            distances.append(float((changed - images).abs().mean()))
        if rising:
            checked.must("change images at severity 1", distances[0] > 0, "the same")
            rises = all(low <= high for low, high in pairwise(distances))
            rule = "change images further at every severity (rising)"
            checked.must(rule, rises, distances)
        _check_draws(checked, corruption, images)


def _images(channels: int) -> Tensor:
    """Return gray gradients with some noise, so that blur and noise both show."""
    ramp = torch.linspace(0.1, 0.9, SIZE)
    noise = torch.rand(
        SAMPLES, channels, SIZE, SIZE, generator=generator("testing", "images")
    )
    return 0.7 * (ramp[:, None] + ramp) / 2 + 0.3 * noise


def _check_images(
    checked: Subject, corruption: str | Corruption, images: Tensor, severity: int
) -> Tensor:
    before = images.clone()
    with checked.must_keep_generators():
        changed = corrupt(images, corruption, severity)
    same = torch.equal(images, before) and images._version == 0
    checked.must("leave its images as they are", same, "changed ones")
    alike = changed.shape == images.shape and changed.dtype == images.dtype
    rule = f"return float images of shape {tuple(images.shape)}"
    checked.must(rule, alike, f"{changed.dtype} of shape {tuple(changed.shape)}")
    finite = bool(changed.isfinite().all())
    checked.must("return finite values", finite, "NaN or infinite ones")
    kind = corrupt((images * 255).byte(), corruption, severity).dtype
    checked.must("turn bytes into bytes", kind == torch.uint8, kind)
    return changed


def _check_draws(
    checked: Subject, corruption: str | Corruption, images: Tensor
) -> None:
    whole, again = (corrupt(images, corruption, 3, seed=1) for _ in range(2))
    rule = "give the same images for the same seed"
    checked.must_agree(rule, [again], [whole], rtol=0, atol=0)
    rule = "draw for an image what its number says, in a batch or alone"
    last = corrupt(images[4:], corruption, 3, seed=1, first=4)
    checked.must_agree(rule, [last], [whole[4:]])
