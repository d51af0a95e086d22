"""Parts of a data set, at random or by indices, and several data sets as one."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, Subset

from tepui.core.checks import require
from tepui.core.seeding import generator
from tepui.data.arrays import Arrays, Inputs
from tepui.data.image_files import ImageFiles
from tepui.data.loading import as_arrays, length
from tepui.data.stored import StoredData
from tepui.data.table import Table

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


Held = Arrays | ImageFiles


def joined(datasets: Sequence[Dataset[Any]]) -> Held:
    """Return the samples of several data sets after each other, as one data set.

    Names of classes, normalization and bytes are kept: image files stay image files,
    data in memory stay in memory. If sets with named classes number them differently,
    or hold different ones, labels are renumbered by the names; classes that the first
    set lacks come after its own.

    Args:
        datasets: ``Arrays`` and ``TensorDataset``, or image files that are read in one
            way; :func:`tepui.data.to_arrays` makes ``Arrays`` of any other.

    Returns:
        The samples, in order.

    Raises:
        ValueError: If the sets are normalized differently, their targets have other
            shapes, only some name their classes, or one is of another kind; or if rows
            of several labels would have to be renumbered.

    Example:
        >>> labels = torch.tensor([0, 1])
        >>> photos = Arrays(torch.zeros(2, 3), labels, classes=("cat", "dog"))
        >>> drawn = Arrays(torch.ones(2, 3), labels, classes=("cow", "cat"))
        >>> both = joined([photos, drawn])
        >>> both.classes, both.targets
        (('cat', 'dog', 'cow'), tensor([0, 1, 2, 0]))
    """
    rule = "hold at least one data set"
    require(len(datasets) > 0, "datasets", rule, list(datasets))
    parts = [_held(number, dataset) for number, dataset in enumerate(datasets)]
    classes = _classes(parts)
    renumbered = [_targets(n, part, classes) for n, part in enumerate(parts)]
    read = [
        (part.normalize, _read_as(dataset), tuple(labels.shape[1:]))
        for part, dataset, labels in zip(parts, datasets, renumbered, strict=True)
    ]
    rule = "be normalized and standardized as datasets[0], with targets of its shape"
    for number, (normalize, _, shape) in enumerate(read):
        same = read[number] == read[0]
        require(same, f"datasets[{number}]", rule, (normalize, shape))
    targets = torch.cat(renumbered)
    files = [part for part in parts if isinstance(part, ImageFiles)]
    if files:
        alike = (
            len(files) == len(parts) and len({(f.frame, f.gray) for f in files}) == 1
        )
        rule = "be all in memory, or all image files of one size and color"
        require(alike, "datasets", rule, [type(part).__name__ for part in parts])
        return ImageFiles(
            [file for part in files for file in part.files],
            targets,
            frame=files[0].frame,
            gray=files[0].gray,
            normalize=files[0].normalize,
            classes=classes,
        )
    inputs = _concatenated([p.inputs for p in parts if isinstance(p, Arrays)])
    return Arrays(inputs, targets, parts[0].normalize, classes)


def _read_as(dataset: Dataset[Any]) -> object:
    """Return what gives the numbers of a table their meaning; None of other data."""
    if not isinstance(dataset, Table):
        return None
    return dataset.columns, dataset.scaling, dataset.units


def _held(number: int, dataset: Dataset[Any]) -> Held:
    if isinstance(dataset, ImageFiles):
        return dataset
    arrays = as_arrays(dataset)
    rule = "be Arrays or image files (tepui.data.to_arrays makes Arrays)"
    kind = type(dataset).__name__
    require(arrays is not None, f"datasets[{number}]", rule, kind)
    assert arrays is not None
    return arrays.to("cpu")


def _classes(parts: Sequence[Held]) -> tuple[str, ...]:
    """Return the classes of all parts: those of the first, then what others add."""
    named = [bool(part.classes) for part in parts]
    rule = "name the classes of all data sets, or of none"
    require(all(named) or not any(named), "datasets", rule, named)
    return tuple(dict.fromkeys(name for part in parts for name in part.classes))


def _targets(number: int, part: Held, classes: tuple[str, ...]) -> Tensor:
    """Return labels by the numbers that classes have in the whole.

    Negative ones are no classes but say that there is no label, and stay.
    """
    if classes[: len(part.classes)] == part.classes:
        return part.targets
    labels, count = part.targets, len(part.classes)
    whole = not labels.is_floating_point() and int(labels.max()) < count
    rule = f"hold labels below {count}, the number of classes it names"
    require(whole, f"datasets[{number}]", rule, labels)
    row = labels.ndim == 2 and labels.shape[1] == count
    several = row and bool(((labels == 0) | (labels == 1)).all())
    rule = (
        f"name all classes in one order ({', '.join(classes)}): rows of 0 and 1 for "
        "several labels cannot be told from numbers of classes"
    )
    require(not several, f"datasets[{number}]", rule, part.classes)
    numbers = torch.tensor([classes.index(name) for name in part.classes])
    return numbers[labels.clamp(min=0)].where(labels >= 0, labels)


def _concatenated(inputs: Sequence[Inputs]) -> Inputs:
    """Return inputs after each other; all must be stored in the same way."""
    if any(not isinstance(part, Tensor) for part in inputs):
        named: list[Any] = [{} if isinstance(p, Tensor) else p for p in inputs]
        alike = all(part.keys() == named[0].keys() for part in named)
        rule = "hold inputs of the same names"
        require(alike, "datasets", rule, [sorted(part) for part in named])
        return {n: _tensors([part[n] for part in named]) for n in named[0]}
    return _tensors([part for part in inputs if isinstance(part, Tensor)])


def _tensors(parts: Sequence[Tensor]) -> Tensor:
    forms = [(part.dtype, tuple(part.shape[1:])) for part in parts]
    rule = "hold inputs of one type and shape (tepui.data.prepared_like brings images"
    require(len({*forms}) == 1, "datasets", f"{rule} to one form)", forms)
    return torch.cat([*parts])
