"""Pinball loss, which quantiles minimize."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import final

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.losses.base import like_outputs, mean_per_sample


def pinball(outputs: Tensor, targets: Tensor, levels: tuple[float, ...]) -> Tensor:
    """Per-sample pinball loss, which quantiles minimize.

    Args:
        outputs: Shape ``(samples, levels * numbers, …)``: the first level of all
            numbers, then the second, and so on.
        targets: Numbers of shape ``(samples, numbers, …)``; for one number
            ``(samples,)`` will do.
        levels: The levels of the quantiles, within (0, 1).

    Returns:
        Losses of shape ``(samples,)``, over levels and numbers their mean.

    Raises:
        ValueError: If outputs are not a multiple of the levels.

    Example:
        >>> import torch
        >>> pinball(torch.zeros(2, 1), torch.tensor([1.0, -1.0]), (0.9,))
        tensor([0.9000, 0.1000])
    """
    inside = len(levels) > 0 and all(0 < level < 1 for level in levels)
    require(inside, "levels", "lie in (0, 1), at least one", tuple(levels))
    fits = outputs.ndim > 1 and outputs.shape[1] % len(levels) == 0
    rule = f"be one for each of {len(levels)} levels and each number"
    require(fits, "outputs", rule, f"shape {tuple(outputs.shape)}")
    by_level = outputs.chunk(len(levels), 1)
    wanted = like_outputs(targets, by_level[0])
    losses = [
        torch.maximum(level * (wanted - output), (level - 1) * (wanted - output))
        for level, output in zip(levels, by_level, strict=True)
    ]
    return mean_per_sample(torch.stack(losses, 1))


@final
@dataclass(frozen=True)
class Quantiles:
    """Pinball loss: outputs are quantiles of the numbers.

    Attributes:
        levels: Which quantiles, rising within (0, 1). A model has one output for each
            level and number: the first level of all numbers, then the second.
    """

    levels: tuple[float, ...] = (0.05, 0.5, 0.95)

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", rising(self.levels))

    def __call__(self, outputs: Tensor, targets: Tensor, /) -> Tensor:
        """Return one loss per sample."""
        return pinball(outputs, targets, self.levels)


def rising(levels: Iterable[float]) -> tuple[float, ...]:
    """Return levels of quantiles, which rise within (0, 1)."""
    given = tuple(levels)
    inside = all(0 < level < 1 for level in given)
    fits = inside and all(low < high for low, high in pairwise(given))
    rule = "rise within (0, 1), at least one of them"
    require(len(given) > 0 and fits, "levels", rule, given)
    return given
