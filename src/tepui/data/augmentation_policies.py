"""Augmentation by random operations: which ones, and how much, a policy draws.

All work on bytes, gray or in color. Floats in ``[0, 1]`` are rounded to bytes and back.
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, final

import numpy as np
import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.data.augment import (
    PROBABILITY,
    Augmentation,
    ByteAugmentation,
    between,
    check_batch,
    choice,
)
from tepui.data.corruptions.filters import border_index
from tepui.data.image_operations import (
    ENHANCEMENTS,
    MOVES,
    OPERATIONS,
    applied,
    blend,
    gray,
    hue_turned,
    mean_gray,
    operated,
    precise,
)

# As a share of the side, in AutoAugment and RandAugment.
FARTHEST = 150 / 331
# How many magnitudes AutoAugment has, and how many the other two.
AUTO_LEVELS, LEVELS = 10, 31
# Only AutoAugment inverts.
MOST_OPERATIONS = len(OPERATIONS) - 1

# Corruptions that are among the operations of all policies but AugMix.
COLORED = frozenset({"brightness", "contrast", "saturate"})

# Pairs of operations, each with its probability and its level.
CIFAR_POLICY = """
    invert 0.1 0, contrast 0.2 6; rotate 0.7 2, translate_x 0.3 9
    sharpness 0.8 1, sharpness 0.9 3; shear_y 0.5 8, translate_y 0.7 9
    autocontrast 0.5 0, equalize 0.9 0; shear_y 0.2 7, posterize 0.3 7
    color 0.4 3, brightness 0.6 7; sharpness 0.3 9, brightness 0.7 9
    equalize 0.6 0, equalize 0.5 0; contrast 0.6 7, sharpness 0.6 5
    color 0.7 7, translate_x 0.5 8; equalize 0.3 0, autocontrast 0.4 0
    translate_y 0.4 3, sharpness 0.2 6; brightness 0.9 6, color 0.2 8
    solarize 0.5 2, invert 0.0 0; equalize 0.2 0, autocontrast 0.6 0
    equalize 0.2 0, equalize 0.6 0; color 0.9 9, equalize 0.6 0
    autocontrast 0.8 0, solarize 0.2 8; brightness 0.1 3, color 0.7 0
    solarize 0.4 5, autocontrast 0.9 0; translate_y 0.9 9, translate_y 0.7 9
    autocontrast 0.9 0, solarize 0.8 3; equalize 0.8 0, invert 0.1 0
    translate_y 0.7 9, autocontrast 0.9 0
