"""Applying one function to many batches, on a GPU as captured graphs.

Small batches leave most of a GPU idle while the host launches hundreds of kernels for
every pass. A function that reads nothing back can be captured once and replayed for
every further batch of the same shape: the host then only copies the batch into the
graph's inputs. Several captures, each on its own stream, run in parallel.
"""

from collections.abc import Callable, Collection

import torch
from torch import Tensor

from tepui.core.warning import warn
from tepui.data.arrays import Batch, Inputs
from tepui.sharpness.selection import Selection

# Graphs side by side, and how many batches must await one to make up for its capture.
LANES = 3
BATCHES_PER_LANE = 8


def over_batches(
    measure: Callable[[Batch], Tensor], batches: Selection | Collection[Batch]
) -> Tensor:
    """Return a function's result for every batch.

    Example:
        >>> ones = Batch(torch.ones(2, 3), torch.zeros(2), torch.arange(2))
        >>> over_batches(lambda batch: batch.inputs.sum(), [ones, ones])
        tensor([6., 6.])
    """
    results: list[Tensor] = []
    lanes: list[_Lane] = []
    wanted = min(LANES, -(-(len(batches) - 1) // BATCHES_PER_LANE))
    for number, batch in enumerate(batches):
        on_cuda = batch.targets.is_cuda
        if on_cuda and number == 0:
            results.append(_warmed_up(measure, batch))
            continue
        if on_cuda and number == 1:
            lanes = _captured(measure, batch, wanted)
        lane = lanes[number % len(lanes)] if lanes else None
        if lane is not None and lane.fits(batch):
            results.append(lane(batch))
        else:
            results.append(measure(batch))
    for lane in lanes:
        lane.join()
    return torch.stack(results)


class _Lane:
    """A captured function of a batch, on a stream of its own."""

    def __init__(self, measure: Callable[[Batch], Tensor], batch: Batch) -> None:
        self._stream = torch.cuda.Stream()
        self._inputs = [tensor.clone() for tensor in _tensors(batch)]
        targets, index, *parts = self._inputs
        fixed = Batch(_like(batch.inputs, parts), targets, index)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, stream=self._stream):
            self._result = measure(fixed)

    def fits(self, batch: Batch) -> bool:
        """Return whether a batch has the captured shapes."""
        shapes = [tensor.shape for tensor in self._inputs]
        return shapes == [tensor.shape for tensor in _tensors(batch)]

    def __call__(self, batch: Batch) -> Tensor:
        """Queue the function for a batch; the result is ready after :meth:`join`."""
        current = torch.cuda.current_stream()
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            for fixed, new in zip(self._inputs, _tensors(batch), strict=True):
                fixed.copy_(new, non_blocking=True)
                new.record_stream(self._stream)
            self._graph.replay()
            result = self._result.clone()
        result.record_stream(current)
        return result

    def join(self) -> None:
        """Let the current stream wait for what is queued."""
        torch.cuda.current_stream().wait_stream(self._stream)


def _captured(
    measure: Callable[[Batch], Tensor], batch: Batch, lanes: int
) -> list[_Lane]:
    try:
        return [_Lane(measure, batch) for _ in range(lanes)]
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        warn(
            f"the model cannot be captured as a CUDA graph ({reason}): its passes are "
            "launched one by one, which is slower",
        )
        return []


def _warmed_up(measure: Callable[[Batch], Tensor], batch: Batch) -> Tensor:
    """Run on a side stream, as libraries must be set up before a capture."""
    current, stream = torch.cuda.current_stream(), torch.cuda.Stream()
    stream.wait_stream(current)
    with torch.cuda.stream(stream):
        result = measure(batch)
    current.wait_stream(stream)
    return result


def _tensors(batch: Batch) -> list[Tensor]:
    inputs = batch.inputs
    parts = [inputs] if isinstance(inputs, Tensor) else list(inputs.values())
    return [batch.targets, batch.index, *parts]


def _like(inputs: Inputs, tensors: list[Tensor]) -> Inputs:
    if isinstance(inputs, Tensor):
        return tensors[0]
    return dict(zip(inputs, tensors, strict=True))
