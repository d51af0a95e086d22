"""What a member's weights are worth on validation data: its loss and its task's score.

Scores are those of single members, as :func:`tepui.evaluate` has them: the share of
classes or labels told right, or the root mean squared error of numbers.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from tepui.core.checks import UNLABELED
from tepui.core.task import Task
from tepui.data.arrays import Batch
from tepui.ensembles.number_prediction import interpolated, member_quantiles
from tepui.losses import gaussian_parameters
from tepui.modules.running import evaluating
from tepui.training.passes import MemberPasses


class Validation(NamedTuple):
    """What a member achieved on validation data."""

    loss: float
    accuracy: float | None  # where outputs are classes or labels
    rmse: float | None  # where they are numbers


def validated(member: MemberPasses, batches: Iterable[Batch], task: Task) -> Validation:
    """Run a member over validation data, in eval mode and without gradients."""
    device = member.learning_rate.device
    samples, total = 0, torch.zeros((), dtype=torch.float64, device=device)
    sums = torch.zeros(2, dtype=torch.float64, device=device)
    with evaluating(member.module), torch.no_grad():
        for batch in batches:
            outputs = member.unseeded_outputs(batch)
            total += member.losses_of(outputs, batch.targets).double().sum()
            samples += len(batch.targets)
            sums += score_sums(outputs, batch.targets, task)
    score, count = sums.tolist()
    loss = float(total) / samples
    if not count:
        return Validation(loss, None, None)
    if task.name in ("classification", "multi_label"):
        return Validation(loss, score / count, None)
    return Validation(loss, None, math.sqrt(score / count))


def score_sums(outputs: Tensor, targets: Tensor, task: Task) -> Tensor:
    """Return the right answers or the squared errors of a batch, and of how many.

    Of none where the task is unknown, or targets are not what such a task has.

    Example:
        >>> logits = torch.tensor([[2.0, 1.0], [3.0, 0.0]])
        >>> score_sums(logits, torch.tensor([0, 1]), Task("classification"))
        tensor([1., 2.], dtype=torch.float64)
    """
    given, wanted = _answers(outputs, targets, task)
    if task.name == "unknown" or given.shape != wanted.shape:
        return torch.zeros(2, dtype=torch.float64, device=outputs.device)
    counted = (wanted != UNLABELED) | wanted.is_floating_point()
    numbers = given.is_floating_point()
    values = (given - wanted).double().square() if numbers else given == wanted
    return torch.stack([(values * counted).double().sum(), counted.double().sum()])


def _answers(outputs: Tensor, targets: Tensor, task: Task) -> tuple[Tensor, Tensor]:
    """Return what a model answers and what is right: classes, labels or numbers."""
    if task.name == "classification":
        soft = targets.shape == outputs.shape
        return outputs.argmax(1), targets.argmax(1) if soft else targets
    given = _numbers(outputs, task)
    if targets.ndim == given.ndim - 1 and given.shape[1] == 1:
        targets = targets.unsqueeze(1)
    if task.name == "multi_label":
        return given > 0, targets > 0.5
    return given, targets.to(given.dtype)


def _numbers(outputs: Tensor, task: Task) -> Tensor:
    """Return the numbers that outputs stand for: means, or quantiles in the middle."""
    if task.name == "gaussian":
        return gaussian_parameters(outputs)[0]
    if task.name == "quantiles":
        middle = min(max(0.5, task.levels[0]), task.levels[-1])
        by_level = member_quantiles(outputs[None], task)[0]
        return interpolated(by_level, task.levels, middle)
    return outputs
