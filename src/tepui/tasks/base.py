"""What a model's outputs mean, as an object that answers for it."""

from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from statistics import fmean
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from tepui.core.checks import UNLABELED, require
from tepui.core.spec import written
from tepui.losses import Loss
from tepui.metrics import (
    Calibration,
    CalibrationMethod,
    ClassRates,
    Conformity,
    Reliability,
    Rule,
)
from tepui.tasks.prediction import Prediction
from tepui.tasks.scores import TaskScores

Runs = Iterable[tuple[Tensor, Tensor]]


class Losses(NamedTuple):
    """What members lose, and what a guess that knows no input would."""

    members: Sequence[float]
    guessing: float


class Nouns(NamedTuple):
    """What scores per class are of, in words."""

    one: str = "class"
    several: str = "classes"
    samples: str = "samples"
    mean: str = "balanced accuracy"  # of their recalls


class Promise(NamedTuple):
    """What is asked of sets or intervals."""

    coverage: float
    score: str | None  # by default the first that the task has
    rule: Rule = "probability"
    seed: int | None = None
    calibration: Calibration | None = None  # of the probabilities that sets are of
    per: Literal["class"] | None = None  # what is promised so much by itself
    shifted: Tensor | None = None  # outputs of samples like those to come


class Leading(NamedTuple):
    """By which scores ensembles are told apart.

    Attributes:
        first: The one that decides.
        then: The one that decides among equals, the lowest.
        shown: Names of scores that are shown.
        highest: Whether the first is the better the higher.
    """

    first: str
    then: str
    shown: tuple[str, ...]
    highest: bool = False

    def merit(
        self, scores: Mapping[str, Sequence[float | None]]
    ) -> tuple[float, float]:
        """Return what is highest for the best scores."""
        sign = 1 if self.highest else -1
        return sign * _mean(scores[self.first]), -_mean(scores[self.then])

    def __str__(self) -> str:
        best = "highest" if self.highest else "lowest"
        first = f"{best} mean {self.first} on the held-out samples"
        return f"{first}, then lowest {self.then}"


class Stream(Protocol):
    """All scores of a task, of outputs that come in batches."""

    def update(self, outputs: Tensor, targets: Tensor) -> None:
        """Take in some samples."""

    def losses(self) -> Losses | None:
        """Return each member's loss and that of a guess, if it is known."""
        return None

    def rates(self) -> ClassRates | None:
        """Return the scores of each class, if there are any."""
        return None

    def result(
        self, custom: Mapping[str, float]
    ) -> tuple[TaskScores, Reliability | None]:
        """Return the scores with the caller's own, and the bins of probabilities."""


