"""The same samples without their labels."""

from copy import copy
from typing import Any, final

import torch
from torch.utils.data import Dataset

from tepui.data.arrays import Arrays
from tepui.data.image_files import ImageFiles
from tepui.data.loading import length

NO_LABEL = -1


def unlabeled(dataset: Dataset[Any]) -> Dataset[Any]:
    """Return the same samples without labels (-1)."""
    none = torch.full((length(dataset),), NO_LABEL)
    if isinstance(dataset, Arrays):
        return Arrays(dataset.inputs, none, dataset.normalize)
    if isinstance(dataset, ImageFiles):
        files = copy(dataset)
        files.targets = none
        return files
    return _Unlabeled(dataset)


@final
class _Unlabeled(Dataset[Any]):
    """Samples of any data set, each without its label."""

    def __init__(self, dataset: Dataset[Any]) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return length(self.dataset)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self.dataset[index][0], NO_LABEL
