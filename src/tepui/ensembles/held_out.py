"""What an ensemble learns from held-out data: calibration, sets and intervals."""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast, get_args

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from tepui.core.checks import UNLABELED, one_of, require
from tepui.core.task import CLASSIFICATION, MULTI_LABEL, Task
from tepui.core.warning import warn
from tepui.data.identity import fingerprint, same_data
from tepui.data.loading import in_order
from tepui.ensembles.conforming import conformal_parts
from tepui.ensembles.predicted import calibrated, prediction_of, settled
from tepui.losses.base import like_outputs
from tepui.metrics import (
    Calibration,
    CalibrationMethod,
    ConformalIntervals,
    ConformalSets,
    Conformity,
    HeldOutScores,
    IntervalScoreName,
    Rule,
    SetScore,
    fit_calibration,
    pixels,
)
from tepui.metrics.calibrators import fit_label_calibration
from tepui.metrics.multilabel import label_rows
from tepui.modules.running import device_of, evaluating, refusal_named

NUMBERS = ("regression", "gaussian", "quantiles")


class HeldOut(NamedTuple):
    """An ensemble's outputs on held-out data, with the targets."""

    outputs: Tensor
    targets: Tensor
    task: Task
    hashes: tuple[str, ...] = ()  # by which the data are known again


def held_out(
    ensemble: nn.Module,
    dataset: Dataset[Any],
    task: Task | None,
    trained_on: Sequence[str],
    batch_size: int,
    workers: int,
) -> HeldOut:
    """Return outputs and targets; warn if members were trained on these data."""
    hashes = fingerprint(dataset)
    if same_data(trained_on, hashes):
        warn(
            "dataset holds the training data, on which members are surer than on "
            "others; take data that they have not seen",
        )
    device, outputs, targets = device_of(ensemble), [], []
    for batch in in_order(dataset, batch_size, device=device, workers=workers):
        with evaluating(ensemble), torch.no_grad(), refusal_named(batch.inputs):
            outputs.append(ensemble(batch.inputs).float())
        targets.append(batch.targets)
    whole = torch.cat(outputs, dim=1)
    meant = settled(task, tuple(whole.shape))
    return HeldOut(whole, torch.cat(targets), meant, hashes)


def fitted_calibration(
    held: HeldOut, method: CalibrationMethod, rule: Rule
) -> Calibration:
    """Return the calibration of probabilities of classes or of labels."""
    logits, labels = held.outputs, held.targets
    if held.task == MULTI_LABEL:
        rows = label_rows(logits, like_outputs(labels, logits[0]))
        return fit_label_calibration(*rows, method=method, rule=rule)
    wanted = "be one of classes or labels to be calibrated (conformal gives intervals "
    wanted += "of numbers)"
    require(held.task == CLASSIFICATION, "task", wanted, str(held.task))
    if logits.ndim > 3:
        logits, labels = pixels(logits, labels, ignored=UNLABELED)
    return fit_calibration(logits, labels, method=method, rule=rule)


def fitted_scores(held: HeldOut) -> HeldOutScores | None:
    """Return what held-out samples score; None where nothing can tell them apart."""
    predicted = prediction_of(held.outputs, held.task)
    if not predicted.judging:
        return None
    return HeldOutScores.fit(predicted.scores(predicted.judging))


def fitted_conformity(
    held: HeldOut,
    coverage: float,
    score: SetScore | IntervalScoreName | None,
    rule: Rule,
    seed: int | None,
    calibration: Calibration | None,
) -> Conformity:
    """Return what makes sets of classes, or intervals of numbers."""
    name = held.task.name
    if name == "classification":
        chosen = "threshold" if score is None else score
        one_of("score", chosen, get_args(SetScore))
        return _sets(held, coverage, cast(SetScore, chosen), rule, seed, calibration)
    rule_of_task = "be one of classes that exclude each other, or of numbers, to have "
    rule_of_task += "sets or intervals"
    require(name in NUMBERS, "task", rule_of_task, str(held.task))
    require(seed is None, "seed", "be None for intervals, which draw nothing", seed)
    chosen = DEFAULTS[name] if score is None else score
    one_of("score", chosen, get_args(IntervalScoreName))
    predicted = prediction_of(held.outputs, held.task)
    first, second = conformal_parts(
        predicted, cast(IntervalScoreName, chosen), coverage
    )
    targets = like_outputs(held.targets, first)
    return ConformalIntervals.fit(
        first, second, targets, coverage=coverage, score=cast(IntervalScoreName, chosen)
    )


def _sets(
    held: HeldOut,
    coverage: float,
    score: SetScore,
    rule: Rule,
    seed: int | None,
    calibration: Calibration | None,
) -> ConformalSets:
    wanted = "be of samples for sets of classes, not of pixels, which are not drawn "
    wanted += "independently"
    flat = held.outputs.ndim == 3
    require(flat, "outputs", wanted, f"shape {tuple(held.outputs.shape)}")
    outputs, joint = calibrated(held.outputs, calibration)
    probs = prediction_of(outputs, held.task, rule=rule, joint=joint).probs
    return ConformalSets.fit(
        probs, held.targets, coverage=coverage, score=score, seed=seed, rule=rule
    )


DEFAULTS: dict[str, IntervalScoreName] = {
    "regression": "residual",
    "gaussian": "normalized",
    "quantiles": "quantile",
}
