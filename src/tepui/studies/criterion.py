"""By which scores of its task a search chooses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from statistics import fmean
from typing import final

from tepui.core.checks import require
from tepui.losses import Loss, task_of

Scores = Mapping[str, Sequence[float | None]]
"""For each score one value per repetition; None where it is infinite."""


@final
@dataclass(frozen=True)
class Criterion:
    """What is shown of every combination of a search, and what decides.

    Attributes:
        shown: Names of scores.
        first: The one that decides.
        then: The one that decides among equals, the lowest.
        highest: Whether the first is the better the higher.
    """

    shown: tuple[str, ...]
    first: str
    then: str
    highest: bool = False

    def merit(self, scores: Scores) -> tuple[float, float]:
        """Return what is highest for the best scores."""
        sign = 1 if self.highest else -1
        return sign * _mean(scores[self.first]), -_mean(scores[self.then])

    def __str__(self) -> str:
        best = "highest" if self.highest else "lowest"
        first = f"{best} mean {self.first} on the held-out samples"
        return f"{first}, then lowest {self.then}"


OF_CLASSES = Criterion(
    ("accuracy", "individual_accuracy", "nll"), "accuracy", "nll", highest=True
)
OF_NUMBERS = Criterion(("rmse", "individual_rmse", "crps"), "rmse", "crps")
OF_DISTRIBUTIONS = Criterion(OF_NUMBERS.shown, "crps", "rmse")
OF_QUANTILES = Criterion(
    ("rmse", "individual_rmse", "quantile_loss"), "quantile_loss", "rmse"
)
EARLIER = {"quantile_loss": "crps"}  # how evaluations called scores before
BY_TASK = {
    "classification": OF_CLASSES,
    "multi_label": OF_CLASSES,
    "regression": OF_NUMBERS,
    "gaussian": OF_DISTRIBUTIONS,
    "quantiles": OF_QUANTILES,
}


def criterion_of(loss: Loss) -> Criterion:
    """Return what decides between ensembles that minimize a loss.

    Example:
        >>> from tepui.losses import CrossEntropy
        >>> print(criterion_of(CrossEntropy()))
        highest mean accuracy on the held-out samples, then lowest nll
    """
    task = task_of(loss)
    rule = "say what outputs mean, for their scores (see tepui.losses)"
    require(task.name in BY_TASK, "loss", rule, f"one of the task {task}")
    return BY_TASK[task.name]


def score_in(scores: Mapping[str, float | None], name: str) -> float | None:
    """Return a score of an evaluation, which may be old and call it otherwise.

    Example:
        >>> score_in({"crps": None, "quantile_loss": 0.2}, "quantile_loss")
        0.2
        >>> score_in({"crps": 0.2}, "quantile_loss")
        0.2
    """
    return scores[name if name in scores else EARLIER.get(name, name)]


def _mean(values: Sequence[float | None]) -> float:
    return fmean(inf if value is None else value for value in values)
