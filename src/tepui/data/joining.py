"""Several data sets as one: domains of one task, parts that came in several files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.checks import require
from tepui.data.arrays import Arrays, Inputs
from tepui.data.identity import samples_hash
from tepui.data.image_files import ImageFiles
from tepui.data.loading import as_arrays
from tepui.data.stored import StoredData, StoredRows
from tepui.data.table import Table

Held = Arrays | StoredData


def joined(datasets: Sequence[Dataset[Any]]) -> Held:
    """Return the samples of several data sets after each other, as one data set.

    Names of classes, normalization and bytes are kept: image files stay image files,
    data in memory stay in memory, everything else stays where it is and is read when it
    is asked for. Where sets with named classes number them differently, or hold
    different ones, labels are renumbered by the names; classes that the first set lacks
    come after its own.

    Args:
        datasets: ``Arrays``, a ``TensorDataset``, or data in files;
            :func:`tepui.data.to_arrays` makes ``Arrays`` of any other.

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
    parts = [_part(number, dataset) for number, dataset in enumerate(datasets)]
    for number, part in enumerate(parts):
        rule = f"be normalized as datasets[0] ({parts[0].normalize})"
        same = part.normalize == parts[0].normalize
        require(same, f"datasets[{number}]", rule, part.normalize)
        rule = "be standardized by the same rows as datasets[0]"
        same = _read_as(datasets[number]) == _read_as(datasets[0])
        require(same, f"datasets[{number}]", rule, "another table")
    classes = _classes(parts)
    renumbered = [_targets(n, part, classes) for n, part in enumerate(parts)]
    for number, labels in enumerate(renumbered):
        shape = tuple(renumbered[0].shape[1:])
        rule = f"have targets of shape {shape} per sample, as datasets[0]"
        same = tuple(labels.shape[1:]) == shape
        require(same, f"datasets[{number}]", rule, tuple(labels.shape[1:]))
    targets = torch.cat(renumbered)
    files = [part for part in parts if isinstance(part, ImageFiles)]
    if len(files) == len(parts) and len({(f.frame, f.gray) for f in files}) == 1:
        return ImageFiles(
            [file for part in files for file in part.files],
            targets,
            frame=files[0].frame,
            gray=files[0].gray,
            normalize=files[0].normalize,
            classes=classes,
        )
    arrays = [part for part in parts if isinstance(part, Arrays)]
    if len(arrays) == len(parts):
        inputs = _concatenated([part.inputs for part in arrays])
        return Arrays(inputs, targets, arrays[0].normalize, classes)
    return JoinedData(parts, targets, classes)


@final
class JoinedData(StoredRows):
    """Data sets after each other, of which some stay in storage; see :func:`joined`."""

    def __init__(
        self, parts: Sequence[Held], targets: Tensor, classes: tuple[str, ...]
    ) -> None:
        self.parts, self.targets, self.classes = tuple(parts), targets, classes
        self.normalize = parts[0].normalize
        self._rows = torch.arange(len(targets))

    def raw(self, index: Tensor) -> Inputs:
        """Read stored inputs, each from its own data set.

        Args:
            index: Positions of the samples.

        Returns:
            Their inputs as they are stored, on the CPU.
        """
        rows = self._rows[index.cpu()]
        taken: list[tuple[Tensor, Inputs]] = []
        start = 0
        for part in self.parts:
            places = ((rows >= start) & (rows < start + len(part))).nonzero()[:, 0]
            if len(places):
                taken.append((places, part.raw(rows[places] - start)))
            start += len(part)
        order = torch.cat([places for places, _ in taken]).argsort()
        inputs = _concatenated([inputs for _, inputs in taken])
        if isinstance(inputs, Tensor):
            return inputs[order]
        return {name: tensor[order] for name, tensor in inputs.items()}

    def identity(self) -> dict[str, Any]:
        """Return what tells the contents from others, part by part.

        Returns:
            What each part is known by, and a hash of the rows taken and their targets.
        """
        parts = [
            samples_hash(p.inputs, p.targets) if isinstance(p, Arrays) else p.identity()
            for p in self.parts
        ]
        return {"parts": parts, "rows": self._chosen()}

    def location(self) -> dict[str, Any]:
        """Return what tells the contents from others here and now, part by part.

        Returns:
            Where each part lies, and a hash of the rows taken and their targets.
        """
        parts = [
            samples_hash(p.inputs, p.targets) if isinstance(p, Arrays) else p.location()
            for p in self.parts
        ]
        return {"parts": parts, "rows": self._chosen()}

    def unreadable(self) -> dict[Path, str]:
        """Return which files of any part cannot be read.

        Returns:
            The reasons, by file.
        """
        stored = [part for part in self.parts if isinstance(part, StoredData)]
        return {file: why for p in stored for file, why in p.unreadable().items()}

    def _chosen(self) -> str:
        return samples_hash(self._rows, self.targets)


def _read_as(dataset: Dataset[Any]) -> object:
    """Return what gives the numbers of a table their meaning; None of other data."""
    if not isinstance(dataset, Table):
        return None
    return dataset.columns, dataset.scaling, dataset.units


def _part(number: int, dataset: Dataset[Any]) -> Held:
    if isinstance(dataset, StoredData):
        return dataset
    arrays = as_arrays(dataset)
    rule = "be Arrays or data in files (tepui.data.to_arrays makes Arrays)"
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
    rule = f"hold labels below {len(part.classes)}, the number of classes it names"
    labels = part.targets
    floats = labels.is_floating_point()
    got = labels.dtype if floats else int(labels.max())
    fits = not floats and int(labels.max()) < len(part.classes)
    require(fits, f"datasets[{number}]", rule, got)
    one_per_class = labels.ndim == 2 and labels.shape[1] == len(part.classes)
    rule = (
        f"name all classes in one order ({', '.join(classes)}), with a column for each "
        "in its targets: rows of 0 and 1 for several labels cannot be told from "
        "numbers of classes, and are not renumbered"
    )
    several = one_per_class and bool(((labels == 0) | (labels == 1)).all())
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
