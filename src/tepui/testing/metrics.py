"""What every metric promises, whatever it measures."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from tepui.core.seeding import generator
from tepui.metrics import LogitsStreaming
from tepui.testing.expecting import Subject, name_of

Metric = Callable[[Tensor, Tensor], Any]
MEMBERS, SAMPLES, CLASSES = 3, 23, 4


def check_metric(
    metric: Metric,
    *,
    axes: str = "",
    min_members: int = 1,
    members_in_any_order: bool = True,
    samples_in_any_order: bool = True,
    may_be_nan: bool = False,
    stream: Callable[[], LogitsStreaming[Any]] | None = None,
    device: str = "cpu",
) -> None:
    """Check that a metric does what every metric of tepui does.

    It returns numbers of the shape it says, has no effect on its arguments, on
    gradients or on global generators, gives the same again, works on logits in 16 bits
    as on float32, keeps float64, asks for nothing on torch's default device, and
    depends on neither the order of members and samples nor the layout of memory.

    Args:
        metric: A function of logits ``(members, samples, classes)`` and labels
            ``(samples,)`` that returns a number, a tensor or a tuple of tensors.
        axes: One letter for each axis of what it returns: ``m`` members, ``s``
            samples, ``c`` classes, any other letter for one of its own; empty for a
            scalar, which is what :func:`tepui.evaluate` takes.
        min_members: How many members it needs.
        members_in_any_order: Whether the order of members does not matter.
        samples_in_any_order: Whether the order of samples does not matter.
        may_be_nan: Whether some of its values may be undefined.
        stream: Makes its streaming twin, which must agree however samples are cut.
        device: Where logits and labels lie.

    Raises:
        AssertionError: If it does not; the message names metric, rule and what was
            seen.

    Example:
        >>> from tepui.metrics import NLL, nll
        >>> check_metric(nll, stream=NLL)
        >>> check_metric(lambda logits, labels: logits.argmax(-1))
        Traceback (most recent call last):
        AssertionError: <lambda> must return axes '', here (), got shape (1, 1)
    """
    checked = _Checked(name_of(metric), metric, axes, torch.device(device))
    checked.must_take("metric(logits, labels)", metric, *checked.example())
    _check_shape(checked, min_members, may_be_nan)
    _check_traces(checked)
    _check_types(checked)
    _check_default_device(checked)
    _check_order(checked, members_in_any_order, samples_in_any_order)
    if stream is not None:
        _check_stream(checked, stream)


@dataclass(frozen=True)
class _Checked(Subject):
    """A metric, and how to call it."""

    metric: Metric
    axes: str
    device: torch.device

    def __call__(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
        """Return the values as tensors."""
        result = self.metric(logits, labels)
        if isinstance(result, Real):
            return (torch.tensor(float(result), device=self.device),)
        values = result if isinstance(result, tuple) else (result,)
        tensors = bool(values) and all(isinstance(value, Tensor) for value in values)
        kinds = [type(value).__name__ for value in values]
        self.must("return a number, a tensor or a tuple of them", tensors, kinds)
        return values

    def example(
        self, classes: int = CLASSES, dtype: torch.dtype = torch.float32
    ) -> tuple[Tensor, Tensor]:
        """Return logits, and labels half of which the ensemble predicts."""
        stream = generator("testing", classes)
        shape = MEMBERS, SAMPLES, classes
        logits = 2 * torch.randn(shape, generator=stream, dtype=torch.float64)
        labels = torch.randint(classes, (SAMPLES,), generator=stream)
        drawn = torch.arange(SAMPLES) % 2 == 0
        labels = labels.where(drawn, logits.mean(0).argmax(-1))
        return logits.to(self.device, dtype), labels.to(self.device)


def _check_shape(checked: _Checked, min_members: int, may_be_nan: bool) -> None:
    for classes, members, samples in product(
        (2, CLASSES), {min_members, MEMBERS}, (1, SAMPLES)
    ):
        logits = checked.example(classes)[0][:members, :samples]
        # The first member errs everywhere, so that no ratio divides by zero.
        labels = 1 - logits[0].argmax(-1).clamp(max=1)
        sizes = {"m": members, "s": samples, "c": classes}
        for value in checked(logits, labels):
            _check_axes(checked, value, sizes)
            defined = may_be_nan or bool(value.isfinite().all())
            seen = f"{value} for logits of shape {tuple(logits.shape)}"
            checked.must("be finite", defined, seen)


def _check_axes(checked: _Checked, value: Tensor, sizes: dict[str, int]) -> None:
    shape = tuple(value.shape)
    expected = tuple(sizes.get(letter, "any") for letter in checked.axes)
    fits = len(shape) == len(expected) and all(
        want in ("any", size) for want, size in zip(expected, shape, strict=True)
    )
    rule = f"return axes {checked.axes!r}, here {expected}"
    checked.must(rule, fits, f"shape {shape}")


def _check_types(checked: _Checked) -> None:
    for given in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        wanted = torch.float64 if given == torch.float64 else torch.float32
        logits, labels = checked.example(dtype=given)
        values = checked(logits, labels)
        kinds = [value.dtype for value in values if value.is_floating_point()]
        python = isinstance(checked.metric(logits, labels), Real)
        fits = python or all(kind == wanted for kind in kinds)
        checked.must(f"answer {given} with {wanted}", fits, kinds)
        if given.itemsize == 2:
            wide = checked(logits.float(), labels)
            checked.must_agree(f"compute {given} as it does float32", values, wide)
    logits, labels = checked.example()
    narrow = [value.double() for value in checked(logits, labels)]
    wide = tuple(value.double() for value in checked(logits.double(), labels))
    checked.must_agree("agree in float32 and float64", narrow, wide, rtol=1e-4)


def _check_traces(checked: _Checked) -> None:
    logits, labels = checked.example()
    kept = logits.clone(), labels.clone()
    with checked.must_keep_generators():
        first = checked(logits, labels)
    same = torch.equal(logits, kept[0]) and torch.equal(labels, kept[1])
    same &= (logits._version, labels._version) == (0, 0)
    checked.must("leave logits and labels as they are", same, "changed ones")
    again = checked(logits, labels)
    checked.must_agree("return the same at every call", again, first, rtol=0, atol=0)
    learning = logits.clone().requires_grad_()
    values = checked(learning, labels)
    recorded = any(value.requires_grad for value in values) or learning.grad is not None
    checked.must("record no gradient (torch.no_grad)", not recorded, values)
    checked.must("leave gradients enabled", torch.is_grad_enabled(), "disabled")


def _check_default_device(checked: _Checked) -> None:
    logits, labels = checked.example()
    expected = checked(logits, labels)
    with torch.device("meta"):
        values = checked(logits, labels)
    places = [value.device for value in values]
    here = all(place.type == checked.device.type for place in places)
    rule = "create tensors where the logits lie, not on torch's default device"
    checked.must(rule, here, places)
    checked.must_agree(rule, values, expected)


def _check_order(checked: _Checked, members: bool, samples: bool) -> None:
    logits, labels = checked.example()
    expected, axes = checked(logits, labels), checked.axes
    if members:
        order = torch.tensor([2, 0, 1], device=checked.device)
        rule = "not depend on the order of members (members_in_any_order)"
        reordered = _permuted(expected, axes, "m", order)
        checked.must_agree(rule, checked(logits[order], labels), reordered)
    if samples:
        order = torch.randperm(SAMPLES, generator=generator("testing", "order"))
        order = order.to(checked.device)
        rule = "not depend on the order of samples (samples_in_any_order)"
        reordered = _permuted(expected, axes, "s", order)
        checked.must_agree(rule, checked(logits[:, order], labels[order]), reordered)
    view = logits.permute(2, 1, 0).contiguous().permute(2, 1, 0)
    rule = "not depend on how logits lie in memory"
    checked.must_agree(rule, checked(view, labels), expected)


def _permuted(
    values: tuple[Tensor, ...], axes: str, axis: str, order: Tensor
) -> tuple[Tensor, ...]:
    """Reorder every axis of the results that has the given letter."""
    for position in (i for i, letter in enumerate(axes) if letter == axis):
        values = tuple(value.index_select(position, order) for value in values)
    return values


def _check_stream(
    checked: _Checked, stream: Callable[[], LogitsStreaming[Any]]
) -> None:
    logits, labels = checked.example(dtype=torch.float64)
    expected = checked(logits, labels)
    for size in (1, 10, SAMPLES):
        twin = stream()
        for rows in torch.arange(SAMPLES, device=checked.device).split(size):
            twin.update(logits[:, rows], labels[rows])
        result = twin.compute()
        values = result if isinstance(result, tuple) else (result,)
        checked.must_agree(
            f"agree with its stream in chunks of {size}", values, expected
        )
