"""Applying one function to many batches, on a GPU as one captured graph.

Small batches leave a GPU waiting for the host, which launches hundreds of kernels for
every pass. A function that reads nothing back can be captured once, with all its
passes, and replayed for every further batch of the same shape: the host then only
copies the batch into the graph's inputs.
"""

import warnings
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from tepui.data.arrays import Batch, Inputs


def over_batches(
    measure: Callable[[Batch], Tensor], batches: Iterable[Batch]
) -> Tensor:
    """Return what a function says of every batch.

    Args:
        measure: Maps a batch to a tensor of fixed shape; on CUDA it must not read
            values back to the host nor draw random numbers.
        batches: On one device.

    Returns:
        The results, stacked along a new first axis.

    Example:
        >>> ones = Batch(torch.ones(2, 3), torch.zeros(2), torch.arange(2))
        >>> over_batches(lambda batch: batch.inputs.sum(), [ones, ones])
        tensor([6., 6.])
    """
    results: list[Tensor] = []
    replayed: _Replayed | None = None
    for number, batch in enumerate(batches):
        if batch.targets.is_cuda and number == 1:
            replayed = _captured(measure, batch)
        if replayed is not None and replayed.fits(batch):
            results.append(replayed(batch))
        elif batch.targets.is_cuda and number == 0:
            results.append(_warmed_up(measure, batch))
        else:
            results.append(measure(batch))
    return torch.stack(results)


class _Replayed:
    """A captured function of a batch.

    Args:
        measure: The function.
        batch: Gives the shapes.
    """

    def __init__(self, measure: Callable[[Batch], Tensor], batch: Batch) -> None:
        self._inputs = [tensor.clone() for tensor in _tensors(batch)]
        fixed = Batch(
            _like(batch.inputs, self._inputs[2:]), self._inputs[0], self._inputs[1]
        )
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._result = measure(fixed)

    def fits(self, batch: Batch) -> bool:
        """Return whether a batch has the captured shapes."""
        mine = [tensor.shape for tensor in self._inputs]
        return mine == [tensor.shape for tensor in _tensors(batch)]

    def __call__(self, batch: Batch) -> Tensor:
        """Queue the function for a batch."""
        for fixed, new in zip(self._inputs, _tensors(batch), strict=True):
            fixed.copy_(new, non_blocking=True)
        self._graph.replay()
        return self._result.clone()


def _captured(measure: Callable[[Batch], Tensor], batch: Batch) -> _Replayed | None:
    try:
        return _Replayed(measure, batch)
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        warnings.warn(
            f"the model cannot be captured as a CUDA graph ({reason}): its passes are "
            "launched one by one, which is slower",
            stacklevel=4,
        )
        return None


def _warmed_up(measure: Callable[[Batch], Tensor], batch: Batch) -> Tensor:
    """Run on a side stream, as libraries must be set up before a capture."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        result = measure(batch)
    torch.cuda.current_stream().wait_stream(stream)
    return result


def _tensors(batch: Batch) -> list[Tensor]:
    inputs = batch.inputs
    parts = [inputs] if isinstance(inputs, Tensor) else list(inputs.values())
    return [batch.targets, batch.index, *parts]


def _like(inputs: Inputs, tensors: list[Tensor]) -> Inputs:
    if isinstance(inputs, Tensor):
        return tensors[0]
    return dict(zip(inputs, tensors, strict=True))
