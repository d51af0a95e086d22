"""What an ensemble predicts, in the words of its task."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, get_args

import torch
from torch import Tensor

from tepui.core.checks import have_values, one_of, require
from tepui.core.text import ShownInNotebooks, counted
from tepui.core.warning import warn
from tepui.data.arrays import Normalize
from tepui.metrics import Calibration, Conformity, HeldOutScores, Isotonic, Rule
from tepui.metrics.held_out_scores import (
    LEVEL,
    objections,
    too_few,
    unfamiliar_at,
)

if TYPE_CHECKING:
    from tepui.tasks.base import Task

# What the prediction of some task has, and those of others may lack.
FIELDS = (
    *("probs", "labels", "label_names", "confidence", "logits", "ood_score"),
    *("mean", "median", "std", "quantiles", "interval", "spread"),
    *("total_uncertainty", "aleatoric", "epistemic"),
    *("sets", "conformal_interval"),
)
UNSURE = ("std", "spread", "total_uncertainty", "aleatoric", "epistemic")
FITTED = ("sets", "conformal_interval")  # which only held-out data make


class Held(NamedTuple):
    """How often sets or intervals hold the truth."""

    answers: int
    held: float
    size: float  # of all sets, or the width of all intervals
    of_classes: Tensor | None = None  # these three of each class, where there are any


class TaskLacksError(AttributeError):
    """A prediction was asked for something that its task does not have."""


@dataclass(frozen=True, eq=False, repr=False)
class Prediction(ShownInNotebooks, ABC):
    """What an ensemble predicts for some inputs.

    Which further attributes there are depends on the task: :class:`ClassPrediction`,
    :class:`LabelPrediction`, :class:`NumberPrediction`, :class:`GaussianPrediction`,
    :class:`QuantilePrediction`, :class:`OutputPrediction`. To ask for one that a task
    lacks is an ``AttributeError`` that names those it has; printing a prediction sums
    it up.

    Attributes:
        outputs: Outputs of every member, ``(members, samples, outputs, …)``.
        task: What they mean.
        rule: How members are combined: ``"probability"`` averages their probabilities,
            ``"logit"`` their logits, ``"vote"`` counts their answers; of no effect on
            numbers.
        classes: Names of classes or labels, where they have names; of the one output of
            a yes or no also the names of both answers, no first.
        joint: Logarithms of the ensemble's probabilities, ``(1, samples, classes, …)``,
            where a calibration changes those and not the members' logits.
        units: Mean and standard deviation by which a :class:`tepui.data.Table`
            standardized the numbers that training saw; None where it saw them as they
            are. Answers are in the table's own unit, outputs standardized.
        conformity: What makes sets or intervals of them, where the ensemble was given
            data for it.
        held_out_scores: What held-out samples scored, where the ensemble was given
            some.
        feature_scores: What detectors say of the inputs' features, by the name of the
            score, ``(samples,)`` each, where the ensemble has detectors.
        uncalibrated: The outputs before a calibration changed them.
        named: What samples are called, by column: the line of a table's file and the
            columns that were carried over, or the file of an image.
    """

    outputs: Tensor
    task: "Task" = field(kw_only=True)
    rule: Rule = field(default="probability", kw_only=True)
    classes: tuple[str, ...] = field(default=(), kw_only=True)
    joint: Tensor | None = field(default=None, kw_only=True)
    units: Normalize | None = field(default=None, kw_only=True)
    conformity: Conformity | None = field(default=None, kw_only=True)
    held_out_scores: HeldOutScores | None = field(default=None, kw_only=True)
    feature_scores: Mapping[str, Tensor] = field(default_factory=dict, kw_only=True)
    uncalibrated: Tensor | None = field(default=None, kw_only=True)
    named: Mapping[str, Sequence[Any]] = field(default_factory=dict, kw_only=True)
    shown: ClassVar[tuple[str, ...]]  # fields that are printed

    def __post_init__(self) -> None:
        one_of("rule", self.rule, get_args(Rule))
        check_outputs(self.outputs)

    def __len__(self) -> int:
        return self.outputs.shape[1]

    @property
    def members(self) -> int:
        """How many members predict."""
        return len(self.outputs)

    @property
    def fields(self) -> tuple[str, ...]:
        """Which of the fields of all tasks there are."""
        fitted = () if self.conformity is None else FITTED
        known = (name for name in FIELDS if name in fitted or name not in FITTED)
        return tuple(name for name in known if hasattr(type(self), name))

    @property
    def judging(self) -> tuple[str, ...]:
        """The scores by which outputs look unfamiliar; empty where there are none."""
        return self.task.judging(self.members)

    def scores(self, names: Sequence[str] | None = None) -> dict[str, Tensor]:
        """Score how unfamiliar each input looks; higher means less familiar.

        Args:
            names: Which scores; all that the task has if not given. Of numbers these
                are variances, in the square of the unit that training saw.

        Returns:
            Scores of shape ``(samples,)`` by name, means over a sample's outputs.
        """
        wanted = self.task.judged_by if names is None else names
        return {name: per_sample(getattr(self._seen, name)) for name in wanted}

    @property
    def _seen(self) -> Self:
        """The same prediction in the unit that training saw."""
        return self

    def unfamiliarity(self) -> Tensor:
        """Return how much of what was held out looks more familiar than each input.

        Half of the held-out samples look more familiar than a usual input, and all of
        them more than one that is unlike the data, by several scores together, see
        :class:`tepui.metrics.HeldOutScores`: :attr:`judging` of the outputs, before any
        calibration, and what :attr:`tepui.Ensemble.detectors` say if there are some,
        which see inputs so far out that members are all sure of the same.

        Returns:
            Shares in [0, n / (n + 1)] for ``n`` held-out samples, ``(samples,)``.

        Raises:
            ValueError: If the ensemble was given no held-out data, or the task has no
                such scores.
        """
        return self._held.unfamiliarity(self.judged)

    def unfamiliar(self, level: float = LEVEL) -> Tensor:
        """Return which inputs look unlike the data that the ensemble knows.

        Args:
            level: Which share of the held-out samples must look more familiar. Of
                inputs like those no more than ``1 - level`` are called unfamiliar too,
                by all scores together: false alarms, one in a hundred by default. With
                ``n`` held-out samples they are one in ``n + 1`` at the least: where
                that is more, a warning says so.

        Returns:
            Truth values, ``(samples,)``.

        Raises:
            ValueError: As :meth:`unfamiliarity`, or if the level lies outside (0, 1].
        """
        samples = self._held.samples
        found = unfamiliar_at(level, self.unfamiliarity(), samples)
        if (warning := too_few(level, samples)) is not None:
            warn(warning)
        return found

    def objections(self, level: float = LEVEL) -> dict[str, Tensor]:
        """Return which scores object to the inputs that are called unfamiliar.

        Args:
            level: As for :meth:`unfamiliar`.

        Returns:
            Truth values by the name of a score, ``(samples,)`` each: those that reach
            the level by themselves, and the one that reaches farthest.

        Raises:
            ValueError: As :meth:`unfamiliar`.
        """
        surprises = self._held.surprises(self.judged)
        found = objections(level, surprises, self.unfamiliar(level))
        return dict(zip(self._held.names, found.unbind(1), strict=True))

    @property
    def _held(self) -> HeldOutScores:
        if self.held_out_scores is None:
            rule = "be given held-out data first, by calibrate or conformal"
            if not self.judging:
                rule = "say what outputs mean, and for numbers have two members or more"
            raise ValueError(f"ensemble must {rule}, to know unfamiliar inputs")
        return self.held_out_scores

    @property
    def judged(self) -> dict[str, Tensor]:
        """The scores by which the inputs are judged, ``(samples,)`` each."""
        seen = self.outputs if self.uncalibrated is None else self.uncalibrated
        own = replace(self, outputs=seen).scores(self.judging)
        return {**own, **self.feature_scores}

    def __getattr__(self, name: str) -> Any:
        if name not in FIELDS:
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}"
            )
        why = ": no data were given for it (Ensemble.conformal)"
        raise TaskLacksError(
            f"a prediction of the task {str(self.task)!r} has no {name}"
            f"{why if name in FITTED else ''}; it has {', '.join(self.fields)}"
        )

    def __repr__(self) -> str:
        samples, members = self._counts()
        return f"{type(self).__name__}({samples}, {members})"

    def __str__(self) -> str:
        samples, members = self._counts()
        title = f"{samples}, predicted by {members} ({self.task})"
        rows = self.summary()
        width = max(map(len, rows), default=0)
        return "\n".join([title, *(f"  {k:<{width}}  {v}" for k, v in rows.items())])

    def largest(self, values: Tensor) -> str:
        """Return the mean of some scores, and which samples have the largest."""
        scores = per_sample(values.detach())
        top = scores.topk(min(3, len(scores))).indices.tolist()
        title, names = next(iter(self.named.items()), ("sample", range(len(scores))))
        named = ", ".join(str(names[row]) for row in top)
        return f"mean {number(float(scores.mean()))}; largest for {title} {named}"

    def _counts(self) -> tuple[str, str]:
        return counted(len(self), "sample"), counted(self.members, "member")

    @abstractmethod
    def statistics(self, targets: Tensor) -> dict[str, Tensor]:
        """Return the numbers about each sample that a file of predictions holds.

        Args:
            targets: One per sample, which are among them.
        """

    @abstractmethod
    def exported(self, coverage: float) -> dict[str, Tensor]:
        """Return what an exported graph answers, with intervals of that coverage."""

    def promised(self) -> dict[str, Tensor]:
        """Return the conformal sets or intervals as a file holds them, if any."""
        return {}

    def held(self, targets: Tensor) -> Held:
        """Return how often conformal sets or intervals hold the truth."""
        raise NotImplementedError

    def summary(self) -> dict[str, str]:
        """Return what a person wants to know first, a line of text by its name."""
        rows = {}
        for name in self.shown:
            unsure, values = name in UNSURE, getattr(self, name)
            rows[name.replace("_", " ")] = (self.largest if unsure else some)(values)
        return rows


def check_outputs(outputs: Tensor) -> None:
    """Check that outputs are ``(members, samples, …)``, floating and not NaN."""
    rule = "have shape (members, samples, outputs, …)"
    require(outputs.ndim >= 2, "outputs", rule, tuple(outputs.shape))
    require(outputs.is_floating_point(), "outputs", "be floating point", outputs.dtype)
    shape = tuple(outputs.shape)
    rule = "hold at least one member, one sample and one output"
    require(outputs.numel() > 0, "outputs", rule, shape)
    if not have_values():
        return
    if torch.isnan(outputs.detach().sum()) and (bad := torch.isnan(outputs)).any():
        member, sample = bad.nonzero()[0, :2].tolist()
        raise ValueError(
            f"outputs must not be NaN, got {int(bad.sum())} NaN value(s), the first at "
            f"member {member}, sample {sample}"
        )


def some(values: Tensor | Sequence[str]) -> str:
    """Return the first values of a tensor, or names, as text."""
    if isinstance(values, Tensor):
        values = [number(value) for value in values.detach().flatten()[:9].tolist()]
    return " ".join(values[:8]) + (" …" if len(values) > 8 else "")


def number(value: float) -> str:
    """Return a number with four digits, without an exponent below a million.

    Example:
        >>> number(256_043.7), number(0.12345)
        ('256000', '0.1235')
    """
    return f"{float(f'{value:.4g}'):g}"


def per_sample(values: Tensor) -> Tensor:
    """Return the mean of each sample's values."""
    return values.flatten(1).mean(1) if values.ndim > 1 else values


def calibrated(
    outputs: Tensor, calibration: Calibration | None
) -> tuple[Tensor, Tensor | None]:
    """Return members' calibrated logits, and log-probabilities of the whole.

    A calibration has one or the other: where it changes the whole, members keep their
    logits.
    """
    if calibration is None:
        return outputs, None
    changed = calibration.apply(rows_of(outputs))
    if outputs.ndim > 3:
        sizes = (len(changed), outputs.shape[1], *outputs.shape[3:], outputs.shape[2])
        changed = changed.reshape(sizes).movedim(-1, 2)
    return (outputs, changed) if isinstance(calibration, Isotonic) else (changed, None)


def rows_of(outputs: Tensor) -> Tensor:
    """Return outputs of samples, or of every pixel as one: ``(members, rows, …)``."""
    return outputs.movedim(2, -1).flatten(1, -2) if outputs.ndim > 3 else outputs
