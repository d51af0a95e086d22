"""Features in the place of the data sets that a caller hands over, computed once."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.utils.data import Dataset

from tepui.data import Arrays
from tepui.evaluation.stored_logits import Cell
from tepui.modules.features import cached_features
from tepui.studies.given import GivenData
from tepui.studies.store import KEPT_BYTES


def extracted(data: GivenData, extractor: nn.Module, folder: Path) -> GivenData:
    """Return the features of all data; those of shifted data when asked for."""
    read = partial(cached_features, extractor, folder=folder)
    return GivenData(
        read(data.train),
        read(data.test),
        None if data.shifted is None else _Copies(read, data.shifted),
        {name: read(dataset) for name, dataset in data.ood.items()},
        None if data.unlabeled is None else read(data.unlabeled),
    )


class _Copies(Mapping[Cell, Arrays]):
    """Features of shifted data: on disk, and in memory as far as they fit."""

    def __init__(
        self, read: "partial[Arrays]", images: Mapping[Cell, Dataset[Any]]
    ) -> None:
        self._read, self._images = read, images
        self._kept: dict[Cell, Arrays] = {}
        self._room = KEPT_BYTES

    def __getitem__(self, cell: Cell) -> Arrays:
        if cell in self._kept:
            return self._kept[cell]
        features = self._read(self._images[cell])
        assert isinstance(features.inputs, Tensor)
        if features.inputs.nbytes <= self._room:
            self._room -= features.inputs.nbytes
            self._kept[cell] = features
        return features

    def __iter__(self) -> Iterator[Cell]:
        return iter(self._images)

    def __len__(self) -> int:
        return len(self._images)
