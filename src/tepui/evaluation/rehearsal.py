"""Metrics of one's own, computed once before anything is trained for them."""

import math
from collections.abc import Mapping
from pathlib import Path
from traceback import walk_tb
from typing import Any

import torch
from torch import Tensor

from tepui.core.evenly_spaced import evenly_spaced
from tepui.core.seeding import generator
from tepui.core.warning import warn
from tepui.evaluation.custom_metrics import Metric, check_metrics, metric_values
from tepui.tasks.base import Task
from tepui.tasks.scores import taken_names

# So many random numbers are drawn, but for a few samples in any case.
MOST = 2**26
FEWEST = 3
AT_ONCE = 2**22  # so many targets are looked at together
SINGULAR: type[Exception] = torch.linalg.LinAlgError  # type: ignore[attr-defined]
# What a metric that is right may raise of some values and not of others.
OF_VALUES = (ValueError, ArithmeticError, SINGULAR)
OURS = Path(__file__).parents[1]


class OwnError(Exception):
    """The function of a metric raised the error that is this one's cause."""


def rehearse(
    metrics: Mapping[str, Metric],
    task: Task,
    outputs: tuple[int, ...],
    targets: Tensor | None,
) -> None:
    """Raise if a metric cannot be computed of what an ensemble will give.

    Where it fails on random outputs, but might not on others, that is a warning.

    Args:
        metrics: The metrics by name.
        task: What outputs mean.
        outputs: Their shape, ``(members, classes, ...)``, without samples.
        targets: Of the test data; where they are not known beforehand only names are
            checked.

    Raises:
        ValueError: If a name is that of a score, a metric does not fit outputs and
            targets, or it returns something other than a scalar.

    Example:
        >>> from tepui.tasks import Classes
        >>> labels = torch.tensor([0, 1])
        >>> rehearse({"all": lambda x, y: x}, Classes(), (3, 2), labels)
        Traceback (most recent call last):
        ValueError: metrics['all'] must return a scalar, not a tensor of shape, got (3, 2, 2)
    """  # noqa: E501 - a doctest must show the whole message
    check_metrics(metrics, taken_names(task.scores_of((outputs[0], 1, *outputs[1:]))))
    if targets is None or not metrics:
        return
    members, *others = outputs
    count = max(FEWEST, MOST // math.prod(outputs))
    labels = targets[rows_of_classes(targets, task, count)].cpu()
    draws = generator(0, "rehearsal")
    drawn = torch.randn(members, len(labels), *others, generator=draws)
    given = f"outputs {tuple(drawn.shape)} and labels {tuple(labels.shape)}"
    for name, metric in metrics.items():
        try:
            metric_values({name: _told_apart(metric)}, drawn, labels)
        except OwnError as failed:
            error = failed.__cause__
            assert isinstance(error, Exception)
            words = f"{type(error).__name__}: {error}"
            if _never_fits(error, whole=len(labels) == len(targets)):
                raise ValueError(
                    f"metrics[{name!r}] must be a function of {given}, but it fails: "
                    f"{words}"
                ) from error
            warn(
                f"metrics[{name!r}] fails on random {given}, and if it does so on "
                f"those of trained members the comparison will stop there: {words}"
            )


def _told_apart(metric: Metric) -> Metric:
    """Return a metric whose own errors are told from those about what it returns."""

    def value(outputs: Tensor, labels: Tensor) -> Any:
        try:
            return metric(outputs, labels)
        except Exception as error:  # of the user's own code
            raise OwnError from error

    return value


def _never_fits(error: Exception, *, whole: bool) -> bool:
    """Return whether a metric fails on any outputs, as far as its error tells.

    A call that is wrong and what tepui's own functions refuse do not depend on values;
    any other error may come of samples that were left out.
    """
    if isinstance(error, TypeError) or _raised_here(error):
        return True
    return whole and not isinstance(error, OF_VALUES)


def _raised_here(error: Exception) -> bool:
    """Return whether a function of tepui refused what a metric gave to it."""
    *_, (frame, _) = walk_tb(error.__traceback__)
    file = Path(frame.f_code.co_filename)
    # This one's frame is the last where the metric itself has none: it is built in.
    ours = file.is_relative_to(OURS) and file != Path(__file__)
    return ours and isinstance(error, ValueError)


def rows_of_classes(targets: Tensor, task: Task, count: int) -> Tensor:
    """Return row numbers, ``count`` of the targets' or all where there are fewer.

    The first row of each class that is present is among them, of labels that hold or
    not the first row of either answer; others are evenly spaced. Where there are more
    such rows than are asked for, some of them are taken.

    Args:
        targets: Of all samples.
        task: What outputs mean, and so targets.
        count: How many rows to take.

    Returns:
        Rows in ascending order, none twice.

    Example:
        >>> from tepui.tasks import Classes
        >>> rows_of_classes(torch.tensor([0, 0, 0, 1, 0, 0, 0]), Classes(), 4)
        tensor([0, 2, 3, 6])
    """
    size = len(targets)
    if size <= count:
        return torch.arange(size)
    first = _first_rows(targets, task)
    if len(first) >= count:
        return first[evenly_spaced(len(first), count)]
    spaced = evenly_spaced(size, count)
    others = spaced[~torch.isin(spaced, first)]
    others = others[evenly_spaced(len(others), count - len(first))]
    return torch.cat([first, others]).sort().values


def _first_rows(targets: Tensor, task: Task) -> Tensor:
    """Return the first row of each class, none for tasks without classes."""
    numbers = task.classes_of(targets)
    if numbers is None:
        return torch.arange(0)
    lowest, size = int(numbers.min()), len(numbers)
    first = torch.full((int(numbers.max()) - lowest + 1,), size)
    start = 0
    for run in numbers.split(max(1, AT_ONCE // max(1, numbers.shape[1]))):
        rows = torch.arange(start, start + len(run)).unsqueeze(1).expand_as(run)
        places = run.cpu().long() - lowest
        first.scatter_reduce_(0, places.flatten(), rows.flatten(), "amin")
        start += len(run)
    rows = first[first < size].unique()
    assert isinstance(rows, Tensor)
    return rows
