"""Checks at the door: they pass what is right and name what is wrong."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from strategies import ensembles, modest
from tepui.core.checks import (
    class_indices,
    labels_match,
    logits_shape,
    one_of,
)

LOGITS = torch.zeros(2, 3, 4)


@pytest.mark.parametrize("value", ["zzz", None, 3])
def test_one_of_gives_no_hint_when_nothing_is_near(value):
    with pytest.raises(ValueError, match=f"one of a, vote, got {value!r}$"):
        one_of("rule", value, ["a", "vote"])


@modest
@given(ensembles())
def test_logits_in_shape_pass_in_every_float_type(logits):
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        logits_shape(logits.to(dtype))


@pytest.mark.parametrize(
    ("logits", "message"),
    [
        (torch.zeros(3, 4), r"shape \(members, samples, classes\), got \(3, 4\)"),
        (torch.zeros(1, 2, 3, 4), r"got \(1, 2, 3, 4\)"),
        (torch.zeros(2, 3, 4, dtype=torch.long), "floating point, got torch.int64"),
        (torch.zeros(0, 3, 4), r"at least 1 member.*0 in shape \(0, 3, 4\)"),
        (torch.zeros(2, 0, 4), r"one sample and one class, got \(2, 0, 4\)"),
        (torch.zeros(2, 3, 0), r"one sample and one class, got \(2, 3, 0\)"),
    ],
)
def test_logits_out_of_shape_are_refused(logits, message):
    with pytest.raises(ValueError, match=f"^logits must.*{message}"):
        logits_shape(logits)


def test_too_few_members_are_refused_only_where_more_are_needed():
    logits_shape(LOGITS, min_members=2)
    with pytest.raises(ValueError, match="at least 2 member"):
        logits_shape(LOGITS[:1], min_members=2)


def test_nan_logits_are_counted_and_located():
    logits = torch.zeros(3, 4, 2)
    logits[1, 2] = torch.nan
    logits[2, 0, 0] = torch.nan
    with pytest.raises(ValueError, match=r"3 NaN value.*member 1, sample 2"):
        logits_shape(logits)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
def test_labels_of_every_integer_type_pass(dtype):
    labels_match(torch.tensor([0, 3, 1], dtype=dtype), LOGITS)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (torch.tensor([0, 1]), r"shape \(3,\) to match the logits, got \(2,\)"),
        (torch.zeros(3, 1, dtype=torch.long), r"got \(3, 1\)"),
        (torch.tensor(1), r"got \(\)"),
        (torch.zeros(3), "be integers, got torch.float32"),
        (torch.zeros(3, dtype=torch.complex64), "be integers, got torch.complex64"),
        (
            torch.tensor([0, 1, 4]),
            r"lie in \[0, 3\] for 4 outputs, got 'values from 0 to 4'",
        ),
        (
            torch.tensor([0, -1, 3]),
            r"lie in \[0, 3\] for 4 outputs, got 'values from -1 to 3'",
        ),
    ],
)
def test_labels_that_do_not_fit_are_refused(labels, message):
    with pytest.raises(ValueError, match=f"^labels must.*{message}"):
        labels_match(labels, LOGITS)


@modest
@given(st.integers(1, 9), st.lists(st.integers(-12, 12), min_size=1, max_size=9))
def test_class_indices_pass_exactly_when_all_lie_in_range(classes, values):
    labels = torch.tensor(values)
    if all(0 <= value < classes for value in values):
        class_indices(labels, classes)
    else:
        with pytest.raises(ValueError, match=rf"lie in \[0, {classes - 1}\]"):
            class_indices(labels, classes)
