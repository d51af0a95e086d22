"""What a calibration does to samples that it was not fitted on.

On its own samples a calibration looks better than it is, the more so the fewer they
are. So each fifth of them is calibrated by what the other four fifths say, and the
change of each sample's loss is kept: their mean and its error say whether calibration
helps.
"""

import warnings

import torch
from torch import Tensor

from tepui.core.checks import UNLABELED
from tepui.core.task import MULTI_LABEL
from tepui.ensembles.held_out import HeldOut, fitted_calibration
from tepui.ensembles.predicted import calibrated, prediction_of
from tepui.losses.base import like_outputs
from tepui.metrics import Calibration, CalibrationMethod, Rule

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
            fitted = fitted_calibration(_rows(held, rest), method, rule)
        own = _rows(held, fold)
        after, before = (_losses(own, each, rule) for each in (fitted, None))
        changes[fold] = after - before
    return changes


def _rows(held: HeldOut, rows: Tensor) -> HeldOut:
    return held._replace(outputs=held.outputs[:, rows], targets=held.targets[rows])


def _losses(held: HeldOut, calibration: Calibration | None, rule: Rule) -> Tensor:
    """Return the negative log-likelihood of each sample, the mean of its parts."""
    outputs, joint = calibrated(held.outputs, calibration)
    probs = prediction_of(outputs, held.task, rule=rule, joint=joint).probs.double()
    if held.task == MULTI_LABEL:
        holds = like_outputs(held.targets, held.outputs[0]).double()
        of_truth, counts = holds * probs + (1 - holds) * (1 - probs), holds >= 0
    else:
        labels = held.targets.long()
        of_truth = probs.gather(1, labels.clamp(min=0).unsqueeze(1)).squeeze(1)
        counts = labels != UNLABELED
    least = torch.finfo(torch.float32).tiny
    losses = torch.where(counts, -of_truth.clamp(min=least).log(), torch.nan)
    return losses.flatten(1).nanmean(1) if losses.ndim > 1 else losses
