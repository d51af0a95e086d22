"""Augmentation that changes colors or sharpness and leaves pixels where they are."""

import math
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.core.types import check_fields
from tepui.data.augment import (
    Augmentation,
    ByteAugmentation,
    between,
    check_batch,
    check_probability,
)
from tepui.data.corruptions.filters import border_index
from tepui.data.image_operations import (
    applied,
    blend,
    gray,
    hue_turned,
    mean_gray,
)


@final
@dataclass(frozen=True)
class ColorJitter(ByteAugmentation):
    """Change brightness, contrast, saturation and hue at random, in random order.

    The first three are factors uniform from ``max(0, 1 - x)`` to ``1 + x``, with the
    results of Pillow's enhancements. Hue is turned by a share of the circle, uniform
    from ``-hue`` to ``hue``; gray images have none.

    Attributes:
        brightness: Largest change of the factor.
        contrast: Largest change of the factor.
        saturation: Largest change of the factor.
        hue: Largest turn, at most half the circle.

    Example:
        >>> images = torch.full((1, 3, 1, 1), 100, dtype=torch.uint8)
        >>> jitter = ColorJitter(brightness=0.5, contrast=0, saturation=0)
        >>> jitter(images, torch.zeros(1, 8)).flatten()
        tensor([50, 50, 50], dtype=torch.uint8)
    """

    draws: ClassVar[int] = 8
    brightness: float = 0.4
    contrast: float = 0.4
    saturation: float = 0.4
    hue: float = 0.0

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("brightness", "contrast", "saturation"):
            value = getattr(self, name)
            require(value >= 0, name, "be non-negative", value)
        require(0 <= self.hue <= 0.5, "hue", "lie in [0, 0.5]", self.hue)

    @property
    def corruptions(self) -> frozenset[str]:
        """Those whose changes are not 0."""
        changes = (self.brightness, self.contrast, self.saturation)
        names = ("brightness", "contrast", "saturate")
        found = (n for n, most in zip(names, changes, strict=True) if most > 0)
        return frozenset(found)

    def changed(self, images: Tensor, uniform: Tensor) -> Tensor:
        """Return images; four numbers set how much, and the order of four the order."""
        changes = (self.brightness, self.contrast, self.saturation)
        factors = [
            between(max(0, 1 - most), 1 + most, column)
            for most, column in zip(changes, uniform[:, :3].unbind(1), strict=True)
        ]
        factor = torch.stack([*factors, torch.ones_like(factors[0])], dim=1)
        turn = between(-self.hue, self.hue, uniform[:, 3])
        order = uniform[:, 4:].argsort(dim=1, stable=True)
        for which in order.unbind(1):
            place = which[:, None, None, None]
            even = mean_gray(images) * (place == 1)
            degenerate = torch.where(place == 2, gray(images), even)
            own = factor.gather(1, which[:, None])[:, 0]
            images = blend(degenerate, images, own)
            if self.hue > 0 and images.shape[1] == 3:
                images = applied(which == 3, hue_turned, images, turn)
        return images


@final
@dataclass(frozen=True)
class RandomGrayscale(ByteAugmentation):
    """Take the color of images with a probability; the channels stay, all equal.

    Attributes:
        probability: Chance that a sample loses its color.

    Example:
        >>> red = torch.tensor([255, 0, 0], dtype=torch.uint8).view(1, 3, 1, 1)
        >>> RandomGrayscale(probability=1.0)(red, torch.zeros(1, 1)).flatten()
        tensor([76, 76, 76], dtype=torch.uint8)
    """

    draws: ClassVar[int] = 1
    corruptions: ClassVar[frozenset[str]] = frozenset({"saturate"})
    probability: float = 0.1

    def __post_init__(self) -> None:
        check_fields(self)
        check_probability(self.probability)

    def changed(self, images: Tensor, uniform: Tensor) -> Tensor:
        """Return samples gray where the uniform number is below probability."""
        colorless = (uniform < self.probability)[:, :, None, None]
        return torch.where(colorless, gray(images), images)


@final
@dataclass(frozen=True)
class GaussianBlur(Augmentation):
    """Blur with a Gaussian of random width, with a probability.

    The kernel ends three of the largest widths from its center, and the image is
    mirrored beyond its border, the outermost pixels not repeated.

    Attributes:
        sigma: Smallest and largest width in pixels, drawn uniformly between them.
        probability: Chance that a sample is blurred.

    Example:
        >>> image = torch.tensor([[[[0.0, 0.0, 1.0, 0.0, 0.0]]]])
        >>> blur = GaussianBlur(sigma=(0.5, 0.5), probability=1.0)
        >>> blur(100 * image, torch.zeros(1, 2)).flatten().round()
        tensor([ 0., 11., 79., 11.,  0.])

    References:
        Chen et al., A Simple Framework for Contrastive Learning of Visual
        Representations, ICML 2020, for these defaults.
    """

    draws: ClassVar[int] = 2
    # Defocus blur of small images is a Gaussian one, within 2 % at CIFAR's first three.
    corruptions: ClassVar[frozenset[str]] = frozenset({"defocus_blur", "gaussian_blur"})
    sigma: tuple[float, float] = (0.1, 2.0)
    probability: float = 0.5

    def __post_init__(self) -> None:
        check_fields(self)
        low, high = self.sigma
        require(0 < low <= high, "sigma", "be positive and increasing", self.sigma)
        check_probability(self.probability)

    def __call__(self, images: Tensor, uniform: Tensor) -> Tensor:
        """Return blurred images; the two numbers set chance and width."""
        check_batch(images, uniform, self.draws)
        sigma = between(*self.sigma, uniform[:, 1])
        return applied(uniform[:, 0] < self.probability, self._blurred, images, sigma)

    def _blurred(self, images: Tensor, sigma: Tensor) -> Tensor:
        radius = math.ceil(3 * self.sigma[1])
        offset = torch.arange(-radius, radius + 1, device=images.device)
        pixels = images.to(torch.promote_types(images.dtype, torch.float32))
        weights = (-((offset / sigma[:, None].to(pixels)) ** 2) / 2).softmax(1)
        for axis in (2, 3):
            side = images.shape[axis]
            place = torch.arange(side, device=images.device)
            total = torch.zeros_like(pixels)
            for shift, weight in enumerate(weights.unbind(1), start=-radius):
                source = border_index(place + shift, side, "mirror")
                moved = pixels.index_select(axis, source)
                total += weight[:, None, None, None] * moved
            pixels = total
        whole = not images.is_floating_point()
        return (pixels.round() if whole else pixels).to(images.dtype)