"""

# AugMix's operations and largest magnitudes; those of translations are shares of sides.
MIXED = {
    "autocontrast": 0.0,
    "equalize": 0.0,
    "posterize": 4.0,
    "rotate": 30.0,
    "solarize": 256.0,
    "shear_x": 0.3,
    "shear_y": 0.3,
    "translate_x": 1 / 3,
    "translate_y": 1 / 3,
}
# Where magnitudes are subtracted from.
MIXED_START = {"posterize": 4.0, "solarize": 256.0}


@final
@dataclass(frozen=True)
class TrivialAugment(ByteAugmentation):
    """Apply one random operation at a random level: TrivialAugment (wide).

    The operation is one of 14 (nothing, shear, translate, rotate, brightness, color,
    contrast, sharpness, posterize, solarize, autocontrast, equalize), its level one of
    31, its direction either. Ranges are torchvision's: translations up to 32 pixels
    whatever the size of the image, rotations up to 135°.

    Example:
        >>> images = torch.full((2, 3, 8, 8), 100, dtype=torch.uint8)
        >>> uniform = torch.tensor([[0.0, 0.0, 0.0], [0.45, 0.99, 0.0]])
        >>> TrivialAugment()(images, uniform)[:, 0, 0, 0]
        tensor([100, 199], dtype=torch.uint8)

    References:
        Müller and Hutter, TrivialAugment: Tuning-free Yet State-of-the-Art Data
        Augmentation, ICCV 2021.
    """

    draws: ClassVar[int] = 3
    corruptions: ClassVar[frozenset[str]] = COLORED

    def changed(self, images: Tensor, uniform: Tensor) -> Tensor:
        """Return images; the three numbers set operation, level and direction."""
        amounts = _amounts(images.device, LEVELS, 0.99, (32, 32), 135, 0.99, 6)
        operation = choice(uniform[:, 0], MOST_OPERATIONS)
        level, side = choice(uniform[:, 1], LEVELS), choice(uniform[:, 2], 2)
        return operated(images, operation, amounts[operation, level, side])


@final
@dataclass(frozen=True)
class RandAugment(ByteAugmentation):
    """Apply some random operations, one after the other, all at one level.

    The operations are those of :class:`TrivialAugment` with narrower ranges: rotations
    up to 30°, translations up to 45 % of the side.

    Attributes:
        operations: How many are applied.
        level: How much, from 0 to 30.

    Example:
        >>> images = torch.zeros(5, 3, 32, 32, dtype=torch.uint8)
        >>> policy = RandAugment(operations=2, level=9)
        >>> policy(images, torch.rand(5, policy.draws)).shape
        torch.Size([5, 3, 32, 32])

    References:
        Cubuk et al., RandAugment: Practical Automated Data Augmentation with a Reduced
        Search Space, NeurIPS 2020.
    """

    corruptions: ClassVar[frozenset[str]] = COLORED
    bounds: ClassVar = {"operations": (1, math.inf), "level": (0, LEVELS - 1)}
    operations: int = 2
    level: int = 9

    @property
    def draws(self) -> int:
        """Two for each operation."""
        return 2 * self.operations

    def changed(self, images: Tensor, uniform: Tensor) -> Tensor:
        """Return images; two numbers set each operation and its direction."""
        amounts = _narrow(images, LEVELS)
        for pick, way in zip(
            *(uniform[:, n::2].unbind(1) for n in (0, 1)), strict=True
        ):
            operation = choice(pick, MOST_OPERATIONS)
            amount = amounts[operation, self.level, choice(way, 2)]
            images = operated(images, operation, amount)
        return images


@final
@dataclass(frozen=True)
class AutoAugment(ByteAugmentation):
    """Apply one of 25 pairs of operations that were searched for on CIFAR-10.

    Each operation of a pair has its own probability and level, as in torchvision.

    Example:
        >>> images = torch.zeros(5, 3, 32, 32, dtype=torch.uint8)
        >>> AutoAugment()(images, torch.rand(5, 5)).shape
        torch.Size([5, 3, 32, 32])

    References:
        Cubuk et al., AutoAugment: Learning Augmentation Policies from Data, CVPR 2019.
    """

    draws: ClassVar[int] = 5
    corruptions: ClassVar[frozenset[str]] = COLORED

    def changed(self, images: Tensor, uniform: Tensor) -> Tensor:
        """Return images; the numbers set the pair, then chance and direction twice."""
        amounts = _narrow(images, AUTO_LEVELS)
        pairs, chances = _pairs(images.device)
        pair = choice(uniform[:, 0], len(pairs))
        for turn in range(2):
            operation, level = pairs[pair, turn].unbind(1)
            chance, side = uniform[:, 1 + 2 * turn], choice(uniform[:, 2 + 2 * turn], 2)
            amount = amounts[operation, level, side]
            happens = chance < chances[pair, turn]
            images = operated(images, operation * happens, amount)  # or identity, 0
        return images


@final
@dataclass(frozen=True)
class AugMix(ByteAugmentation):
    """Mix an image with the mean of several chains of random operations.

    Each chain applies one to ``depth`` of nine operations (autocontrast, equalize,
    posterize, rotate, solarize, shear, translate), none of which is among the
    corruptions of CIFAR-10-C. Weights of chains are uniform on the simplex and the
    share of their mean is uniform in ``[0, 1]``, as published (alpha = 1). Mixtures are
    rounded to bytes. The consistency loss of the paper is not part of this.

    Attributes:
        severity: Largest level of 10; levels are uniform from 0.1.
        width: How many chains there are.
        depth: Operations of the longest chain.

    Example:
        >>> images = torch.zeros(5, 3, 32, 32, dtype=torch.uint8)
        >>> policy = AugMix()
        >>> policy(images, torch.rand(5, policy.draws)).shape
        torch.Size([5, 3, 32, 32])

    References:
        Hendrycks et al., AugMix: A Simple Data Processing Method to Improve Robustness
        and Uncertainty, ICLR 2020.
    """

    bounds: ClassVar = {
        "severity": (0.1, 10),
        "width": (1, math.inf),
        "depth": (1, math.inf),
    }
    severity: float = 3.0
    width: int = 3
    depth: int = 3

    @property
    def draws(self) -> int:
        """One for the mixture, and for each chain two and three per operation."""
        return 1 + self.width * (2 + 3 * self.depth)

    def changed(self, images: Tensor, uniform: Tensor) -> Tensor:
        """Return mixed images; the numbers set the share, then chain after chain."""
        chains = uniform[:, 1:].unflatten(1, (self.width, -1))
        # Exponential numbers over their sum are uniform on the simplex.
        weights = torch.log1p(-precise(chains[..., 0])).clamp(max=-1e-30)
        weights = (weights / weights.sum(1, keepdim=True)).float()
        views = images[:, None].expand(-1, self.width, -1, -1, -1).flatten(0, 1)
        views = self._chained(views, chains[..., 1:].flatten(0, 1))
        views = views.view(-1, self.width, *images.shape[1:])
        mean = torch.zeros_like(images, dtype=torch.float32)
        for view, weight in zip(views.unbind(1), weights.unbind(1), strict=True):
            mean += weight[:, None, None, None] * view
        share = uniform[:, 0].float()[:, None, None, None]
        mixed = (1 - share) * images + share * mean
        return mixed.round().clamp(0, 255).to(torch.uint8)

    def _chained(self, images: Tensor, uniform: Tensor) -> Tensor:
        """Return images after one chain each; a number sets how long it is."""
        operations, largest, start, whole = _mixed(*images.shape[2:], images.device)
        length = choice(uniform[:, 0], self.depth) + 1
        for turn, columns in enumerate(uniform[:, 1:].split(3, dim=1)):
            pick = choice(columns[:, 0], len(operations))
            amount = between(0.1, self.severity, columns[:, 1].float()) * largest[pick]
            amount = torch.where(whole[pick], amount.trunc(), amount)
            down = (start[pick] > 0) | (columns[:, 2] < 0.5)
            amount = start[pick] + torch.where(down, -amount, amount)
            operation = operations[pick] * (turn < length)  # or identity, 0
            images = operated(images, operation, amount, bilinear=True)
        return images


def _narrow(images: Tensor, levels: int) -> Tensor:
    """Return AutoAugment's magnitudes, which RandAugment has, too."""
    height, width = images.shape[2:]
    farthest = (FARTHEST * width, FARTHEST * height)
    return _amounts(images.device, levels, 0.3, farthest, 30, 0.9, 4)


