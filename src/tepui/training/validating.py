"""What a member's weights are worth on validation data: its loss and its task's score.

Scores are those of single members, as :func:`tepui.evaluate` has them: the share of
classes or labels told right, or the root mean squared error of numbers.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch

from tepui.data.arrays import Batch
from tepui.modules.running import evaluating
from tepui.tasks import Task
from tepui.training.passes import MemberPasses


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
