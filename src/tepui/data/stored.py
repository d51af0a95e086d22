"""Data that stay in storage: rows are read when a batch needs them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor
from torch.utils.data import Dataset, Subset

from tepui.data.arrays import Inputs, Normalize, map_inputs, prepared


class StoredData(Dataset[tuple[Inputs, Tensor]], ABC):
    """A map-style data set whose inputs are too large to hold.

    Rows are read as they are stored, brought to the device, augmented there and only
    then prepared for a model, so that a batch is the same to the bit as one of the same
    data held in :class:`Arrays`. Targets are held.

    Attributes:
        targets: One target per sample.
        normalize: Applied to batches of images, as in :class:`Arrays`.
        classes: Names of the classes, where they have names.
    """

    targets: Tensor
    normalize: Normalize | None
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> tuple[Inputs, Tensor]:
        row = torch.arange(len(self))[index].reshape(1)  # refuses what lies outside
        inputs = self.prepare(self.raw(row))
        return map_inputs(lambda tensor: tensor[0], inputs), self.targets[index]

    @abstractmethod
    def raw(self, index: Tensor) -> Inputs:
        """Read stored inputs, neither augmented nor normalized.

        Args:
            index: Positions of the samples.

        Returns:
            Their inputs as they are stored, on the CPU.
        """

    @abstractmethod
    def subset(self, index: Tensor | Sequence[int]) -> Self:
        """Return some of the samples, without reading them.

        Args:
            index: Their positions.

        Returns:
            A new data set, in the order of ``index``.
        """

    @abstractmethod
    def identity(self) -> Mapping[str, Any]:
        """Return what tells the contents from others, for the record of a run.

        Returns:
            Values that JSON can hold.
        """

    def location(self) -> Mapping[str, Any]:
        """Return what tells the contents from others, without reading them.

        Returns:
            Values that JSON can hold: by default those of :meth:`identity`; of files
            that it would not tell apart, their places and times of change too.
        """
        return self.identity()

    def prepare(self, inputs: Inputs) -> Inputs:
        """Return stored inputs as a model sees them.

        Args:
            inputs: What :meth:`raw` returned, augmented or not.

        Returns:
            Images as normalized floats; dict inputs as they are.
        """
        return prepared(inputs, self.normalize)


def whole(dataset: Dataset[Any]) -> Dataset[Any]:
    """Return the data set that a subset, or a subset of one, was taken from."""
    while isinstance(dataset, Subset):
        dataset = dataset.dataset
    return dataset