@dataclass(frozen=True)
class Task(ABC):
    """What the outputs of a model mean, and all that follows from it.

    Outputs have shape ``(samples, outputs, …)``; further axes are pixels, each of which
    is answered on its own. A task of one's own derives from this one, from
    :class:`Numbers` or from another, and is checked by ``tepui.testing.check_task``.

    Attributes:
        word: What the task is called in print.
        kind: What it is called where models are shared.
        losses: The class of its default loss, and others that have it.
        predicts: What its outputs predict.
        scored: The scores that it has.
        leading: By which of these ensembles are told apart; None if by none.
        measure: What single members are measured by while they train, ``"accuracy"``
            or, of targets that have a unit, ``"rmse"``.
        chooses: Whether a sample is of one of several classes that exclude each other;
            None if only the user knows.
        calibrations: How probabilities can be calibrated, the default first.
        conformal: By which scores sets or intervals are made, the default first.
        promise: What conformal data give: sets or intervals.
        judged_by: The fields of a prediction by which samples look unfamiliar.
    """

    word: ClassVar[str]
    kind: ClassVar[str] = "other"
    losses: ClassVar[tuple[Any, ...]] = ()
    predicts: ClassVar[type[Prediction]]
    scored: ClassVar[type[TaskScores]]
    leading: ClassVar[Leading | None] = None
    measure: ClassVar[str | None] = None
    chooses: ClassVar[bool | None] = False
    calibrations: ClassVar[tuple[CalibrationMethod, ...]] = ()
    conformal: ClassVar[tuple[str, ...]] = ()
    promise: ClassVar[str] = "intervals"
    judged_by: ClassVar[tuple[str, ...]] = ("epistemic",)

    def __str__(self) -> str:
        return self.word

    def written(self) -> str:
        """Return the task as files keep it and a person writes it."""
        return written(self)

    @property
    def loss(self) -> Loss | None:
        """What is minimized for it by default; None if only the user knows."""
        default: Loss | None = self.losses[0]() if self.losses else None
        return default

    @classmethod
    def of_loss(cls, loss: Any) -> "Task | None":
        """Return the task of a loss or of its class, None if it is another's."""
        owned = loss in cls.losses or isinstance(loss, cls.losses[:1])
        return cls() if owned else None

    def owns(self, loss: Any) -> bool:
        """Return whether a loss is the first of its losses, as a value or function."""
        inner = getattr(loss, "func", loss)
        return isinstance(loss, self.losses[:1]) or inner in self.losses[1:2]

    def check_learned(self, outputs: Tensor, targets: Tensor, loss: Loss) -> None:
        """Let its loss refuse outputs or targets of a shape that it cannot take."""
        if isinstance(loss, self.losses[:1]):
            loss(outputs, targets)

    def check_targets(  # noqa: B027 - most tasks take any numbers
        self, argument: str, targets: Tensor, *, scored: bool = False
    ) -> None:
        """Refuse values of targets that cannot be learned from, or not be scored."""

    def outputs(self, answers: int) -> int | None:
        """Return how many outputs a network has for so many answers, if known."""
        return answers

    def answers_in(self, targets: Tensor | None, names: Sequence[str]) -> int | None:
        """Return how many answers targets have, or named classes, if they say."""
        if targets is None:
            return None
        return targets.shape[1] if targets.ndim > 1 else 1

    def prediction(self, outputs: Tensor, **known: Any) -> Prediction:
        """Return what outputs predict.

        Args:
            outputs: Those of every member, ``(members, samples, outputs, …)``.
            **known: Further fields of a :class:`Prediction`.
        """
        return self.predicts(outputs, task=self, **known)

    def judging(self, members: int) -> tuple[str, ...]:
        """Return by which scores so many members tell what is unfamiliar."""
        return ()

    def unfamiliarity(self, outputs: Tensor) -> dict[str, Tensor]:
        """Return how unfamiliar each sample looks by each score, ``(samples,)``."""
        return self.prediction(outputs).scores(self.judged_by)

    def scores_of(self, shape: tuple[int, ...]) -> type[TaskScores]:
        """Return which scores outputs ``(members, samples, outputs, …)`` have."""
        return self.scored

    @abstractmethod
    def stream(self, outputs: Tensor, rule: Rule) -> Stream:
        """Return what adds up the scores of outputs like these first ones."""

    def choices(self, shape: tuple[int, ...]) -> int | None:
        """Return between how many classes a sample chooses, None if between none."""
        return None

    def runs(self, batches: Runs, shape: tuple[int, ...]) -> Runs:
        """Return outputs and targets in the runs that scores are added up over."""
        return batches

    def check(  # noqa: B027 - most tasks need no more than their scores check
        self, outputs: Tensor, targets: Tensor | None, argument: str, first: int
    ) -> None:
        """Refuse outputs, or targets if there are any, that have no such scores."""

    def warn_of(self, outputs: Tensor) -> None:  # noqa: B027
        """Warn if outputs look like those of another task."""

    def called(self, classes: Sequence[str], outputs: int) -> Sequence[str]:
        """Return what answers 0, 1, … of a sample with so many answers are called."""
        return ()

    def answered(
        self, outputs: Tensor, targets: Tensor, rule: Rule
    ) -> tuple[Tensor, Tensor] | None:
        """Return what is right and what was called, a class each; None without."""
        return None

    @property
    def levels_of(self) -> dict[str, tuple[float, ...]]:
        """The levels that columns of a file are named by, by their statistics."""
        return {}

    def nouns(self, scores: Container[str]) -> Nouns:
        """Return what classes and samples are called, by the scores that there are."""
        return Nouns()

    def fit_calibration(
        self, outputs: Tensor, targets: Tensor, method: CalibrationMethod, rule: Rule
    ) -> Calibration:
        """Return what makes probabilities of held-out outputs right."""
        rule_of_task = "be one of classes or labels to be calibrated (conformal gives "
        raise _refused(f"{rule_of_task}intervals of numbers)", self)

    def fit_conformity(
        self, outputs: Tensor, targets: Tensor, promise: Promise
    ) -> Conformity:
        """Return what makes sets of classes, or intervals, of held-out outputs."""
        wanted = "be one of classes that exclude each other, or of numbers, to have "
        raise _refused(f"{wanted}sets or intervals", self)

    def lesson(self, outputs: Tensor, temperature: float) -> tuple[Tensor, Loss]:
        """Return what a student of all members learns, and by which loss."""
        raise _refused("have students: classes, labels, or numbers", self)

    def answers(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return what one member answers and what is right: classes or numbers."""
        return outputs, targets

    def measured(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return one member's right answers, or squared errors, and of how many.

        Of none if targets are not what such a task has.

        Example:
            >>> from tepui.tasks import Classes
            >>> logits = torch.tensor([[2.0, 1.0], [3.0, 0.0]])
            >>> Classes().measured(logits, torch.tensor([0, 1]))
            tensor([1., 2.], dtype=torch.float64)
        """
        given, wanted = self.answers(outputs, targets)
        if self.measure is None or given.shape != wanted.shape:
            return torch.zeros(2, dtype=torch.float64, device=outputs.device)
        counted = (wanted != UNLABELED) | wanted.is_floating_point()
        numbers = given.is_floating_point()
        values = (given - wanted).double().square() if numbers else given == wanted
        return torch.stack([(values * counted).double().sum(), counted.double().sum()])


def _refused(rule: str, task: Task) -> ValueError:
    return ValueError(f"task must {rule}, got {str(task)!r}")


def require_classes(task: Task | None, what: str) -> None:
    """Refuse what is defined only for a choice between classes."""
    fits = task is None or task.chooses is True
    rule = f"choose between classes for {what}"
    require(fits, "ensemble", rule, f"the task {str(task)!r}")


def _mean(values: Sequence[float | None]) -> float:
    return fmean(inf if value is None else value for value in values)
