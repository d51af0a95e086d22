"""Ensembles, their predictions, and members with weights from other programs."""

from tepui.ensembles.class_prediction import ClassPrediction
from tepui.ensembles.ensemble import Ensemble
from tepui.ensembles.foreign_weights import ensemble_of
from tepui.ensembles.joint_logits import JointLogits
from tepui.ensembles.label_prediction import LabelPrediction
from tepui.ensembles.loading import load
from tepui.ensembles.number_prediction import (
    GaussianPrediction,
    NumberPrediction,
    OutputPrediction,
    QuantilePrediction,
)
from tepui.ensembles.prediction import Prediction, TaskLacksError

__all__ = [
    "ClassPrediction",
    "Ensemble",
    "GaussianPrediction",
    "JointLogits",
    "LabelPrediction",
    "NumberPrediction",
    "OutputPrediction",
    "Prediction",
    "QuantilePrediction",
    "TaskLacksError",
    "ensemble_of",
    "load",
]
