"""Losses that return one value per sample.

A loss says what outputs mean, see :func:`tepui.tasks.task_of`; one of your own does by
an attribute ``task``. An ensemble remembers the task from ``fit``, and what it predicts
follows from it. Outputs are ``(samples, outputs, …)``; axes after the second are
pixels, whose losses are averaged like those of several outputs, so that a sample has
one loss.
"""

from tepui.losses.base import Loss
from tepui.losses.classification import (
    BinaryCrossEntropy,
    CrossEntropy,
    SoftCrossEntropy,
    balanced_weights,
    binary_cross_entropy,
    cross_entropy,
    jensen_shannon,
)
from tepui.losses.numbers import (
    MSE,
    GaussianNLL,
    Quantiles,
    gaussian_nll,
    gaussian_parameters,
    pinball,
    squared_error,
)

__all__ = [
    "MSE",
    "BinaryCrossEntropy",
    "CrossEntropy",
    "GaussianNLL",
    "Loss",
    "Quantiles",
    "SoftCrossEntropy",
    "balanced_weights",
    "binary_cross_entropy",
    "cross_entropy",
    "gaussian_nll",
    "gaussian_parameters",
    "jensen_shannon",
    "pinball",
    "squared_error",
]
