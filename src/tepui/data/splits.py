"""Seeded random splits of a data set."""

from collections.abc import Sized
from typing import TypeVar, cast, overload

import torch
from torch import Tensor
from torch.utils.data import Dataset, Subset

from tepui.checks import require
from tepui.data.arrays import Arrays
from tepui.seeding import generator

T = TypeVar("T")


@overload
def split(dataset: Arrays, fraction: float, *, seed: int) -> tuple[Arrays, Arrays]: ...


@overload
def split(
    dataset: Dataset[T], fraction: float, *, seed: int
) -> tuple[Dataset[T], Dataset[T]]: ...


def split(
    dataset: Dataset[T], fraction: float, *, seed: int
) -> tuple[Dataset[T], Dataset[T]]:
    """Split a data set at random into two that share no sample.

    Both parts keep the order of the data set.

    Args:
        dataset: Any map-style data set.
        fraction: Share of the samples in the second part, above 0 and below 1.
        seed: Same seed, same split.

    Returns:
        First ``n - round(fraction * n)`` samples, then ``round(fraction * n)``. Both
        are ``Arrays`` if the data set is, otherwise ``torch.utils.data.Subset``.

    Raises:
        ValueError: If the data set has no length, ``fraction`` lies outside (0, 1), or
            a part would be empty.

    Example:
        >>> data = Arrays(torch.arange(10.0), torch.arange(10))
        >>> train, held_out = split(data, 0.2, seed=13)
        >>> len(train), len(held_out)
        (8, 2)
    """
    if not isinstance(dataset, Sized):
        name = type(dataset).__name__
        raise ValueError(f"dataset must be map-style and have a length, got {name}")
    samples = len(dataset)
    require(0 < fraction < 1, "fraction", "lie in (0, 1)", fraction)
    second = round(fraction * samples)
    rule = f"leave a sample on each side of {samples}"
    require(0 < second < samples, "fraction", rule, fraction)
    order = torch.randperm(samples, generator=generator(seed, "split"))
    return _part(dataset, order[second:]), _part(dataset, order[:second])


def _part(dataset: Dataset[T], rows: Tensor) -> Dataset[T]:
    index: list[int] = rows.sort().values.tolist()
    if isinstance(dataset, Arrays):
        return cast(Dataset[T], dataset.subset(index))
    return Subset(dataset, index)
