"""Batches of data that stay in storage, read ahead of the steps that need them."""

import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from tepui.data.arrays import Batch, Inputs
from tepui.data.stored import StoredData

AHEAD = 2


class _Rows(Dataset[Any]):
    """What a worker reads: whole batches, each in one call."""

    def __init__(self, data: StoredData) -> None:
        self.data = data

    def __getitems__(self, rows: Sequence[int]) -> Inputs | ValueError:
        """Return the stored inputs of a batch; called by torch's loader.

        An error comes back as a value: torch would wrap it into a traceback.
        """
        try:
            return self.data.raw(torch.as_tensor(rows))
        except ValueError as error:
            return error


def read_ahead(
    data: StoredData, rows: Sequence[Tensor], *, device: torch.device, workers: int = 0
) -> Iterator[Batch]:
    """Yield batches as they are stored, on ``device``, in the order asked for.

    The next batches are read meanwhile, by a thread or by ``workers`` processes, and
    the next one is on its way to a GPU.
    """
    index = [row.cpu() for row in rows]
    inputs = (
        _by_workers(data, index, workers) if workers else _by_thread(data.raw, index)
    )
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


def _by_workers(
    data: StoredData, rows: Sequence[Tensor], workers: int
) -> Iterator[Inputs]:
    loader = DataLoader(
        _Rows(data),
        batch_sampler=[row.tolist() for row in rows],
        num_workers=workers,
        collate_fn=_as_it_is,  # type: ignore[arg-type]
        generator=torch.Generator().manual_seed(0),
        worker_init_fn=ignore_signals,
    )
    for inputs in brought(loader):
        if isinstance(inputs, ValueError):
            raise inputs
        yield inputs


def brought(loader: DataLoader[Any]) -> Iterator[Any]:
    """Yield what a loader brings, and end its workers then, after an error too.

    Somebody may keep the error, and with it all that it passed through: workers that
    wait for more to read, and are deaf to signals, would keep Python from ending.
    """
    batches = iter(loader)
    try:
        yield from batches
    finally:
        end = getattr(batches, "_shutdown_workers", None)
        if end is not None:
            end()


def ignore_signals(_worker: int) -> None:
    """Leave signals to the main process, which stops its workers itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _as_it_is(inputs: Inputs) -> Inputs:
    return inputs


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
