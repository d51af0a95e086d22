r"""Numbers, and what all tasks of numbers share: their unit, scores and intervals.

Means, quantiles, standard deviations and bounds are in the unit of the targets, that
of its column if training saw those of a :class:`tepui.data.Table` standardized;
``aleatoric``, ``epistemic`` and ``total_uncertainty`` are variances, in the square of
that unit. Conformal intervals are those that held-out data made hold as often as
promised.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self, cast, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tepui import metrics
from tepui.core.checks import one_of, require
from tepui.losses import MSE, Loss, squared_error
from tepui.losses.base import like_outputs
from tepui.metrics import (
    ConformalIntervals,
    IntervalScoreName,
    Rule,
)
from tepui.metrics.chunks import wide
from tepui.tasks.base import Leading, Losses, Promise, Stream, Task
from tepui.tasks.labels import one_per_output
from tepui.tasks.prediction import Held, Prediction
from tepui.tasks.scores import TaskScores

Parts = tuple[Tensor, Tensor | None]
COVERAGE = 0.9  # of the intervals that are scored and written


@dataclass(frozen=True, kw_only=True)
class NumberScores(TaskScores):
    """Scores of predicted numbers.

    Attributes:
        individual_rmse: Mean over members of the root of their mean squared error.
        rmse: That of the ensemble's mean, or median where members give quantiles.
        improvement: By how much the ensemble's is smaller.
        spread: Mean standard deviation over members.
        nll: Negative log-likelihood, where members give variances.
        crps: Continuous ranked probability score; of members without variances, of
            their answers alone; not of quantiles, which are no whole distribution.
        quantile_loss: Twice the mean pinball loss of quantiles, comparable between
            equal levels alone.
        nominal_coverage: The share of targets that intervals promise to hold.
        interval_coverage: The share that they hold.
        interval_width: Their mean width.
        quantile_calibration: Mean distance between the levels of quantiles and the
            share of targets below them.
        member_rmses: Root mean squared error of each member.
    """

    individual_rmse: float
    rmse: float
    improvement: float
    spread: float
    nll: float = math.nan
    crps: float = math.nan
    quantile_loss: float = math.nan
    nominal_coverage: float = math.nan
    interval_coverage: float = math.nan
    interval_width: float = math.nan
    quantile_calibration: float = math.nan
    member_rmses: tuple[float, ...]

    def in_unit(self, scale: float) -> Self:
        """Return scores of numbers that many times as large."""
        larger = {name: scale * getattr(self, name) for name in LENGTHS}
        members = tuple(scale * rmse for rmse in self.member_rmses)
        nll = self.nll + math.log(scale)
        return replace(self, **larger, member_rmses=members, nll=nll)


# What is measured in the unit of the numbers.
LENGTHS = (
    *("individual_rmse", "rmse", "improvement", "spread"),
    *("crps", "quantile_loss", "interval_width"),
)


@dataclass(frozen=True, eq=False, repr=False)
class Conforming(Prediction):
    """A prediction of numbers, which may have conformal intervals."""

    points: ClassVar[tuple[str, ...]] = ("mean", "std")  # columns of every task
    shown: ClassVar[tuple[str, ...]] = ("mean", "std", "epistemic")

    @property
    def _seen(self) -> Self:
        """The same prediction in the unit that training saw."""
        return replace(self, units=None)

    def _place(self, values: Tensor) -> Tensor:
        """Return means, quantiles, bounds or targets in the targets' own unit."""
        if self.units is None or not values.is_floating_point():
            return values  # as whole numbers are, which say that there is no target
        return values.double() * self.units.std[0] + self.units.mean[0]

    def _variance(self, values: Tensor) -> Tensor:
        """Return variances in the square of that unit."""
        if self.units is None:
            return values
        return values.double() * self.units.std[0] ** 2

    @property
    def conformal_interval(self) -> tuple[Tensor, Tensor]:
        """Bounds that hold the number as often as ``Ensemble.conformal`` was told.

        Lower and upper bounds, each ``(samples, numbers, …)``.
        """
        conformity = self.conformity
        if not isinstance(conformity, ConformalIntervals):
            raise AttributeError("conformal_interval")  # worded by __getattr__
        parts = self._seen.interval_parts(conformity.score, conformity.coverage)
        lower, upper = conformity.interval(*parts)
        return self._place(lower), self._place(upper)

    @property
    def center(self) -> Tensor:
        """The one number to name, ``(samples, numbers, …)``: the mean."""
        found: Tensor = self.mean
        return found

    def interval_parts(self, score: str, coverage: float) -> Parts:
        """Return what a conformal interval is made of.

        That is its center, its center and the standard deviation that scales it, or its
        two ends.
        """
        if score == "quantile":
            lower, upper = self.interval(coverage)
            return lower, upper
        return self.center, None if score == "residual" else self.std

    def promised(self) -> dict[str, Tensor]:
        """Return the bounds of conformal intervals, if any."""
        if not isinstance(self.conformity, ConformalIntervals):
            return {}
        lower, upper = self.conformal_interval
        return {"conformal_lower": lower, "conformal_upper": upper}

    def held(self, targets: Tensor) -> Held:
        """Return how often conformal intervals hold the number."""
        lower, upper = self.conformal_interval
        answers = self._place(like_outputs(targets, lower))
        inside = (lower <= answers) & (answers <= upper)
        width = float((upper - lower).double().sum())
        return Held(inside.numel(), float(inside.sum()), width)

    def statistics(self, targets: Tensor) -> dict[str, Tensor]:
        """Return means and their standard deviations."""
        return {"target": self._place(targets), **self._named}

    def exported(self, coverage: float) -> dict[str, Tensor]:
        """Return means and their standard deviations, and intervals if there are any.

        They are those that held-out data made, or else what members say.
        """
        if self.conformity is not None:
            lower, upper = self.conformal_interval
        elif "interval" in self.fields:
            lower, upper = self.interval(coverage)
        else:
            return self._named
        return {**self._named, "lower": lower, "upper": upper}

    @property
    def _named(self) -> dict[str, Tensor]:
        named = {name: getattr(self, name) for name in self.points}
        return {**named, "epistemic_variance": self.epistemic}


