"""Metrics of what is too large to hold: chunks go in, sums or short vectors stay.

Every function that reduces logits to a few numbers has a class of the same name with
``update``, ``compute`` and ``reset``. The function is its class used once, so both
agree, up to rounding, however the samples are cut into chunks.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.metrics.chunks import _check, _Chunk, _chunks, _dtype

_Value = TypeVar("_Value", bound=Tensor | tuple[Tensor, ...])
State = tuple[Tensor, ...]


class Streaming(ABC, Generic[_Value]):
    """A metric of data that come in chunks.

    Attributes:
        num_states: How many tensors it keeps.
        joined: Whether they grow with the samples (chunks are concatenated) or not
            (chunks are added).
    """

    num_states: int
    joined: bool = False

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all chunks."""
        self._states: list[State] = []
        self._dtype = torch.float32

    def compute(self) -> _Value:
        """Return the metric of all samples seen since the last reset.

        Returns:
            What the function of the same name returns for them.

        Raises:
            ValueError: If there was no update.
        """
        return self._result(stacklevel=3)

    def state(self) -> State:
        """Return the tensors that are kept: one set for all chunks together."""
        require(bool(self._states), "update", "come before compute", "no update")
        if len(self._states) > 1:
            columns = zip(*self._states, strict=True)
            self._states = [tuple(torch.cat(column) for column in columns)]
        return self._states[0]

    @abstractmethod
    def _value(self, *state: Tensor) -> _Value:
        """Return the metric of everything seen, floating numbers in any type."""

    def _keep(self, state: State) -> None:
        if self._states and not self.joined:
            pairs = zip(self._states[0], state, strict=True)
            self._states = [tuple(known + new for known, new in pairs)]
        else:
            self._states.append(state)

    def _seen(self, values: Tensor) -> None:
        self._dtype = torch.promote_types(self._dtype, _dtype(values))

    def _result(self, stacklevel: int) -> _Value:
        value = self._value(*self.state())
        self._warn(value, stacklevel + 1)
        answer: _Value = _in_type(value, self._dtype)
        return answer

    def _warn(self, value: _Value, stacklevel: int) -> None:
        """Warn of a value that is not defined."""


class LogitsStreaming(Streaming[_Value]):
    """A metric of logits, and mostly of labels, that come in chunks.

    Attributes:
        labeled: Whether it needs labels.
        min_members: The fewest members it can work with.
    """

    labeled: ClassVar[bool] = True
    min_members: ClassVar[int] = 1

    def reset(self) -> None:
        """Forget all chunks."""
        super().reset()
        self._shape: tuple[int, int] | None = None

    def update(self, logits: Tensor, labels: Tensor | None = None) -> None:
        """Take in some samples.

        Args:
            logits: Logits of shape ``(members, samples, classes)``; members and classes
                are those of earlier updates.
            labels: Class indices of shape ``(samples,)``; not read where the metric
                needs none.

        Raises:
            ValueError: If logits or labels break their rules; nothing is kept then.
        """
        Collection(stream=self).update(logits, labels)

    @abstractmethod
    def _statistics(self, chunk: _Chunk) -> State:
        """Return what one chunk adds to the state."""

    def _check_shape(self, logits: Tensor) -> None:
        shape = logits.shape[0], logits.shape[2]
        if self._shape not in (None, shape):
            require(
                False,
                "logits",
                f"keep the (members, classes) of earlier updates, {self._shape}",
                shape,
            )

    def _begin(self, logits: Tensor) -> None:
        self._shape = logits.shape[0], logits.shape[2]
        self._seen(logits)

    def _of(self, logits: Tensor, labels: Tensor | None = None) -> _Value:
        self.update(logits, labels)
        return self._result(stacklevel=4)


class Collection:
    """Several metrics of the same logits, which share one pass and one softmax.

    Args:
        streams: The metrics by name.

    Example:
        >>> from tepui.metrics import ECE, NLL, Disagreement
        >>> metrics = Collection(ece=ECE(), nll=NLL(), disagreement=Disagreement())
        >>> for _ in range(3):
        ...     metrics.update(torch.randn(2, 10, 4), torch.arange(10) % 4)
        >>> sorted(metrics.compute())
        ['disagreement', 'ece', 'nll']
    """

    def __init__(self, **streams: LogitsStreaming[Any]) -> None:
        require(bool(streams), "streams", "hold at least one metric", streams)
        self.streams: Mapping[str, LogitsStreaming[Any]] = streams

    def update(self, logits: Tensor, labels: Tensor | None = None) -> None:
        """Take in some samples, for all metrics.

        Args:
            logits: Logits of shape ``(members, samples, classes)``.
            labels: Class indices of shape ``(samples,)``.

        Raises:
            ValueError: If logits or labels break a metric's rules; nothing is kept
                then.
        """
        streams = self.streams.values()
        labeled = any(stream.labeled for stream in streams)
        members = max(stream.min_members for stream in streams)
        require(labels is not None or not labeled, "labels", "be given", None)
        _check(logits, labels if labeled else None, min_members=members)
        for stream in streams:
            stream._check_shape(logits)
        for stream in streams:
            stream._begin(logits)
        for chunk in _chunks(logits, labels if labeled else None):
            for stream in streams:
                stream._keep(stream._statistics(chunk))

    def compute(self) -> dict[str, Any]:
        """Return every metric of all samples seen since the last reset.

        Returns:
            Values by name.

        Raises:
            ValueError: If there was no update.
        """
        return {
            name: stream._result(stacklevel=4) for name, stream in self.streams.items()
        }

    def reset(self) -> None:
        """Forget all chunks."""
        for stream in self.streams.values():
            stream.reset()


def _in_type(value: Any, dtype: torch.dtype) -> Any:
    """Return floating tensors, alone or in a named tuple, in the type asked for."""
    if not isinstance(value, Tensor):
        return type(value)(*(_in_type(each, dtype) for each in value))
    return value.to(dtype) if value.is_floating_point() else value


def _count(chunk: _Chunk) -> Tensor:
    """Return the number of samples, as a tensor where the chunk lies."""
    logits = chunk.logits
    return logits.new_full((), logits.shape[1], dtype=torch.int64)
