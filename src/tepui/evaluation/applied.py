"""What an ensemble's calibration and conformal sets come to on test data.

They were fitted on held-out data; here is what they give beside the plain scores. Over
shifted data the coverage shows where the promise of the sets breaks.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from tepui.data.arrays import Normalize
from tepui.data.preparation import Preparation
from tepui.ensembles.ensemble import Ensemble
from tepui.ensembles.meaning import HeldOut
from tepui.metrics import (
    Calibration,
    ConformalSets,
    Conformity,
    Rule,
    TemperatureScaling,
)
from tepui.tasks.base import Stream, Task
from tepui.tasks.prediction import calibrated
from tepui.tasks.scores import TaskScores


@dataclass(frozen=True, kw_only=True)
class AppliedScores(TaskScores):
    """What calibration and conformal sets give on one data set; NaN without them.

    Attributes:
        accuracy: Accuracy after calibration.
        nll: Negative log-likelihood after calibration.
        ece: Expected calibration error after calibration, of labels their mean.
        brier: Brier score after calibration.
        promised: The coverage that sets or intervals promise.
        coverage: The share of samples, or numbers, whose truth they hold.
        size: How many classes a set holds, or how wide an interval is, on average.
    """

    accuracy: float = math.nan
    nll: float = math.nan
    ece: float = math.nan
    brier: float = math.nan
    promised: float = math.nan
    coverage: float = math.nan
    size: float = math.nan


@dataclass
class Applied:
    """Scores after calibration, and of sets or intervals, in one pass.

    Sizes of intervals are in ``units``.
    """

    calibration: Calibration | None
    conformity: Conformity | None
    task: Task
    rule: Rule
    units: Normalize | None = None
    held = size = 0.0
    count = 0
    set_sums: Tensor | None = None  # of each class, where there are sets
    stream: Stream | None = None  # of calibrated probabilities, if they are calibrated

    def update(self, outputs: Tensor, targets: Tensor) -> None:
        """Take in some samples."""
        changed, joint = calibrated(outputs, self.calibration)
        if self.calibration is not None:
            given = changed if joint is None else joint
            # As of one member: scores of pairs are not asked for.
            self.stream = self.stream or self.task.stream(given[:1], self.rule)
            self.stream.update(given, targets)
        if self.conformity is None:
            return
        how = {"rule": self.rule, "conformity": self.conformity, "units": self.units}
        found = self.task.prediction(changed, joint=joint, **how).held(targets)
        if (sums := found.of_classes) is not None:
            self.set_sums = sums if self.set_sums is None else self.set_sums + sums
        self.count += found.answers
        self.held += found.held
        self.size += found.size

    def result(self) -> AppliedScores:
        """Return the scores."""
        values: dict[str, Any] = {}
        if self.stream is not None:
            measured, _ = self.stream.result({})
            names = ("accuracy", "nll", "ece", "brier")
            values |= {name: getattr(measured, name) for name in names}
        if self.conformity is not None:
            values["promised"] = self.conformity.coverage
            values["coverage"] = self.held / self.count
            values["size"] = self.size / self.count
        return AppliedScores(**values)


def scores_with(
    calibration: Calibration | None, held: HeldOut, rule: Rule
) -> AppliedScores:
    """Return what probabilities of held-out data would come to with a calibration."""
    unchanged = TemperatureScaling(torch.ones(()), rule)
    applied = Applied(calibration or unchanged, None, held.task, rule)
    applied.update(held.outputs, held.targets)
    return applied.result()


def applied_by(
    ensemble: Ensemble, task: Task, rule: Rule
) -> Callable[[], Applied] | None:
    """Return what begins scores of what an ensemble applies, if it does by a rule."""
    calibration, conformity = ensemble.calibration, ensemble.conformity
    if calibration is not None and calibration.rule != rule:
        return None
    if isinstance(conformity, ConformalSets) and conformity.rule != rule:
        conformity = None
    if calibration is None and conformity is None:
        return None
    units = (ensemble.preparation or Preparation()).units
    return partial(Applied, calibration, conformity, task, rule, units)
