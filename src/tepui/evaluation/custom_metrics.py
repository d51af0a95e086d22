"""Metrics of the user's own, beside the scores of every evaluation."""

from collections.abc import Callable, Iterable, Mapping
from numbers import Real
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.evaluation.stored_logits import StoredLogits

Metric = Callable[[Tensor, Tensor], Any]
"""A function of logits ``(members, samples, classes)`` and labels: a scalar."""


def check_metrics(metrics: object, taken: tuple[str, ...]) -> None:
    """Check that metrics are functions whose names are not those of built-in scores."""
    rule = "map names to functions of logits and labels"
    if not isinstance(metrics, Mapping):
        raise ValueError(f"metrics must {rule}, got {type(metrics).__name__}")
    for name, metric in metrics.items():
        require(isinstance(name, str) and name != "", "metrics", rule, name)
        require(callable(metric), f"metrics[{name!r}]", "be a function", metric)
        rule_of_names = "have another name than the built-in scores"
        require(name not in taken, "metrics", rule_of_names, name)


def metric_values(
    metrics: Mapping[str, Metric], logits: Tensor, labels: Tensor
) -> dict[str, float]:
    """Return the value of each metric.

    Example:
        >>> mean_logit = {"mean_logit": lambda logits, labels: logits.mean()}
        >>> metric_values(mean_logit, torch.ones(2, 5, 3), torch.zeros(5))
        {'mean_logit': 1.0}
    """
    with torch.no_grad():
        return {
            name: _value(f"metrics[{name!r}]", metric, logits, labels)
            for name, metric in metrics.items()
        }


def rescored(
    document: Mapping[str, Any], stored: StoredLogits, metrics: Mapping[str, Metric]
) -> dict[str, Any]:
    """Return an evaluation's document with the values that its metrics have now."""
    cells = {cell: metric_values(metrics, *of) for cell, of in stored.shifted.items()}
    found = dict(document)
    found["clean"] = document["clean"] | metric_values(metrics, *stored.clean)
    if cells:
        found["shifted"] = document["shifted"] | _means(cells.values())
    found["severities"] = {
        level: row | _means(of for (_, each), of in cells.items() if str(each) == level)
        for level, row in document["severities"].items()
    }
    found["cells"] = [
        row | cells[row["type"], row["severity"]] for row in document["cells"]
    ]
    return found


def _means(several: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each metric over several data sets."""
    rows = [*several]
    return {name: fmean(row[name] for row in rows) for name in rows[0]}


def _value(argument: str, metric: Metric, logits: Tensor, labels: Tensor) -> float:
    versions = logits._version, labels._version
    result = metric(logits, labels)
    untouched = (logits._version, labels._version) == versions
    require(untouched, argument, "leave logits and labels as they are", "changed ones")
    if isinstance(result, Tensor):
        shape = tuple(result.shape)
        require(shape == (), argument, "return a scalar, not a tensor of shape", shape)
        return float(result)
    number = isinstance(result, Real)
    require(number, argument, "return a scalar", type(result).__name__)
    return float(result)
