"""Metrics of data that are too large to hold: chunks go in, sums or vectors are kept.

Every function that reduces logits to a few numbers has a class of the same name with
``update``, ``compute`` and ``reset``. The function is its class used once, so both
agree, up to rounding, however the samples are cut into chunks.

Metrics of numbers meet targets of shape ``(samples, …)``: one number per sample, or
several, which all count alike. What members say of them has a further axis in front,
``(members, samples, …)``.

A metric of your own derives from :class:`SampleMean` if it is a mean over samples, and
from :class:`LogitsStreaming` otherwise.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar, get_args

import torch
from torch import Tensor

from tepui.core.checks import have_values, one_of, require
from tepui.core.warning import warn
from tepui.metrics.chunks import (
    Chunk,
    Rule,
    check_finite,
    check_logits,
    chunks_of,
    dtype_of,
    wide,
)

Value = TypeVar("Value", bound=Tensor | tuple[Tensor, ...])

State = tuple[Tensor, ...]
"""What a streaming metric keeps of the samples it has seen."""


class Streaming(ABC, Generic[Value]):
    """A metric of data that come in chunks.

    Attributes:
        num_states: How many tensors it keeps.
        joined: Whether they grow with the samples (chunks are concatenated) or not
            (chunks are added).
        undefined: What a warning says where the value is NaN, if that can be.
    """

    num_states: int
    joined: bool = False
    undefined: ClassVar[str | None] = None

    def __init__(self) -> None:
        self._states: list[State] = []
        self._dtype = torch.float32
        self.reset()

    @abstractmethod
    def update(self, *args: Any, **kwargs: Any) -> None:
        """Take in some samples."""

    @abstractmethod
    def value(self, *state: Tensor) -> Value:
        """Return the metric of everything that was kept.

        Args:
            state: The tensors that are kept, of all chunks together.

        Returns:
            A tensor or a named tuple of tensors, floating numbers in any type.
        """

    def keep(self, state: State, *sources: Tensor) -> None:
        """Add what some samples contribute.

        Args:
            state: As many tensors as ``num_states``.
            sources: What they derive from; the value has the widest type among all.
        """
        for source in sources:
            self._dtype = torch.promote_types(self._dtype, dtype_of(source))
        if self._states and not self.joined:
            pairs = zip(self._states[0], state, strict=True)
            self._states = [tuple(total + new for total, new in pairs)]
        else:
            self._states.append(state)

    def state(self) -> State:
        """Return the tensors that are kept: one set for all chunks together."""
        require(bool(self._states), "update", "come before compute", "no update")
        if len(self._states) > 1:
            columns = zip(*self._states, strict=True)
            self._states = [tuple(torch.cat(column) for column in columns)]
        return self._states[0]

    def compute(self) -> Value:
        """Return the metric of all samples seen since the last reset.

        Returns:
            What the function of the same name returns for them.

        Raises:
            ValueError: If there was no update.
        """
        value = self.value(*self.state())
        if self.undefined and isinstance(value, Tensor) and value.isnan().any():
            warn(self.undefined)
        answer: Value = _in_type(value, self._dtype)
        return answer

    def once(self, *data: Tensor | None) -> Value:
        """Return the metric of some samples alone; all others are forgotten.

        Args:
            data: What ``update`` takes.

        Returns:
            What the function of the same name returns.
        """
        self.reset()
        self.update(*data)
        return self.compute()

    def reset(self) -> None:
        """Forget all chunks."""
        self._states = []
        self._dtype = torch.float32


class LogitsStreaming(Streaming[Value]):
    """A metric of logits, and mostly of labels, that come in chunks.

    Attributes:
        labeled: Whether it needs labels.
        min_members: The fewest members it can work with.

    Example:
        >>> class WorstMember(LogitsStreaming[Tensor]):
        ...     num_states = 2  # number of samples, errors of each member
        ...
        ...     def statistics(self, chunk):
        ...         return chunk.num_samples, chunk.member_errors
        ...
        ...     def value(self, *state):
        ...         num_samples, errors = state
        ...         return errors.max() / num_samples
        >>> metric = WorstMember()
        >>> for _ in range(3):
        ...     metric.update(torch.eye(4).expand(2, 4, 4), torch.tensor([0, 1, 2, 0]))
        >>> metric.compute()
        tensor(0.2500)
    """

    labeled: ClassVar[bool] = True
    min_members: ClassVar[int] = 1

    @abstractmethod
    def statistics(self, chunk: Chunk) -> State:
        """Return what some samples add to the state.

        Args:
            chunk: Their logits and labels, and what derives from these.

        Returns:
            As many tensors as ``num_states``.
        """

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

    def reset(self) -> None:
        """Forget all chunks."""
        super().reset()
        self._shape: tuple[int, int] | None = None

    def _check_shape(self, logits: Tensor) -> None:
        shape = logits.shape[0], logits.shape[2]
        rule = f"keep the (members, classes) of earlier updates, {self._shape}"
        require(self._shape in (None, shape), "logits", rule, shape)


class SampleMean(LogitsStreaming[Tensor]):
    """A metric that is a mean over samples.

    Example:
        >>> class Margin(SampleMean):
        ...     labeled = False
        ...
        ...     def per_sample(self, chunk):
        ...         first, second = chunk.ensemble_probs("probability").topk(2)[0].T
        ...         return first - second
        >>> metric = Margin()
        >>> metric.update(torch.tensor([[[0.0, 0.0], [99.0, 0.0]]]))
        >>> metric.compute()
        tensor(0.5000)
    """

    num_states = 2

    @abstractmethod
    def per_sample(self, chunk: Chunk) -> Tensor:
        """Return what is averaged, samples on the last axis.

        Args:
            chunk: Logits and labels of some samples, and what derives from these.

        Returns:
            Shape ``(samples,)``, or ``(members, samples)`` for one mean per member.
        """

    def statistics(self, chunk: Chunk) -> State:
        """Return number of samples and sum, exact for whole numbers and truth values.

        Args:
            chunk: Logits and labels of some samples, and what derives from these.

        Returns:
            Both numbers.
        """
        values = self.per_sample(chunk)
        summed = wide(values) if values.is_floating_point() else values
        return chunk.num_samples, summed.sum(-1)

    def value(self, *state: Tensor) -> Tensor:
        """Return the mean.

        Args:
            state: Number of samples and sum.

        Returns:
            Their ratio.
        """
        num_samples, total = state
        return wide(total) / num_samples


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
        check_logits(logits, labels if labeled else None, min_members=members)
        for stream in streams:
            stream._check_shape(logits)
        for stream in streams:
            stream._shape = logits.shape[0], logits.shape[2]
        for chunk in chunks_of(logits, labels if labeled else None):
            for stream in streams:
                stream.keep(stream.statistics(chunk), logits)

    def compute(self) -> dict[str, Any]:
        """Return every metric of all samples seen since the last reset.

        Returns:
            Values by name.

        Raises:
            ValueError: If there was no update.
        """
        return {name: stream.compute() for name, stream in self.streams.items()}

    def reset(self) -> None:
        """Forget all chunks."""
        for stream in self.streams.values():
            stream.reset()


class WithRule:
    """The option of metrics that depend on how members are combined."""

    def __init__(self, *, rule: Rule = "probability") -> None:
        one_of("rule", rule, get_args(Rule))
        super().__init__()
        self.rule = rule


def _in_type(value: Any, dtype: torch.dtype) -> Any:
    """Return floating tensors, alone or in a named tuple, in the type asked for."""
    if not isinstance(value, Tensor):
        return type(value)(*(_in_type(item, dtype) for item in value))
    return value.to(dtype) if value.is_floating_point() else value


class TargetMean(Streaming[Tensor]):
    """A metric that is a mean over all numbers to be predicted."""

    num_states = 2

    def add(self, values: Tensor, *sources: Tensor) -> None:
        """Add some values, given what they derive from."""
        summed = wide(values) if values.is_floating_point() else values
        count = values.new_full((), values.numel(), dtype=torch.int64)
        self.keep((count, summed.sum()), *sources)

    def value(self, *state: Tensor) -> Tensor:
        """Return the mean."""
        count, total = state
        return wide(total) / count


def member_tensors(targets: Tensor, **outputs: Tensor) -> tuple[Tensor, ...]:
    """Return what members say, then the targets, checked and in one type."""
    members = next(iter(outputs.values())).shape[:1]
    return joint_tensors(members, **outputs, targets=targets)


def joint_tensors(
    lead: Sequence[int] = (), trail: Sequence[int] = (), /, **tensors: Tensor
) -> tuple[Tensor, ...]:
    """Return tensors in the shape of the last one, checked and in one type.

    Args:
        lead: Axes that all but the last have in front.
        trail: Axes that they have behind.
        tensors: The tensors by name.
    """
    *_, (last, model) = tensors.items()
    check_numbers(last, model)
    wanted = (*lead, *model.shape, *trail)
    for name, values in [*tensors.items()][:-1]:
        rule = f"have shape {wanted}, to go with {last}"
        require(tuple(values.shape) == wanted, name, rule, tuple(values.shape))
        check_numbers(name, values)
    return in_one_type(*tensors.values())


def check_numbers(name: str, values: Tensor) -> None:
    """Check that values are ``(samples, …)``, floating and finite."""
    shape = tuple(values.shape)
    require(values.ndim > 0, name, "have shape (samples, …)", shape)
    require(values.is_floating_point(), name, "be floating point", values.dtype)
    require(values.numel() > 0, name, "hold at least one sample", shape)
    check_finite(name, values)


def check_variances(variances: Tensor) -> None:
    """Check that variances are positive."""
    if have_values():
        least = float(variances.detach().min())
        require(least > 0, "variances", "be positive", least)


def check_levels(levels: Sequence[float]) -> Tensor:
    """Return the levels of quantiles, which must lie between 0 and 1, in float64."""
    require(len(levels) > 0, "levels", "hold at least one", tuple(levels))
    inside = all(0 < level < 1 for level in levels)
    require(inside, "levels", "lie in (0, 1)", tuple(levels))
    return torch.tensor([*levels], dtype=torch.float64, device="cpu")


def in_one_type(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Return tensors without gradient, in the widest type among them."""
    dtype = torch.float32
    for tensor in tensors:
        dtype = torch.promote_types(dtype, dtype_of(tensor))
    return tuple(tensor.detach().to(dtype) for tensor in tensors)
