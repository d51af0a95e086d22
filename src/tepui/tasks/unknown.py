"""Outputs that only the user understands: how far members differ is all one can say."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from torch import Tensor

from tepui.metrics import Rule
from tepui.metrics.chunks import wide
from tepui.tasks.base import Stream, Task
from tepui.tasks.prediction import Prediction
from tepui.tasks.scores import TaskScores


@dataclass(frozen=True, kw_only=True)
class OutputScores(TaskScores):
    """What can be said of outputs whose meaning is not known.

    Attributes:
        spread: Mean standard deviation of the outputs over members.
    """

    spread: float


@final
@dataclass(frozen=True, eq=False, repr=False)
class OutputPrediction(Prediction):
    """Outputs whose meaning is not known: their loss names no task.

    Give the loss a ``task``, or name one: ``Ensemble(..., task=...)``.

    Attributes:
        outputs: Outputs of every member, ``(members, samples, …)``.
        task: Unknown.
    """

    task: Task = field(default_factory=lambda: Unknown(), kw_only=True)  # noqa: PLW0108
    shown = ("mean", "spread")

    @property
    def mean(self) -> Tensor:
        """Mean of the outputs over members, ``(samples, …)``."""
        return self.outputs.mean(0)

    @property
    def spread(self) -> Tensor:
        """Standard deviation of the outputs over members, ``(samples, …)``."""
        return self.outputs.std(0, unbiased=False)

    def statistics(self, targets: Tensor) -> dict[str, Tensor]:
        """Return the mean output and how far members differ."""
        return {"target": targets, **self.exported(0.0)}

    def exported(self, coverage: float) -> dict[str, Tensor]:
        """Return the mean output and how far members differ."""
        return {"mean": self.mean, "spread": self.spread}


class OutputStream(Stream):
    """How far members' outputs differ, added up over batches."""

    def __init__(self) -> None:
        self._count = 0
        self._spread = 0.0

    def update(self, outputs: Tensor, targets: Tensor) -> None:
        """Take in some samples; of their targets as little is known."""
        flat = wide(outputs).flatten(1)
        self._spread += float(flat.std(0, unbiased=False).sum())
        self._count += flat.shape[1]

    def result(self, custom: Mapping[str, float]) -> tuple[OutputScores, None]:
        """Return the scores with the caller's own; there are no bins."""
        return OutputScores(spread=self._spread / self._count, custom=custom), None


@final
@dataclass(frozen=True)
class Unknown(Task):
    """Outputs of which nothing is known: nothing is done with them but to average."""

    word = "unknown"
    predicts = OutputPrediction
    scored = OutputScores
    chooses = None
    judged_by = ("spread",)

    def outputs(self, answers: int) -> None:
        """Return None: only the user knows."""

    def stream(self, outputs: Tensor, rule: Rule) -> OutputStream:
        """Return what adds up how far members differ."""
        return OutputStream()
