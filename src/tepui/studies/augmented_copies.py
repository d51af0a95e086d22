"""Augmented copies of data, for measures of what a network saw in training."""

from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.core.seeding import generator
from tepui.data import Arrays, Augmentation
from tepui.data.augment import augment
from tepui.studies.specifications import DataSource, DataStore

CHUNK = 1000


@final
@dataclass(frozen=True)
class Augmented(DataSource):
    """Other data with every image augmented once, the same way at every load."""

    of: DataSource  # images held in tensors
    augment: tuple[Augmentation, ...]  # what to apply, in order
    seed: int = 0  # same seed, same copy

    def __post_init__(self) -> None:
        require(len(self.augment) > 0, "augment", "hold at least one", self.augment)

    def load(self, store: DataStore) -> Arrays:
        """Return the copy, in the order of the data."""
        data = store.dataset(self.of)
        images = data.inputs if isinstance(data, Arrays) else None
        if not isinstance(data, Arrays) or not isinstance(images, Tensor):
            raise ValueError(
                f"of must give images held in tensors, got {type(data).__name__}"
            )
        columns = sum(augmentation.draws for augmentation in self.augment)
        stream = generator(self.seed, "augmented")
        uniform = torch.rand(len(data), columns, generator=stream).to(images.device)
        parts: list[Any] = [
            augment(some, self.augment, draws)
            for some, draws in zip(
                images.split(CHUNK), uniform.split(CHUNK), strict=True
            )
        ]
        return data.like(torch.cat(parts), data.targets)
