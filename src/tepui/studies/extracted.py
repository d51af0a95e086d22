"""Features in the place of a test's data, each computed once by a frozen extractor."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor
from torch.utils.data import Dataset

from tepui.data import Arrays
from tepui.data.class_names import class_names, class_subset
from tepui.data.corruptions.copies import KEPT_BYTES
from tepui.data.shifts import Cell, Shifts
from tepui.studies.given import Copies, GivenTest

Read = Callable[[Dataset[Any]], Arrays]


@dataclass(frozen=True, eq=False)
class Features(Arrays):
    """Features of a data set, with the classes that it holds."""

    class_subset: Tensor | None = None


def on_features(spec: GivenTest, read: Read) -> GivenTest:
    """Return the same test for heads; shifted data are read when needed."""
    shifts = Shifts.of(spec.shifted)
    natural = {name: _features(data, read) for name, data in shifts.natural.items()}
    return replace(
        spec,
        test=_features(spec.test, read),
        shifted=Shifts(_FeaturesOfCopies(read, shifts.copies), natural),
        ood={name: read(dataset) for name, dataset in spec.ood.items()},
    )


def _features(dataset: Dataset[Any], read: Read) -> Features:
    features = read(dataset)
    names, subset = class_names(dataset), class_subset(dataset)
    return Features(features.inputs, features.targets, None, names, subset)


class _FeaturesOfCopies(Mapping[Cell, Arrays]):
    """Features of shifted data: on disk, and in memory as far as they fit."""

    def __init__(self, read: Read, copies: Copies) -> None:
        self._read, self._copies = read, copies
        self._kept: dict[Cell, Arrays] = {}
        self._room = KEPT_BYTES

    def __getitem__(self, cell: Cell) -> Arrays:
        if cell in self._kept:
            return self._kept[cell]
        features = _features(self._copies[cell], self._read)
        assert isinstance(features.inputs, Tensor)
        if features.inputs.nbytes <= self._room:
            self._room -= features.inputs.nbytes
            self._kept[cell] = features
        return features

    def __iter__(self) -> Iterator[Cell]:
        return iter(self._copies)

    def __len__(self) -> int:
        return len(self._copies)
