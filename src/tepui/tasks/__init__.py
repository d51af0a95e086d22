"""What outputs mean: tasks, what they predict, and how that is scored.

Outputs have shape ``(samples, outputs, …)``; further axes are pixels, each of which is
answered on its own. A loss says which task its outputs have, see :func:`task_of`.
"""

from tepui.tasks.base import Task
from tepui.tasks.classes import Classes, ClassPrediction, PixelScores, Scores
from tepui.tasks.gaussians import GaussianPrediction, Gaussians
from tepui.tasks.labels import LabelPrediction, Labels, LabelScores
from tepui.tasks.named import task_of
from tepui.tasks.numbers import (
    Conforming,
    NumberPrediction,
    Numbers,
    NumberScores,
    NumberTask,
)
from tepui.tasks.prediction import Prediction, TaskLacksError
from tepui.tasks.quantiles import QuantilePrediction, Quantiles
from tepui.tasks.scores import TaskScores
from tepui.tasks.unknown import OutputPrediction, OutputScores, Unknown

__all__ = [
    "ClassPrediction",
    "Classes",
    "Conforming",
    "GaussianPrediction",
    "Gaussians",
    "LabelPrediction",
    "LabelScores",
    "Labels",
    "NumberPrediction",
    "NumberScores",
    "NumberTask",
    "Numbers",
    "OutputPrediction",
    "OutputScores",
    "PixelScores",
    "Prediction",
    "QuantilePrediction",
    "Quantiles",
    "Scores",
    "Task",
    "TaskLacksError",
    "TaskScores",
    "Unknown",
    "task_of",
]
