"""Features in the place of a test's data, each computed once by a frozen extractor."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.utils.data import Dataset

from tepui.core.storage import read_tensors
from tepui.data import Arrays
from tepui.data.corruptions.copies import KEPT_BYTES
from tepui.data.labels import class_names, class_subset
from tepui.data.loading import length
from tepui.data.shifts import Cell, Shifts
from tepui.modules.features import Reading, cached_features, features_file
from tepui.studies.in_memory import Copies, GivenTest
from tepui.training.progress import Style, counting


@dataclass(frozen=True)
class FeatureCache:
    """Where a frozen extractor's features of all data sets are kept."""

    extractor: nn.Module
    folder: Path
    progress: Style = "none"

    def read(self, dataset: Dataset[Any]) -> Arrays:
        """Return the features of a data set, showing how far they are."""
        title = f"features of {length(dataset)} samples"
        with counting(self.progress, title, length(dataset)) as advance:
            return cached_features(
                self.extractor, dataset, self.folder, advance=advance
            )

    def file(self, dataset: Dataset[Any]) -> Path:
        """Return the file that holds them."""
        file, _ = features_file(self.extractor, dataset, self.folder, Reading())
        return file


@dataclass(frozen=True, eq=False)
class Features(Arrays):
    """Features of a data set, with the classes that it holds."""

    class_subset: Tensor | None = None


def on_features(spec: GivenTest, cache: FeatureCache) -> GivenTest:
    """Return the same test for heads; shifted data are read when needed."""
    shifts = Shifts.of(spec.shifted)
    natural = {name: _features(data, cache) for name, data in shifts.natural.items()}
    return replace(
        spec,
        test=_features(spec.test, cache),
        shifted=Shifts(_FeaturesOfCopies(cache, shifts.copies), natural),
        ood={name: cache.read(dataset) for name, dataset in spec.ood.items()},
    )


def _features(dataset: Dataset[Any], cache: FeatureCache) -> Features:
    features = cache.read(dataset)
    names, subset = class_names(dataset), class_subset(dataset)
    return Features(features.inputs, features.targets, None, names, subset)


class _FeaturesOfCopies(Mapping[Cell, Arrays]):
    """Features of shifted data: on disk, and in memory as far as they fit.

    A copy of the images is made once, whether it stays in memory or not.
    """

    def __init__(self, cache: FeatureCache, copies: Copies) -> None:
        self._cache, self._copies = cache, copies
        self._kept: dict[Cell, Features] = {}
        self._files: dict[Cell, tuple[Path, Features]] = {}
        self._room = KEPT_BYTES

    def __getitem__(self, cell: Cell) -> Features:
        if cell in self._kept:
            return self._kept[cell]
        if cell in self._files:
            return _read_again(*self._files[cell])
        copy = self._copies[cell]
        features = _features(copy, self._cache)
        assert isinstance(features.inputs, Tensor)
        if features.inputs.nbytes <= self._room:
            self._room -= features.inputs.nbytes
            self._kept[cell] = features
        else:
            first = features.inputs[:1].clone(), features.targets[:1].clone()
            few = replace(features, inputs=first[0], targets=first[1])
            self._files[cell] = self._cache.file(copy), few
        return features

    def __iter__(self) -> Iterator[Cell]:
        return iter(self._copies)

    def __len__(self) -> int:
        return len(self._copies)


def _read_again(file: Path, like: Features) -> Features:
    tensors, _ = read_tensors(file, "features")
    return replace(like, inputs=tensors["features"], targets=tensors["targets"])