@final
@dataclass(frozen=True, eq=False, repr=False)
class NumberPrediction(Conforming):
    """Numbers, from members that were taught no noise (``MSE``).

    How far members are from each other is all that is known of their error. ``mean``
    and ``std`` are in the unit of the targets, ``epistemic`` is a variance, in its
    square.

    Attributes:
        outputs: Numbers of every member, ``(members, samples, numbers, …)``.
        task: Regression.
    """

    task: Task = field(default_factory=lambda: Numbers(), kw_only=True)  # noqa: PLW0108

    @property
    def mean(self) -> Tensor:
        """Mean over members, ``(samples, numbers, …)``, in the unit of the targets."""
        return self._place(self.outputs.mean(0))

    @property
    def epistemic(self) -> Tensor:
        """Variance over members, ``(samples, numbers, …)``, in that unit squared."""
        return self._variance(self.outputs.var(0, unbiased=False))

    @property
    def std(self) -> Tensor:
        """Standard deviation over members: of their disagreement, not of the noise.

        The root of :attr:`epistemic`, in the unit of the targets.
        """
        return self.epistemic.sqrt()


class Sums(NamedTuple):
    """What is added up over all numbers."""

    numbers: Tensor  # how many
    squares: Tensor  # squared errors of each member, (members,)
    spread: Tensor  # standard deviations over members
    total: Tensor  # targets
    total_squares: Tensor  # and their squares


