"""What every metric promises, whatever it measures."""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from tepui.core.seeding import generator
from tepui.metrics import LogitsStreaming
from tepui.testing.expecting import (
    expect,
    expect_close,
    global_generators_kept,
    name_of,
)

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
    checked = _Checked(metric, name_of(metric), axes, torch.device(device))
    _check_shape(checked, min_members, may_be_nan)
    _check_traces(checked)
    _check_types(checked)
    _check_default_device(checked)
    if members_in_any_order:
        _check_order_of_members(checked)
    if samples_in_any_order:
        _check_order_of_samples(checked)
    _check_layout(checked)
    if stream is not None:
        _check_stream(checked, stream)


@dataclass(frozen=True)
class _Checked:
    """A metric, and how to call it."""

    metric: Metric
    name: str
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
        expect(
            tensors, self.name, "return a number, a tensor or a tuple of them", kinds
        )
        return values

    def example(
        self, classes: int = CLASSES, dtype: torch.dtype = torch.float32
    ) -> tuple[Tensor, Tensor]:
        """Return logits, and labels half of which the ensemble predicts."""
        stream = generator("testing", classes)
        shape = MEMBERS, SAMPLES, classes
        logits = 2 * torch.randn(shape, generator=stream, dtype=torch.float64)
        labels = torch.randint(classes, (SAMPLES,), generator=stream)
        known = torch.arange(SAMPLES) % 2 == 0
        labels = labels.where(known, logits.mean(0).argmax(-1))
        return logits.to(self.device, dtype), labels.to(self.device)


def _check_shape(checked: _Checked, min_members: int, may_be_nan: bool) -> None:
    for classes in (2, CLASSES):
        logits, _ = checked.example(classes)
        for members in {min_members, MEMBERS}:
            for samples in (1, SAMPLES):
                part = logits[:members, :samples]
                # The first member errs everywhere, so that no ratio divides by zero.
                labels = 1 - part[0].argmax(-1).clamp(max=1)
                sizes = {"m": members, "s": samples, "c": classes}
                for value in checked(part, labels):
                    _expect_axes(checked, value, sizes)
                    defined = may_be_nan or bool(value.isfinite().all())
                    seen = f"{value} for logits of shape {tuple(part.shape)}"
                    expect(defined, checked.name, "be finite", seen)


def _expect_axes(checked: _Checked, value: Tensor, sizes: dict[str, int]) -> None:
    shape = tuple(value.shape)
    expected = [sizes.get(letter, "any") for letter in checked.axes]
    fits = len(shape) == len(expected) and all(
        want in ("any", size) for want, size in zip(expected, shape, strict=True)
    )
    rule = f"return axes {checked.axes!r}, here {tuple(expected)}"
    expect(fits, checked.name, rule, f"shape {shape}")


def _check_types(checked: _Checked) -> None:
    results = {}
    for given in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        wanted = torch.float64 if given == torch.float64 else torch.float32
        logits, labels = checked.example(dtype=given)
        results[given] = values = checked(logits, labels)
        kinds = [value.dtype for value in values if value.is_floating_point()]
        python = isinstance(checked.metric(logits, labels), Real)
        right = python or all(kind == wanted for kind in kinds)
        expect(right, checked.name, f"answer {given} with {wanted}", kinds)
        if given.itemsize == 2:
            wide = checked(logits.float(), labels)
            rule = f"compute {given} as it does float32"
            expect_close(values, wide, checked.name, rule)
    logits, labels = checked.example(dtype=torch.float32)
    narrow = [value.double() for value in checked(logits, labels)]
    wide = tuple(value.double() for value in checked(logits.double(), labels))
    expect_close(narrow, wide, checked.name, "agree in float32 and float64", rtol=1e-4)


def _check_traces(checked: _Checked) -> None:
    logits, labels = checked.example()
    kept = logits.clone(), labels.clone()
    with global_generators_kept(checked.name):
        first = checked(logits, labels)
    same = torch.equal(logits, kept[0]) and torch.equal(labels, kept[1])
    versions = logits._version, labels._version
    rule = "leave logits and labels as they are"
    expect(same and versions == (0, 0), checked.name, rule, "changed ones")
    rule = "return the same at every call"
    expect_close(checked(logits, labels), first, checked.name, rule, rtol=0, atol=0)
    learning = logits.clone().requires_grad_()
    values = checked(learning, labels)
    recorded = any(value.requires_grad for value in values) or learning.grad is not None
    expect(not recorded, checked.name, "record no gradient (torch.no_grad)", values)
    expect(torch.is_grad_enabled(), checked.name, "leave gradients enabled", "disabled")


def _check_default_device(checked: _Checked) -> None:
    logits, labels = checked.example()
    expected = checked(logits, labels)
    with torch.device("meta"):
        values = checked(logits, labels)
    places = [value.device for value in values]
    right = all(place.type == checked.device.type for place in places)
    rule = "create tensors where the logits lie, not on torch's default device"
    expect(right, checked.name, rule, places)
    expect_close(values, expected, checked.name, rule)


def _check_order_of_members(checked: _Checked) -> None:
    logits, labels = checked.example()
    order = torch.tensor([2, 0, 1], device=checked.device)
    expected = _permuted(checked(logits, labels), checked.axes, "m", order)
    rule = "not depend on the order of members (members_in_any_order)"
    expect_close(checked(logits[order], labels), expected, checked.name, rule)


def _check_order_of_samples(checked: _Checked) -> None:
    logits, labels = checked.example()
    order = torch.randperm(SAMPLES, generator=generator("testing", "order"))
    order = order.to(checked.device)
    expected = _permuted(checked(logits, labels), checked.axes, "s", order)
    actual = checked(logits[:, order], labels[order])
    rule = "not depend on the order of samples (samples_in_any_order)"
    expect_close(actual, expected, checked.name, rule)


def _permuted(
    values: tuple[Tensor, ...], axes: str, axis: str, order: Tensor
) -> tuple[Tensor, ...]:
    """Reorder every axis of the results that has the given letter."""
    for position in (i for i, letter in enumerate(axes) if letter == axis):
        values = tuple(value.index_select(position, order) for value in values)
    return values


def _check_layout(checked: _Checked) -> None:
    logits, labels = checked.example()
    view = logits.permute(2, 1, 0).contiguous().permute(2, 1, 0)
    rule = "not depend on how logits lie in memory"
    expect_close(checked(view, labels), checked(logits, labels), checked.name, rule)


def _check_stream(
    checked: _Checked, stream: Callable[[], LogitsStreaming[Any]]
) -> None:
    logits, labels = checked.example(dtype=torch.float64)
    expected = checked(logits, labels)
    for size in (1, 10, SAMPLES):
        twin = stream()
        for rows in torch.arange(SAMPLES).split(size):
            part = rows.to(checked.device)
            twin.update(logits[:, part], labels[part])
        found = twin.compute()
        values = found if isinstance(found, tuple) else (found,)
        rule = f"agree with its stream in chunks of {size}"
        expect_close(values, expected, checked.name, rule)
