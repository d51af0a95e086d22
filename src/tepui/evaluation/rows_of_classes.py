"""A part of many samples in which no class is missing."""

import torch
from torch import Tensor

from tepui.core.evenly_spaced import evenly_spaced
from tepui.core.task import CLASSIFICATION, MULTI_LABEL, Task

# So many targets are looked at together.
AT_ONCE = 2**22


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
        >>> rows_of_classes(torch.tensor([0, 0, 0, 1, 0, 0, 0]), CLASSIFICATION, 4)
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
    numbers = _numbered(targets, task)
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


def _numbered(targets: Tensor, task: Task) -> Tensor | None:
    """Return which classes each sample is of, ``(samples, …)``; None if of none."""
    if task == CLASSIFICATION and not targets.is_floating_point():
        return targets.reshape(len(targets), -1)
    if task == MULTI_LABEL:
        holds = targets.reshape(len(targets), -1) > 0.5
        return holds + 2 * torch.arange(holds.shape[1], device=holds.device)
    return None
