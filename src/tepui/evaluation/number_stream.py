"""Scores of predicted numbers, from outputs that come in batches."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from tepui import metrics
from tepui.core.task import Task
from tepui.ensembles.number_prediction import interpolated, member_quantiles
from tepui.evaluation.dead_members import Losses
from tepui.evaluation.task_scores import NumberScores
from tepui.losses import gaussian_parameters
from tepui.losses.base import like_outputs
from tepui.losses.gaussian import finite_variances
from tepui.metrics.chunks import wide

COVERAGE = 0.9
# Levels at which a predicted distribution is compared with the targets.
LEVELS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


class Sums(NamedTuple):
    """What is added up over all numbers."""

    numbers: Tensor  # how many
    squares: Tensor  # squared errors of each member, (members,)
    spread: Tensor  # standard deviations over members
    total: Tensor  # targets
    total_squares: Tensor  # and their squares


@dataclass
class NumberStream:
    """All scores of numbers, their normal distributions or their quantiles."""

    task: Task
    sums: Sums | None = None
    rmse: metrics.RMSE = field(default_factory=metrics.RMSE)
    coverage: metrics.IntervalCoverage = field(default_factory=metrics.IntervalCoverage)
    width: metrics.IntervalWidth = field(default_factory=metrics.IntervalWidth)

    def __post_init__(self) -> None:
        levels = self.task.levels or LEVELS
        self.calibration = metrics.QuantileCalibration(levels=levels)
        self.nll = metrics.GaussianNLL()
        self.gaussian_crps = metrics.GaussianCRPS()
        self.sample_crps = metrics.SampleCRPS()
        self.quantile_crps = metrics.QuantileCRPS(levels=levels)

    @property
    def nominal(self) -> float:
        """The share of targets that intervals promise to hold; NaN without any."""
        if self.task.name == "regression":
            return math.nan
        levels = self.task.levels
        return round(levels[-1] - levels[0], 12) if levels else COVERAGE

    def update(self, outputs: Tensor, targets: Tensor) -> None:
        """Take in some samples."""
        update = {
            "regression": self._numbers,
            "gaussian": self._gaussians,
            "quantiles": self._quantiles,
        }[self.task.name]
        update(outputs, targets)

    def losses(self) -> Losses:
        """Return each member's squared error, and that of the mean of all targets."""
        assert self.sums is not None
        mean = self.sums.total / self.sums.numbers
        guess = self.sums.total_squares / self.sums.numbers - mean.square()
        return Losses((self.sums.squares / self.sums.numbers).tolist(), float(guess))

    def rates(self) -> None:
        """Return nothing: there are no classes."""

    def result(self, custom: Mapping[str, float]) -> tuple[NumberScores, None]:
        """Return the scores with the caller's own; there are no bins."""
        assert self.sums is not None, "a data set holds at least one sample"
        members = tuple(math.sqrt(error) for error in self.losses().members)
        rmse = float(self.rmse.compute())
        individual = sum(members) / len(members)
        gaussian, quantiles = (self.task.name == n for n in ("gaussian", "quantiles"))
        crps = self.gaussian_crps if gaussian else self.sample_crps
        intervals = gaussian or quantiles
        measured = NumberScores(
            individual_rmse=individual,
            rmse=rmse,
            improvement=individual - rmse,
            spread=float(self.sums.spread / self.sums.numbers),
            nll=float(self.nll.compute()) if gaussian else math.nan,
            crps=_of(crps, not quantiles),
            quantile_loss=_of(self.quantile_crps, quantiles),
            nominal_coverage=self.nominal,
            interval_coverage=_of(self.coverage, intervals),
            interval_width=_of(self.width, intervals),
            quantile_calibration=_of(self.calibration, intervals),
            member_rmses=members,
            custom=custom,
        )
        return measured, None

    def _numbers(self, outputs: Tensor, targets: Tensor) -> None:
        answers = like_outputs(targets, outputs[0])
        self._points(outputs, answers)
        self.sample_crps.update(outputs, answers)

    def _gaussians(self, outputs: Tensor, targets: Tensor) -> None:
        mean, log_variance = gaussian_parameters(outputs, axis=2)
        answers = like_outputs(targets, mean[0])
        self._points(mean, answers)
        variances = finite_variances(log_variance)
        given = mean, variances, answers
        self.nll.update(*given)
        self.gaussian_crps.update(*given)
        share = (1 - COVERAGE) / 2
        levels = share, *LEVELS, 1 - share
        values = metrics.gaussian_quantiles(mean, variances, levels)
        self._intervals(values[..., 0], values[..., -1], answers)
        self.calibration.update(values[..., 1:-1], answers)

    def _quantiles(self, outputs: Tensor, targets: Tensor) -> None:
        by_member = member_quantiles(outputs, self.task)
        levels = self.task.levels
        middle = min(max(0.5, levels[0]), levels[-1])
        point = interpolated(by_member.movedim(1, 0), levels, middle)
        answers = like_outputs(targets, point[0])
        self._points(point, answers)
        values = by_member.mean(0).sort(0).values.movedim(0, -1)
        self.quantile_crps.update(values, answers)
        self._intervals(values[..., 0], values[..., -1], answers)
        self.calibration.update(values, answers)

    def _intervals(self, lower: Tensor, upper: Tensor, answers: Tensor) -> None:
        self.coverage.update(lower, upper, answers)
        self.width.update(lower, upper)

    def _points(self, predicted: Tensor, answers: Tensor) -> None:
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


def _of(stream: metrics.Streaming[Tensor], known: bool) -> float:
    return float(stream.compute()) if known else math.nan
