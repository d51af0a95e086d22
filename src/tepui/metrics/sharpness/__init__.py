"""Sharpness of a model's loss: functions of a model, a loss and data."""

from tepui.metrics.sharpness.fisher import fisher_trace, mean_fisher_trace

__all__ = ["fisher_trace", "mean_fisher_trace"]
