"""Batches from any map-style data set, in the order asked for, and parts of it.

A data set held in tensors is indexed where it lies, one that stays in storage is read
ahead, and any other goes through a ``DataLoader``. Random draws inside a data set's own
transforms are seeded per (key, sample), so that they depend on neither the order nor
the number of workers. :func:`to_arrays` reads any of them into tensors.
"""

import random
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
)

from tepui.core.checks import class_indices, require
from tepui.core.seeding import Key, derive, generator
from tepui.data.arrays import Arrays, Batch, Inputs, map_inputs, prepared
from tepui.data.arrays_on_disk import opened_array
from tepui.data.image_files import ImageFiles
from tepui.data.stored import StoredData

AHEAD = 2


def read_ahead(
    data: StoredData, rows: Sequence[Tensor], *, device: torch.device
) -> Iterator[Batch]:
    """Yield batches as they are stored, on ``device``, in the order asked for.

    A thread reads the next batches meanwhile, and the next one is on its way to a GPU.
    """
    index = [row.cpu() for row in rows]
    inputs = _by_thread(data.raw, index)
    targets = (data.targets[row] for row in index)
    yield from moved_ahead(map(Batch, inputs, targets, index), device)


def moved_ahead(batches: Iterable[Batch], device: torch.device) -> Iterator[Batch]:
    """Yield batches on a device; a GPU receives each while the one before is used."""
    if device.type != "cuda":
        yield from (_moved(batch, device) for batch in batches)
        return
    side, waiting = _side_stream(device), deque[tuple[Batch, torch.cuda.Event]]()
    for batch in batches:
        pinned = batch.mapped(Tensor.pin_memory)
        with torch.cuda.stream(side):
            waiting.append((_moved(pinned, device), side.record_event()))
        if len(waiting) > 1:
            yield _arrived(*waiting.popleft())
    while waiting:
        yield _arrived(*waiting.popleft())


def _by_thread(
    read: Callable[[Tensor], Inputs], rows: Iterable[Tensor]
) -> Iterator[Inputs]:
    pending: deque[Future[Inputs]] = deque()
    with ThreadPoolExecutor(1, "tepui-reading") as pool:
        try:
            for row in rows:
                pending.append(pool.submit(read, row))
                if len(pending) > AHEAD:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:  # also where nobody asks for the rest
            for future in pending:
                future.cancel()


def ignore_signals(_worker: int) -> None:
    """Leave signals to the main process, which stops its workers itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _moved(batch: Batch, device: torch.device) -> Batch:
    return batch.mapped(lambda tensor: tensor.to(device, non_blocking=True))


def _arrived(batch: Batch, event: torch.cuda.Event) -> Batch:
    """Let the current stream wait for a copy, and keep its memory until it is used."""
    current = torch.cuda.current_stream(batch.targets.device)
    current.wait_event(event)

    def used(tensor: Tensor) -> Tensor:
        tensor.record_stream(current)
        return tensor

    return batch.mapped(used)


@cache
def _side_stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


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
    """Yield the batches named by their indices, on ``device``.

    Workers end after an error, too: somebody may keep it, and with it all that it
    passed through, and workers that wait for more to read, deaf to signals, would keep
    Python from ending.
    """
    loader = DataLoader(
        Indexed(dataset, key),
        batch_sampler=batches,  # type: ignore[arg-type]
        num_workers=workers,
        collate_fn=default_collate,
        pin_memory=device.type == "cuda",
        generator=torch.Generator().manual_seed(0),
        worker_init_fn=ignore_signals,
    )
    loaded = iter(loader)
    try:
        for inputs, targets, index in loaded:
            if num_classes is not None:
                class_indices(targets, num_classes)
            yield Batch(
                inputs_to(inputs, device),
                targets.to(device, non_blocking=True),
                index.to(device, non_blocking=True),
            )
    finally:
        end = getattr(loaded, "_shutdown_workers", None)
        if end is not None:
            end()


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
        for batch in read_ahead(dataset, rows, device=device):
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
            "and docs/data.md has data on disk"
        )
    return ""


def inputs_to(inputs: Inputs, device: torch.device) -> Inputs:
    """Move a tensor, or every tensor of a mapping, to ``device``."""
    return map_inputs(lambda tensor: tensor.to(device, non_blocking=True), inputs)


def to_arrays(dataset: Dataset[Any]) -> Arrays:
    """Return a data set of ``(x, y)`` pairs as :class:`Arrays`.

    Args:
        dataset: ``Arrays`` come back as they are; a ``TensorDataset`` of two tensors
            is wrapped without a copy; a ``Subset`` of either is cut out of its
            tensors. Anything else map-style is read once and stacked.

    Returns:
        The samples as tensors, in their order.

    Raises:
        ValueError: If the data set has no length or no samples, or its items are not
            pairs that stack.

    Example:
        >>> import torch
        >>> pairs = [(torch.zeros(1, 8, 8), 3), (torch.ones(1, 8, 8), 5)]
        >>> to_arrays(pairs).targets
        tensor([3, 5])
    """
    arrays = as_arrays(dataset)
    if arrays is not None:
        return arrays
    if type(dataset) is Subset and _is_held(dataset.dataset):
        return to_arrays(dataset.dataset).subset(dataset.indices)
    return _stacked(dataset)


def _is_held(dataset: Dataset[Any]) -> bool:
    """Return whether a data set, or what it is a subset of, is held in tensors."""
    if type(dataset) is Subset:
        return _is_held(dataset.dataset)
    return as_arrays(dataset) is not None


def _stacked(dataset: Dataset[Any]) -> Arrays:
    rule = "dataset must hold pairs (x, y) of tensors that stack"
    items = [dataset[index] for index in range(length(dataset))]
    try:
        inputs, targets = default_collate(items)
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"{rule}: {error}") from error
    parts = [*inputs.values()] if isinstance(inputs, Mapping) else [inputs]
    for part in (*parts, targets):
        if not isinstance(part, Tensor):
            raise ValueError(f"{rule}, got {type(part).__name__}")
    return Arrays(inputs, targets)


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
        held_out = torch.from_numpy(np.array(opened_array(Path(held_out))))
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
