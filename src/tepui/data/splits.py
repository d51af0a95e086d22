"""Splits of a data set in two: at random from a seed, or by a list of indices."""

from collections.abc import Sequence, Sized
from pathlib import Path
from typing import TypeVar, cast, overload

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, Subset

from tepui.core.checks import require
from tepui.core.seeding import generator
from tepui.data.arrays import Arrays
from tepui.data.image_files import ImageFiles

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
        are ``Arrays`` if the data set is, or holds images that fit into memory;
        otherwise ``torch.utils.data.Subset``.

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
    rule = f"leave at least one of {samples} samples on each side"
    require(0 < second < samples, "fraction", rule, fraction)
    order = torch.randperm(samples, generator=generator(seed, "split"))
    return _part(dataset, order[second:]), _part(dataset, order[:second])


@overload
def split_at(
    dataset: Arrays, held_out: Sequence[int] | Tensor | str | Path
) -> tuple[Arrays, Arrays]: ...


@overload
def split_at(
    dataset: Dataset[T], held_out: Sequence[int] | Tensor | str | Path
) -> tuple[Dataset[T], Dataset[T]]: ...


def split_at(
    dataset: Dataset[T], held_out: Sequence[int] | Tensor | str | Path
) -> tuple[Dataset[T], Dataset[T]]:
    """Split a data set into the samples at given indices and all others.

    Both parts keep the order of the data set.

    Args:
        dataset: Any map-style data set.
        held_out: Positions of the samples of the second part, or an ``.npy`` file
            that holds them.

    Returns:
        All other samples, then those that are named.

    Raises:
        ValueError: If positions repeat or lie outside the data set, or a part would
            be empty.

    Example:
        >>> data = Arrays(torch.arange(10.0), torch.arange(10))
        >>> train, held_out = split_at(data, [7, 3])
        >>> len(train), held_out.targets
        (8, tensor([3, 7]))
    """
    if not isinstance(dataset, Sized):
        name = type(dataset).__name__
        raise ValueError(f"dataset must be map-style and have a length, got {name}")
    if isinstance(held_out, str | Path):
        held_out = torch.from_numpy(np.load(held_out, allow_pickle=False))
    rows = torch.as_tensor(held_out)
    whole = rows.ndim == 1 and not (rows.is_floating_point() or rows.is_complex())
    rule = "be a one-dimensional list of integers"
    require(whole, "held_out", rule, f"{rows.dtype} of shape {tuple(rows.shape)}")
    samples = len(dataset)
    rule = f"hold distinct indices, a non-empty proper subset of range({samples})"
    right = 0 < len(rows) < samples and len(rows.unique()) == len(rows)
    right = right and int(rows.min()) >= 0 and int(rows.max()) < samples
    require(right, "held_out", rule, f"{len(rows)} numbers")
    others = torch.ones(samples, dtype=torch.bool)
    others[rows.long()] = False
    return _part(dataset, others.nonzero()[:, 0]), _part(dataset, rows.long())


def _part(dataset: Dataset[T], rows: Tensor) -> Dataset[T]:
    index: list[int] = rows.sort().values.tolist()
    held = dataset.held if isinstance(dataset, ImageFiles) else dataset
    if isinstance(held, Arrays):
        return cast(Dataset[T], held.subset(index))
    return Subset(dataset, index)
