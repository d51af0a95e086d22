"""Labels of other classes than a run learned, which say nothing of its predictions."""

from copy import copy
from typing import Any, final

import torch
from torch.utils.data import Dataset

from tepui.core.task import CLASSIFICATION, Task
from tepui.data import Arrays, ImageFiles
from tepui.data.class_names import class_names
from tepui.data.loading import length, targets_of
from tepui.data.preparation import NO_LABEL


def foreign_classes(
    dataset: Dataset[Any], classes: tuple[str, ...], task: Task | None
) -> bool:
    """Return whether labels of a data set number other classes than an ensemble's.

    Data without names of classes, and labels of other tasks, are not told apart.
    """
    names, targets = class_names(dataset), targets_of(dataset)
    of_samples = targets is None or targets.ndim == 1
    choice = task in (None, CLASSIFICATION) and of_samples
    return choice and bool(names and classes) and names != classes


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
