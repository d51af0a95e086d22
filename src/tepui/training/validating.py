"""What a member's weights are worth on validation data: its loss and its task's score.

Scores are those of single members, as :func:`tepui.evaluate` has them: the share of
classes or labels told right, or the root mean squared error of numbers. If one is not
finite, the data are searched for NaN and infinity.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.data.arrays import Batch
from tepui.data.loading import as_arrays, at_rows, length
from tepui.data.stored import whole
from tepui.data.table import Table
from tepui.modules.running import evaluating
from tepui.tasks import Task
from tepui.training.passes import MemberPasses

SCALING = (
    "; columns and targets in large units are a frequent cause: scale them to about 1 "
    "(docs/tasks.md)"
)
MOST_COLUMNS = 10  # that are named
MOST_READ = 10_000  # of data that are not held in tensors
ROWS_AT_A_TIME = 256


class Validation(NamedTuple):
    """What a member achieved on validation data."""

    loss: float
    accuracy: float | None  # where outputs are classes or labels
    rmse: float | None  # where they are numbers


def validated(
    member: MemberPasses, batches: Iterable[Batch], task: Task, unit: float = 1.0
) -> Validation:
    """Run a member over validation data, in eval mode and without gradients.

    Errors of numbers are in the unit that a difference of 1 stands for.
    """
    device = member.learning_rate.device
    samples, total = 0, torch.zeros((), dtype=torch.float64, device=device)
    sums = torch.zeros(2, dtype=torch.float64, device=device)
    with evaluating(member.module), torch.no_grad():
        for batch in batches:
            outputs = member.unseeded_outputs(batch)
            total += member.losses_of(outputs, batch.targets).double().sum()
            samples += len(batch.targets)
            sums += task.measured(outputs, batch.targets)
    score, count = sums.tolist()
    loss = float(total) / samples
    if not count:
        return Validation(loss, None, None)
    if task.measure == "accuracy":
        return Validation(loss, score / count, None)
    return Validation(loss, None, unit * math.sqrt(score / count))


def scaling_advice(task: Task, dataset: Dataset[tuple[object, object]]) -> str:
    """Return advice on numbers to predict, unless a table has standardized them."""
    numbers = task.measure == "rmse"
    return SCALING if numbers and not isinstance(whole(dataset), Table) else ""


def not_finite(batches: Iterable[Batch]) -> str | None:
    """Say where in some samples NaN or infinity are, None if nowhere.

    Example:
        >>> inputs = torch.tensor([[1.0, torch.nan], [2.0, 3.0]])
        >>> not_finite([Batch(inputs, torch.ones(2), torch.arange(2))])
        'NaN or infinity in 1 of 2 rows of inputs (column 1, counted from 0)'
    """
    samples, rows = 0, Counter[str]()
    columns: dict[str, set[int]] = defaultdict(set)
    for batch in batches:
        samples += len(batch.targets)
        for name, tensor in _tensors(batch).items():
            bad = ~tensor.isfinite()
            rows[name] += int(bad.reshape(len(bad), -1).any(1).sum())
            if bad.ndim == 2 and bad.shape[1] > 1:
                columns[name] |= {*bad.any(0).nonzero().flatten().tolist()}
    found = [
        f"{count} of {samples} rows of {name}{_named(sorted(columns[name]))}"
        for name, count in rows.items()
        if count
    ]
    return f"NaN or infinity in {' and in '.join(found)}" if found else None


def not_finite_in(dataset: Dataset[tuple[object, object]]) -> str | None:
    """Say it of a data set that is held in tensors, or of the first rows of another."""
    if (arrays := as_arrays(dataset)) is not None:
        index = torch.arange(len(arrays))
        return not_finite([Batch(arrays.inputs, arrays.targets, index)])
    rows = torch.arange(min(length(dataset), MOST_READ)).split(ROWS_AT_A_TIME)
    return not_finite(at_rows(dataset, rows, device=torch.device("cpu")))


def _tensors(batch: Batch) -> dict[str, Tensor]:
    if isinstance(batch.inputs, Tensor):
        return {"inputs": batch.inputs, "targets": batch.targets}
    named = {f"inputs[{name!r}]": part for name, part in batch.inputs.items()}
    return {**named, "targets": batch.targets}


def _named(columns: list[int]) -> str:
    """Return the numbers of columns in words, the first ones of many."""
    if not columns:
        return ""
    words = ", ".join(map(str, columns[:MOST_COLUMNS]))
    more = f" and {len(columns) - MOST_COLUMNS} more" * (len(columns) > MOST_COLUMNS)
    plural = "s" * (len(columns) > 1)
    return f" (column{plural} {words}{more}, counted from 0)"
