"""From outputs to the prediction of their task."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from tepui.core.checks import require
from tepui.core.task import CLASSIFICATION, Task
from tepui.data.arrays import Normalize
from tepui.ensembles.class_prediction import ClassPrediction
from tepui.ensembles.label_prediction import LabelPrediction
from tepui.ensembles.number_prediction import (
    GaussianPrediction,
    NumberPrediction,
    OutputPrediction,
    QuantilePrediction,
)
from tepui.ensembles.prediction import Prediction
from tepui.metrics import Calibration, Conformity, HeldOutScores, Isotonic, Rule


def prediction_of(
    outputs: Tensor,
    task: Task | None,
    *,
    rule: Rule = "probability",
    classes: tuple[str, ...] = (),
    units: Normalize | None = None,
    joint: Tensor | None = None,
    conformity: Conformity | None = None,
    held_out_scores: HeldOutScores | None = None,
    feature_scores: Mapping[str, Tensor] | None = None,
    uncalibrated: Tensor | None = None,
) -> Prediction:
    """Return what outputs predict by their task, or by their shape if it is None."""
    task = settled(task, tuple(outputs.shape))
    known: dict[str, Any] = {
        "conformity": conformity,
        "held_out_scores": held_out_scores,
        "feature_scores": feature_scores or {},
        "uncalibrated": uncalibrated,
    }
    if task.name == "classification":
        return ClassPrediction(
            outputs, rule=rule, classes=classes, joint=joint, **known
        )
    if task.name == "multi_label":
        return LabelPrediction(outputs, rule=rule, classes=classes, **known)
    if task.name == "regression":
        return NumberPrediction(outputs, units=units, **known)
    if task.name == "gaussian":
        return GaussianPrediction(outputs, units=units, **known)
    if task.name == "quantiles":
        return QuantilePrediction(outputs, task=task, units=units, **known)
    return OutputPrediction(outputs)


def calibrated(
    outputs: Tensor, calibration: Calibration | None
) -> tuple[Tensor, Tensor | None]:
    """Return members' calibrated logits, and log-probabilities of the whole.

    A calibration has one or the other: where it changes the whole, members keep their
    logits.
    """
    if calibration is None:
        return outputs, None
    flat = outputs.movedim(2, -1).flatten(1, -2) if outputs.ndim > 3 else outputs
    changed = calibration.apply(flat)
    if isinstance(calibration, Isotonic):
        return outputs, changed
    if outputs.ndim > 3:
        sizes = (*outputs.shape[:2], *outputs.shape[3:], outputs.shape[2])
        return changed.reshape(sizes).movedim(-1, 2), None
    return changed, None


def settled(task: Task | None, shape: tuple[int, ...]) -> Task:
    """Return a task; of an ensemble that names none, what its outputs can only be.

    Two outputs or more per sample are taken for logits of classes. One output is no
    choice between classes: whether it is a number or the logit of a yes is for the
    user to say.
    """
    if task is not None:
        return task
    rule = (
        "name its task, such as Ensemble(..., task=Task('regression')), where outputs "
        "are not logits of two classes or more"
    )
    several = len(shape) > 2 and shape[2] > 1
    require(several, "ensemble", rule, f"outputs of shape {shape}")
    return CLASSIFICATION


def require_classes(task: Task | None, what: str) -> None:
    """Refuse what is defined for a choice between classes alone."""
    fits = task is None or task == CLASSIFICATION
    rule = f"choose between classes for {what}"
    require(fits, "ensemble", rule, f"the task {str(task)!r}")