class NumberStream(Stream):
    """All scores of numbers, and those that only some tasks of numbers have."""

    def __init__(self, task: "NumberTask") -> None:
        self.task, self.further = task, task.further_scores()
        self.sums: Sums | None = None
        self.rmse = metrics.RMSE()

    def update(self, outputs: Tensor, targets: Tensor) -> None:
        """Take in some samples."""
        predicted = self.task.points(outputs)
        answers = like_outputs(targets, predicted[0])
        self.rmse.update(predicted, answers)
        numbers, wanted = wide(predicted).flatten(1), wide(answers).flatten()
        added = Sums(
            wanted.new_tensor(wanted.numel()),
            (numbers - wanted).square().sum(1),
            numbers.std(0, unbiased=False).sum(),
            wanted.sum(),
            wanted.square().sum(),
        )
        before = self.sums or tuple(map(torch.zeros_like, added))
        self.sums = Sums(*(old + new for old, new in zip(before, added, strict=True)))
        for name, given in self.task.scored_by(outputs, answers).items():
            self.further[name].update(*given)

    def losses(self) -> Losses:
        """Return each member's squared error, and that of the mean of all targets."""
        assert self.sums is not None, "a data set holds at least one sample"
        mean = self.sums.total / self.sums.numbers
        guess = self.sums.total_squares / self.sums.numbers - mean.square()
        return Losses((self.sums.squares / self.sums.numbers).tolist(), float(guess))

    def result(self, custom: Mapping[str, float]) -> tuple[NumberScores, None]:
        """Return the scores with the caller's own; there are no bins."""
        members = tuple(math.sqrt(error) for error in self.losses().members)
        assert self.sums is not None
        rmse = float(self.rmse.compute())
        individual = sum(members) / len(members)
        measured = NumberScores(
            individual_rmse=individual,
            rmse=rmse,
            improvement=individual - rmse,
            spread=float(self.sums.spread / self.sums.numbers),
            nominal_coverage=self.task.nominal,
            **{name: float(each.compute()) for name, each in self.further.items()},
            member_rmses=members,
            custom=custom,
        )
        return measured, None


@dataclass(frozen=True)
class NumberTask(Task):
    """Outputs of which numbers follow; derive from it for a distribution of one's own.

    Each member's :meth:`points` are all that it must tell; :class:`Numbers` are it.
    """

    kind = "regression"
    scored = NumberScores
    leading = Leading("crps", "rmse", ("rmse", "individual_rmse", "crps"))
    measure = "rmse"
    conformal: ClassVar[tuple[str, ...]] = ("residual", "normalized")

    @property
    def nominal(self) -> float:
        """The share of targets that intervals promise to hold; NaN without any."""
        return math.nan

    def points(self, outputs: Tensor) -> Tensor:
        """Return the number that each member names, ``(members, samples, …)``."""
        return outputs

    def further_scores(self) -> dict[str, Any]:
        """Return what adds up further scores of :class:`NumberScores`, by name."""
        return {"crps": metrics.SampleCRPS()}

    def scored_by(
        self, outputs: Tensor, answers: Tensor
    ) -> dict[str, tuple[Tensor, ...]]:
        """Return what further scores are taken of, by name."""
        return {"crps": (self.points(outputs), answers)}

    def stream(self, outputs: Tensor, rule: Rule) -> NumberStream:
        """Return what adds up the scores."""
        return NumberStream(self)

    def judging(self, members: int) -> tuple[str, ...]:
        """How far members disagree; nothing of one member."""
        return ("epistemic",) if members > 1 else ()

    def fit_conformity(
        self, outputs: Tensor, targets: Tensor, promise: Promise
    ) -> ConformalIntervals:
        """Return what makes intervals."""
        asked = {"seed": promise.seed, "per": promise.per, "shift": promise.shifted}
        for name, given in asked.items():
            require(given is None, name, "be None for intervals of numbers", "one")
        chosen = cast(IntervalScoreName, promise.score or self.conformal[0])
        one_of("score", chosen, self.conformal)
        predicted: Any = self.prediction(outputs)
        first, second = predicted.interval_parts(chosen, promise.coverage)
        answers = like_outputs(targets, first)
        return ConformalIntervals.fit(
            first, second, answers, coverage=promise.coverage, score=chosen
        )

    def answers(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return the numbers that one member names, and the right ones."""
        given = self.points(outputs[None])[0]
        return given, one_per_output(targets, given).to(given.dtype)


@final
@dataclass(frozen=True)
class Numbers(NumberTask):
    """Numbers, of whose noise members say nothing."""

    word = "regression"
    losses = (MSE, squared_error, nn.MSELoss, F.mse_loss)
    predicts = NumberPrediction
    leading = Leading("rmse", "crps", ("rmse", "individual_rmse", "crps"))

    def lesson(self, outputs: Tensor, temperature: float) -> tuple[Tensor, Loss]:
        """Return the mean of the members' numbers."""
        require(temperature == 1, "temperature", "be 1 for numbers", temperature)
        return outputs.mean(0), MSE()


def share_of(coverage: float) -> float:
    """Return the coverage of an interval, which lies within (0, 1)."""
    require(0 < coverage < 1, "coverage", "lie within (0, 1)", coverage)
    return coverage
