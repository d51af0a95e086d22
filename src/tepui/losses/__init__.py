"""Losses that return one value per sample.

A loss says what outputs mean, see :func:`tepui.tasks.task_of`; one of your own does by
an attribute ``task``. An ensemble remembers the task from ``fit``, and what it predicts
follows from it. Outputs are ``(samples, outputs, …)``; axes after the second are
pixels, whose losses are averaged like those of several outputs, so that a sample has
one loss.
"""

from tepui.losses.base import Loss
from tepui.losses.class_weights import balanced_weights
from tepui.losses.classification import CrossEntropy, cross_entropy
from tepui.losses.consistency import jensen_shannon
from tepui.losses.gaussian import GaussianNLL, gaussian_nll, gaussian_parameters
from tepui.losses.multi_label import BinaryCrossEntropy, binary_cross_entropy
from tepui.losses.quantiles import Quantiles, pinball
from tepui.losses.regression import MSE, squared_error

__all__ = [
    "MSE",
    "BinaryCrossEntropy",
    "CrossEntropy",
    "GaussianNLL",
    "Loss",
    "Quantiles",
    "balanced_weights",
    "binary_cross_entropy",
    "cross_entropy",
    "gaussian_nll",
    "gaussian_parameters",
    "jensen_shannon",
    "pinball",
    "squared_error",
]
