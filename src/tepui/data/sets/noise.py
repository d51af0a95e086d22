"""Images of noise, which no model should recognize.

Every label is -1, which every loss and accuracy refuses.
"""

from typing import final

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.core.seeding import generator
from tepui.core.types import check_types
from tepui.data.arrays import Arrays
from tepui.data.files.unlabeled_folder import NO_LABEL


class _Noise(Arrays):
    """Images without labels, normalized as those of another data set."""

    def __init__(self, images: Tensor, like: Arrays | None) -> None:
        labels = torch.full((len(images),), NO_LABEL)
        super().__init__(images, labels, None if like is None else like.normalize)


@final
class UniformNoise(_Noise):
    """Every pixel an independent byte, all equally likely.

    Args:
        num_samples: How many images.
        shape: Channels, height and width.
        like: A data set whose shape of images and normalization to take instead.
        seed: Same seed, same noise.

    Raises:
        ValueError: If ``num_samples`` is not positive, or ``like`` holds no images.

    Example:
        >>> UniformNoise(num_samples=2, shape=(1, 8, 8)).inputs.shape
        torch.Size([2, 1, 8, 8])
    """

    def __init__(
        self,
        num_samples: int = 10_000,
        shape: tuple[int, int, int] = (3, 32, 32),
        like: Arrays | None = None,
        seed: int = 0,
    ) -> None:
        check_types(UniformNoise.__init__, locals())
        size = _size(num_samples, shape, like)
        stream = generator(seed, "noise", "uniform")
        images = torch.randint(256, size, generator=stream, dtype=torch.uint8)
        super().__init__(images, like)


@final
class GaussianNoise(_Noise):
    """Every pixel drawn from a normal distribution around gray, clipped to bytes.

    Args:
        num_samples: How many images.
        shape: Channels, height and width.
        std: Standard deviation, on the scale from 0 to 1.
        like: A data set whose shape of images and normalization to take instead.
        seed: Same seed, same noise.

    Raises:
        ValueError: If ``std`` or ``num_samples`` is not positive, or ``like`` holds no
            images.

    Example:
        >>> GaussianNoise(num_samples=2, shape=(1, 8, 8)).targets
        tensor([-1, -1])
    """

    def __init__(
        self,
        num_samples: int = 10_000,
        shape: tuple[int, int, int] = (3, 32, 32),
        std: float = 0.25,
        like: Arrays | None = None,
        seed: int = 0,
    ) -> None:
        check_types(GaussianNoise.__init__, locals())
        require(std > 0, "std", "be positive", std)
        size = _size(num_samples, shape, like)
        stream = generator(seed, "noise", "gaussian")
        values = torch.randn(size, generator=stream).mul_(std).add_(0.5)
        images = values.mul_(255).round_().clamp_(0, 255).to(torch.uint8)
        super().__init__(images, like)


def _size(
    num_samples: int, shape: tuple[int, int, int], like: Arrays | None
) -> tuple[int, ...]:
    require(num_samples > 0, "num_samples", "be positive", num_samples)
    if like is None:
        require(min(shape) > 0, "shape", "hold positive sizes", shape)
        return (num_samples, *shape)
    images = like.inputs
    if not isinstance(images, Tensor) or images.ndim != 4:
        raise ValueError(f"like must hold images, got {type(like).__name__}")
    return (num_samples, *images.shape[1:])
