"""Splits of a data set in two: at random from a seed, or by a list of indices."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, Subset

from tepui.core.checks import require
from tepui.core.seeding import generator
from tepui.data.arrays import Arrays
from tepui.data.image_files import ImageFiles
from tepui.data.loading import length
from tepui.data.stored import StoredData

D = TypeVar("D", Arrays, Dataset[Any])


def split(dataset: D, fraction: float, *, seed: int) -> tuple[D, D]:
    """Split a data set at random into two that share no sample.

    Both parts keep the order of the data set.

    Args:
        dataset: Any map-style data set.
        fraction: Share of the samples in the second part, between 0 and 1.
        seed: Same seed, same split.

    Returns:
        A part of ``n - round(fraction * n)`` samples, then one of ``round(fraction *
        n)``. Both are ``Arrays`` if the data set is, or if it holds image files that
        fit into memory; of the data set's own kind if it stays in storage; otherwise
        ``torch.utils.data.Subset``.

    Raises:
        ValueError: If the data set has no length, ``fraction`` is not in (0, 1), or a
            part would be empty.

    Example:
        >>> dataset = Arrays(torch.arange(10.0), torch.arange(10))
        >>> train, held_out = split(dataset, 0.2, seed=13)
        >>> len(train), len(held_out)
        (8, 2)
    """
    first, second = split_rows(length(dataset), fraction, seed=seed)
    return _part(dataset, first), _part(dataset, second)


def split_rows(
    num_samples: int, fraction: float, *, seed: int
) -> tuple[Tensor, Tensor]:
    """Return which samples of a data set :func:`split` puts where, ascending."""
    require(0 < fraction < 1, "fraction", "lie in (0, 1)", fraction)
    second = round(fraction * num_samples)
    rule = f"leave at least one of {num_samples} samples on each side"
    require(0 < second < num_samples, "fraction", rule, fraction)
    order = torch.randperm(num_samples, generator=generator(seed, "split"))
    return order[second:].sort().values, order[:second].sort().values


def split_at(dataset: D, held_out: Sequence[int] | Tensor | str | Path) -> tuple[D, D]:
    """Split a data set into the samples at given indices and all others.

    Both parts keep the order of the data set.

    Args:
        dataset: Any map-style data set.
        held_out: Positions of the samples of the second part, or an ``.npy`` file
            that holds them.

    Returns:
        All other samples, then those at the given positions.

    Raises:
        ValueError: If positions repeat or exceed the data set, or a part would be
            empty.

    Example:
        >>> dataset = Arrays(torch.arange(10.0), torch.arange(10))
        >>> train, held_out = split_at(dataset, [7, 3])
        >>> len(train), held_out.targets
        (8, tensor([3, 7]))
    """
    if isinstance(held_out, str | Path):
        held_out = torch.from_numpy(np.load(held_out, allow_pickle=False))
    rows = torch.as_tensor(held_out)
    whole = rows.ndim == 1 and not (rows.is_floating_point() or rows.is_complex())
    rule = "be a one-dimensional list of integers"
    require(whole, "held_out", rule, f"{rows.dtype} of shape {tuple(rows.shape)}")
    num_samples = length(dataset)
    rule = f"hold distinct indices, a non-empty proper subset of range({num_samples})"
    fits = 0 < len(rows) < num_samples and len(rows.unique()) == len(rows)
    fits = fits and int(rows.min()) >= 0 and int(rows.max()) < num_samples
    require(fits, "held_out", rule, f"{len(rows)} numbers")
    others = torch.ones(num_samples, dtype=torch.bool)
    others[rows.long()] = False
    return _part(dataset, others.nonzero()[:, 0]), _part(dataset, rows.long())


def _part(dataset: D, rows: Tensor) -> D:
    index: list[int] = rows.sort().values.tolist()
    if isinstance(dataset, Arrays):
        return dataset.subset(index)
    held = dataset.held if isinstance(dataset, ImageFiles) else None
    if held is not None:
        return held.subset(index)
    if isinstance(dataset, StoredData):
        return dataset.subset(index)
    return Subset(dataset, index)
