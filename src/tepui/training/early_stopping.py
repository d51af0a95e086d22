"""Ending a run that no longer gains anything.

A rule of the run's records alone: resumed or not, and on every rank, it says the same.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from statistics import fmean
from typing import Literal, final

from tepui.core.checks import require
from tepui.core.task import Task
from tepui.core.types import check_fields
from tepui.training.history import EpochRecord

Monitored = Literal["validation_loss", "validation_accuracy", "validation_rmse", "loss"]
# Tasks for which a record has these scores.
_TASKS = {
    "validation_accuracy": ("classification", "multi_label"),
    "validation_rmse": ("regression", "gaussian", "quantiles"),
}


def epochs_since_best(values: Iterable[float], min_delta: float = 0.0) -> int:
    """Return how many values came since the last that was a gain; lower is better.

    Example:
        >>> epochs_since_best([3.0, 2.0, 2.5, 1.9])
        0
        >>> epochs_since_best([3.0, 2.0, 2.5, 1.9], min_delta=0.2)
        2
    """
    best, since = inf, 0
    for value in values:
        if value < best - min_delta:
            best, since = value, 0
        else:
            since += 1
    return since


@final
@dataclass(frozen=True)
class EarlyStopping:
    """End the run of all members once their mean score has not improved for a while.

    Attributes:
        monitor: What to watch, averaged over members: a score of the validation data,
            or the training ``"loss"``.
        patience: Epochs in a row without a gain after which the run ends.
        min_delta: By how much a value must be better than the best before it to count
            as a gain.

    Raises:
        ValueError: If a value breaks its rule.

    Example:
        >>> EarlyStopping(patience=3)
        EarlyStopping(monitor='validation_loss', patience=3, min_delta=0.0)
    """

    monitor: Monitored = "validation_loss"
    patience: int = 5
    min_delta: float = 0.0

    def __post_init__(self) -> None:
        check_fields(self)
        require(self.patience > 0, "patience", "be positive", self.patience)
        require(self.min_delta >= 0, "min_delta", "be non-negative", self.min_delta)

    @property
    def validates(self) -> bool:
        """Whether validation data are watched."""
        return self.monitor != "loss"

    def check_task(self, task: Task | None) -> None:
        """Raise if records of a task do not have what is watched.

        Args:
            task: What the outputs mean, as far as is known.
        """
        fit = _TASKS.get(self.monitor)
        known = "unknown" if task is None else task.name
        rule = f"be a score that outputs of this task ({known}) have"
        require(fit is None or known in fit, "monitor", rule, self.monitor)

    def stops(self, history: Sequence[EpochRecord]) -> bool:
        """Return whether a run with these records ends.

        Args:
            history: Those of all epochs done.

        Returns:
            Whether the last ``patience`` of them brought no gain.
        """
        return epochs_since_best(map(self._value, history), self.min_delta) >= (
            self.patience
        )

    def _value(self, record: EpochRecord) -> float:
        if self.monitor == "loss":
            return fmean(record.trained)
        mean = fmean(getattr(record, self.monitor))
        return -mean if self.monitor == "validation_accuracy" else mean