# Kept, since no number may come from the host while a graph is captured.
@cache
def _amounts(
    device: torch.device,
    levels: int,
    shear: float,
    translate: tuple[float, float],
    angle: float,
    factor: float,
    bits: int,
) -> Tensor:
    """Return magnitudes by operation, level and direction, given the largest."""
    share = [level / (levels - 1) for level in range(levels)]
    largest = dict(zip(MOVES, (shear, shear, *translate, angle), strict=True))
    largest |= dict.fromkeys(ENHANCEMENTS, factor)
    space = {name: [most * s for s in share] for name, most in largest.items()}
    space["posterize"] = [8 - round(s * bits) for s in share]
    space["solarize"] = [255 - 255 * s for s in share]
    rows = [(name, space.get(name, share)) for name in OPERATIONS]
    return _kept([[_both_ways(name, a) for a in row] for name, row in rows], device)


def _both_ways(name: str, amount: float) -> tuple[float, float]:
    """Return a magnitude in both directions."""
    if name in ENHANCEMENTS:
        return 1 + amount, 1 - amount
    if name not in MOVES:
        return amount, amount
    amount = int(amount) if name.startswith("translate") else amount
    return amount, -amount


@cache
def _pairs(device: torch.device) -> tuple[Tensor, Tensor]:
    """Return operation and level of each pair's two, and their probabilities."""
    lines = CIFAR_POLICY.strip().replace("\n", ";").split(";")
    pairs = [[item.split() for item in line.split(",")] for line in lines]
    which = [[(OPERATIONS.index(n), int(v)) for n, _, v in pair] for pair in pairs]
    chances = [[float(p) for _, p, _ in pair] for pair in pairs]
    return _kept(which, device), _kept(chances, device)


@cache
def _mixed(height: int, width: int, device: torch.device) -> tuple[Tensor, ...]:
    """Return AugMix's operations, magnitudes by level, start, and if they are whole."""
    sides = {"translate_x": width, "translate_y": height}
    rows = [
        (
            OPERATIONS.index(name),
            largest * sides.get(name, 1) / 10,
            MIXED_START.get(name, 0.0),
            not name.startswith("shear"),
        )
        for name, largest in MIXED.items()
    ]
    return tuple(_kept(column, device) for column in zip(*rows, strict=True))


def _kept(numbers: Any, device: torch.device) -> Tensor:
    values = torch.from_numpy(np.array(numbers))
    return (values.float() if values.is_floating_point() else values).to(device)


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
    bounds: ClassVar = {
        **dict.fromkeys(("brightness", "contrast", "saturation"), (0, math.inf)),
        "hue": (0, 0.5),
    }
    brightness: float = 0.4
    contrast: float = 0.4
    saturation: float = 0.4
    hue: float = 0.0

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
    bounds: ClassVar = PROBABILITY
    probability: float = 0.1

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
    bounds: ClassVar = PROBABILITY
    sigma: tuple[float, float] = (0.1, 2.0)
    probability: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        low, high = self.sigma
        require(0 < low <= high, "sigma", "be positive and increasing", self.sigma)

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
