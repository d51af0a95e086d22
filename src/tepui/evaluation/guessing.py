"""What a guess loses that knows the targets' distribution and no input."""

import math

import torch
from torch import Tensor

from tepui.core.task import Task
from tepui.evaluation.dead_members import Losses
from tepui.losses import CrossEntropy, Loss, pinball, task_of


def losses_beside_guessing(
    members: list[float], targets: Tensor | None, outputs: int, loss: Loss
) -> Losses | None:
    """Return members' losses beside that of a guess; None where it is not known.

    Losses of normal distributions are turned into the variances that they stand for,
    since a likelihood has no zero to measure a ratio from.
    """
    task = task_of(loss)
    if task.name == "gaussian" and targets is not None:
        entropy = math.log(2 * math.pi * math.e)
        variances = [math.exp(2 * value - entropy) for value in members]
        return Losses(variances, _variance(targets))
    guess = _guess(targets, outputs, task, _smoothing(loss))
    return None if guess is None else Losses(members, guess)


def _smoothing(loss: Loss) -> float:
    """Return the share of targets that a loss spreads over all classes."""
    share = loss.label_smoothing if isinstance(loss, CrossEntropy) else 0.0
    return share if isinstance(share, float | int) else 0.0


def _guess(
    targets: Tensor | None, outputs: int, task: Task, smoothing: float
) -> float | None:
    if task.name == "classification":
        return _class_entropy(targets, outputs, smoothing)
    if targets is None or task.name == "unknown":
        return None
    if task.name == "multi_label":
        share = targets.double().mean(0)
        return float((torch.special.entr(share) + torch.special.entr(1 - share)).mean())
    if task.name == "quantiles":
        levels = torch.tensor(task.levels, dtype=torch.float64)
        numbers = targets.double().cpu().flatten()[:, None]
        guessed = numbers.flatten().quantile(levels).expand(len(numbers), -1)
        return float(pinball(guessed, numbers, task.levels).mean())
    return _variance(targets)


def _class_entropy(targets: Tensor | None, outputs: int, smoothing: float) -> float:
    if targets is None or targets.is_floating_point() or targets.ndim > 1:
        return math.log(max(2, outputs))
    counts = torch.bincount(targets.long().clamp(min=0), minlength=outputs)
    shares = (1 - smoothing) * counts.double() / len(targets) + smoothing / len(counts)
    return float(torch.special.entr(shares).sum())


def _variance(targets: Tensor) -> float:
    return float(targets.double().var(0, unbiased=False).mean())
