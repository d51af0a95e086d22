"""What a calibration gained, and whether the samples suffice to know.

On its own samples a calibration looks better than it is, the more so the fewer they
are. So each fifth of them is calibrated by what the other four fifths say, and the
change of each sample's loss is kept: their mean and its error say whether calibration
helps.
"""

import warnings
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.ensembles.ensemble import Ensemble
from tepui.ensembles.meaning import HeldOut, held_out
from tepui.evaluation.applied import AppliedScores, scores_with
from tepui.metrics import Calibration, CalibrationMethod, Rule
from tepui.studies.statistics import Interval, mean_interval
from tepui.tasks.prediction import calibrated

FOLDS = 5
UNSEEN = 5e-5  # what four digits of a loss do not show

Effect = Literal["helps", "hurts", "nothing", "unknown"]


@dataclass(frozen=True)
class Gain:
    """What a calibration did.

    Attributes:
        before: Scores of the samples it was fitted on, without it.
        after: The same with it.
        change: By how much it changes the NLL of samples that it was not fitted on.
        samples: How many there are.
    """

    before: AppliedScores
    after: AppliedScores
    change: Interval
    samples: int

    @property
    def effect(self) -> Effect:
        """Whether it helps.

        It does where the 95 % interval of the change of NLL lies below zero, on samples
        that it was not fitted on.
        """
        low, high = self.change.low, self.change.high
        if max(abs(low), abs(high)) < UNSEEN:
            return "nothing"
        if low > 0:
            return "hurts"
        return "helps" if high < 0 else "unknown"


def gain_of(
    ensemble: Ensemble, held: Dataset[Any], rule: Rule, how: dict[str, Any]
) -> Gain:
    """Return what the calibration of an ensemble did, by its own samples."""
    fitted = ensemble.calibration
    assert fitted is not None, "an ensemble is calibrated first"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # said while it was fitted
        outputs = held_out(ensemble, held, ensemble.task, (), **how)
    before, after = (scores_with(each, outputs, rule) for each in (None, fitted))
    changes = loss_changes(outputs, fitted.method, rule).tolist()
    return Gain(before, after, mean_interval(changes), len(outputs.targets))


def loss_changes(held: HeldOut, method: CalibrationMethod, rule: Rule) -> Tensor:
    """Return how calibration changes the loss of each sample, fitted on others.

    Args:
        held: Outputs on held-out data.
        method: How probabilities are calibrated.
        rule: How members are combined.

    Returns:
        Differences of negative log-likelihoods, below zero where calibration helps,
        ``(samples,)``; empty for fewer samples than folds.
    """
    count = len(held.targets)
    if count < FOLDS:
        return torch.empty(0)
    device = held.outputs.device
    order = torch.randperm(count, generator=torch.Generator().manual_seed(0))
    changes = torch.empty(count, dtype=torch.float64, device=device)
    for fold in order.to(device).tensor_split(FOLDS):
        rest = torch.ones(count, dtype=torch.bool, device=device)
        rest[fold] = False
        with warnings.catch_warnings():
            # The fit on all samples has said what it says.
            warnings.simplefilter("ignore", UserWarning)
            others = held.outputs[:, rest], held.targets[rest]
            fitted = held.task.fit_calibration(*others, method, rule)
        own = _rows(held, fold)
        after, before = (_losses(own, each, rule) for each in (fitted, None))
        changes[fold] = after - before
    return changes


def _rows(held: HeldOut, rows: Tensor) -> HeldOut:
    return held._replace(outputs=held.outputs[:, rows], targets=held.targets[rows])


def _losses(held: HeldOut, calibration: Calibration | None, rule: Rule) -> Tensor:
    """Return the negative log-likelihood of each sample, the mean of its parts."""
    outputs, joint = calibrated(held.outputs, calibration)
    predicted: Any = held.task.prediction(outputs, rule=rule, joint=joint)
    losses: Tensor = predicted.losses(held.targets)
    return losses
