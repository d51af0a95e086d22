"""What a calibration does to samples that it was not fitted on.

On its own samples a calibration looks better than it is, the more so the fewer they
are. So each fifth of them is calibrated by what the other four fifths say, and the
change of each sample's loss is kept: their mean and its error say whether calibration
helps.
"""

import warnings
from typing import Any

import torch
from torch import Tensor

from tepui.ensembles.meaning import HeldOut
from tepui.metrics import Calibration, CalibrationMethod, Rule
from tepui.tasks.prediction import calibrated

FOLDS = 5


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
