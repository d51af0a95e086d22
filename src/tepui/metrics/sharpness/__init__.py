"""Sharpness of a model's loss: functions of a model, a loss and data."""

from tepui.metrics.sharpness.fisher import fisher_trace, mean_fisher_trace
from tepui.metrics.sharpness.per_sample import (
    sam_gap,
    sample_hessian_trace,
    worst_case_gap,
)

__all__ = [
    "fisher_trace",
    "mean_fisher_trace",
    "sam_gap",
    "sample_hessian_trace",
    "worst_case_gap",
]
