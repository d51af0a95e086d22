"""Images of noise, which no model should recognize.

Every label is -1, which no loss and no accuracy accepts.
"""

from typing import final

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.core.seeding import generator
from tepui.data.arrays import Arrays, Normalize
from tepui.data.files.unlabeled_folder import NO_LABEL


@final
class UniformNoise(Arrays):
    """Every pixel an independent byte, all equally likely.

    Args:
        num_samples: How many images.
        shape: Channels, height and width.
        like: A data set whose shape of images and normalization to take instead.
        seed: Same seed, same noise.

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
        size = _size(num_samples, shape, like)
        stream = generator(seed, "noise", "uniform")
        images = torch.randint(256, size, generator=stream, dtype=torch.uint8)
        super().__init__(images, _no_labels(num_samples), _normalize(like))


@final
class GaussianNoise(Arrays):
    """Every pixel drawn from a normal distribution around gray, cut to bytes.

    Args:
        num_samples: How many images.
        shape: Channels, height and width.
        std: Standard deviation, on the scale from 0 to 1.
        like: A data set whose shape of images and normalization to take instead.
        seed: Same seed, same noise.

    Raises:
        ValueError: If ``std`` or ``num_samples`` is not positive.

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
        require(std > 0, "std", "be positive", std)
        size = _size(num_samples, shape, like)
        stream = generator(seed, "noise", "gaussian")
        values = torch.randn(size, generator=stream).mul_(std).add_(0.5)
        images = values.mul_(255).round_().clamp_(0, 255).to(torch.uint8)
        super().__init__(images, _no_labels(num_samples), _normalize(like))


def _size(
    num_samples: int, shape: tuple[int, int, int], like: Arrays | None
) -> tuple[int, ...]:
    require(num_samples > 0, "num_samples", "be positive", num_samples)
    if like is None:
        return (num_samples, *shape)
    images = like.inputs
    if not isinstance(images, Tensor) or images.ndim != 4:
        raise ValueError(f"like must hold images, got {type(like).__name__}")
    return (num_samples, *images.shape[1:])


def _normalize(like: Arrays | None) -> Normalize | None:
    return None if like is None else like.normalize


def _no_labels(num_samples: int) -> Tensor:
    return torch.full((num_samples,), NO_LABEL)
