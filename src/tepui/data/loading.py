"""Batches from any map-style data set, in the order asked for.

A data set held in tensors is indexed where it lies, one that stays in storage is read
ahead, and any other goes through a ``DataLoader``. Random draws inside a data set's own
transforms are seeded per (key, sample), so that they depend on neither the order nor
the number of workers.
"""

import random
from collections.abc import Iterator, Mapping, Sequence, Sized
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
)

from tepui.core.checks import class_indices, require
from tepui.core.seeding import Key, derive
from tepui.data.arrays import Arrays, Batch, Inputs, map_inputs, prepared
from tepui.data.image_files import ImageFiles
from tepui.data.reading import brought, ignore_signals, read_ahead
from tepui.data.stored import StoredData

SHUFFLING = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)


class Indexed(Dataset[Any]):
    """A data set whose items carry their index and draw from per-sample seeds."""

    def __init__(self, dataset: Dataset[Any], key: tuple[Key, ...] | None) -> None:
        self.dataset = dataset
        self.key = key

    def __getitem__(self, index: int) -> tuple[Any, Any, int]:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[tuple[Any, Any, int]]:
        """Return several items at once; called by torch's loader."""
        if self.key is None:
            return [self._item(index) for index in indices]
        kept = random.getstate(), np.random.get_state(), torch.get_rng_state()
        try:
            return [self._seeded_item(index) for index in indices]
        finally:
            random.setstate(kept[0])
            np.random.set_state(kept[1])
            torch.set_rng_state(kept[2])

    def _seeded_item(self, index: int) -> tuple[Any, Any, int]:
        seed = derive(*(self.key or ()), index)
        random.seed(seed)
        np.random.seed(seed % 2**32)
        torch.default_generator.manual_seed(seed)
        return self._item(index)

    def _item(self, index: int) -> tuple[Any, Any, int]:
        item = self.dataset[index]
        if not isinstance(item, tuple | list) or len(item) != 2:
            got = f"{type(item).__name__} at index {index}{_instead(item)}"
            raise ValueError(f"dataset must yield pairs (x, y), got {got}")
        return item[0], item[1], index


def loaded(
    dataset: Dataset[Any],
    batches: Sequence[Sequence[int]],
    *,
    device: torch.device,
    workers: int = 0,
    key: tuple[Key, ...] | None = None,
    num_classes: int | None = None,
) -> Iterator[Batch]:
    """Yield the batches named by their indices, on ``device``."""
    loader = DataLoader(
        Indexed(dataset, key),
        batch_sampler=batches,  # type: ignore[arg-type]
        num_workers=workers,
        collate_fn=default_collate,
        pin_memory=device.type == "cuda",
        generator=torch.Generator().manual_seed(0),
        worker_init_fn=ignore_signals,
    )
    for inputs, targets, index in brought(loader):
        if num_classes is not None:
            class_indices(targets, num_classes)
        yield Batch(
            inputs_to(inputs, device),
            targets.to(device, non_blocking=True),
            index.to(device, non_blocking=True),
        )


def in_order(
    dataset: Dataset[Any],
    batch_size: int,
    *,
    device: torch.device,
    workers: int = 0,
    num_classes: int | None = None,
) -> Iterator[Batch]:
    """Yield a data set from first to last sample, as :func:`at_rows` does."""
    arrays = as_arrays(dataset)
    # Where the samples lie, since copying to a GPU blocks.
    place = None if arrays is None else arrays.device
    rows = torch.arange(length(dataset), device=place).split(batch_size)
    options: dict[str, Any] = {"workers": workers, "num_classes": num_classes}
    yield from at_rows(dataset, rows, device=device, **options)


def at_rows(
    dataset: Dataset[Any],
    rows: Sequence[Tensor],
    *,
    device: torch.device,
    workers: int = 0,
    num_classes: int | None = None,
) -> Iterator[Batch]:
    """Yield the batches at the given rows, as a model sees them.

    A data set's own random transforms draw the same numbers at every call.
    """
    arrays = as_arrays(dataset)
    if arrays is None and isinstance(dataset, StoredData):
        if num_classes is not None:
            class_indices(dataset.targets[torch.cat([*rows]).cpu()], num_classes)
        for batch in read_ahead(dataset, rows, device=device, workers=workers):
            yield batch._replace(inputs=dataset.prepare(batch.inputs))
        return
    if arrays is None:
        indices = [row.tolist() for row in rows]
        key = ("in order",)
        options: dict[str, Any] = {"workers": workers, "num_classes": num_classes}
        for batch in loaded(dataset, indices, device=device, key=key, **options):
            yield batch._replace(inputs=prepared(batch.inputs, None))
        return
    for row in rows:
        index = row.to(arrays.device)
        inputs = inputs_to(arrays.raw(index), device)
        targets = arrays.targets[index].to(device)
        yield Batch(arrays.prepare(inputs), targets, row.to(device))


def as_arrays(dataset: Dataset[Any]) -> Arrays | None:
    """Return a data set held in tensors as ``Arrays``, and None for any other."""
    if isinstance(dataset, Arrays):
        return dataset
    if isinstance(dataset, ImageFiles):
        return dataset.held
    if type(dataset) is TensorDataset and len(dataset.tensors) == 2:
        return Arrays(*dataset.tensors)
    return None


def targets_of(dataset: Dataset[Any]) -> Tensor | None:
    """Return all targets where they are held, and None for any other data set."""
    if isinstance(dataset, StoredData):  # without reading what files contain
        return dataset.targets
    arrays = as_arrays(dataset)
    return None if arrays is None else arrays.targets


def length(dataset: Dataset[Any], argument: str = "dataset") -> int:
    """Return the number of samples of a map-style data set."""
    others = (IterableDataset, str, bytes, Mapping, Tensor, np.ndarray)
    stream = isinstance(dataset, others) or not hasattr(dataset, "__getitem__")
    if stream or not isinstance(dataset, Sized):
        kind = type(dataset).__name__
        rule = "be map-style (with __len__ and __getitem__)"
        raise ValueError(f"{argument} must {rule}, got {kind}{_instead(dataset)}")
    num_samples = len(dataset)
    require(num_samples > 0, argument, "hold at least one sample", num_samples)
    return num_samples


def _instead(dataset: object) -> str:
    """Return what to give in the place of something that is no data set."""
    if isinstance(dataset, DataLoader):
        return "; give the data set that it loads (loader.dataset)"
    if isinstance(dataset, Tensor | np.ndarray):
        return "; tepui.data.Arrays(inputs, targets) makes a data set of two"
    if isinstance(dataset, IterableDataset | Iterator):
        return (
            "; a stream cannot go back to a sample: list(...) keeps all of its pairs, "
            "and docs/large_data.md has data on disk"
        )
    return ""


def inputs_to(inputs: Inputs, device: torch.device) -> Inputs:
    """Move a tensor, or every tensor of a mapping, to ``device``."""
    return map_inputs(lambda tensor: tensor.to(device, non_blocking=True), inputs)
