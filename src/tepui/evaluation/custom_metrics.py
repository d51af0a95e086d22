"""Custom metrics, computed beside the scores of every evaluation."""

from collections.abc import Callable, Iterable, Mapping
from numbers import Real
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.core.storage import finite_or_none
from tepui.data.shifts import NATURAL
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
        free = name not in taken
        require(free, "metrics", "have other names than the built-in scores", name)


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
    """Return an evaluation's document with current values of custom metrics.

    Those that it has not had are added; those that are not given stay. Logits that are
    stored in 16 bits are given to them in float32.
    """
    cells = {
        cell: metric_values(metrics, logits.float(), labels)
        for cell, (logits, labels) in stored.shifted.items()
    }
    logits, labels = stored.clean
    clean = metric_values(metrics, logits.float(), labels)
    updated = dict(document)
    updated["metrics"] = [*dict.fromkeys([*document.get("metrics", ()), *metrics])]
    updated["clean"] = _with(document["clean"], clean)
    copies = [values for (_, hard), values in cells.items() if hard != NATURAL]
    if copies:
        updated["shifted"] = _with(document["shifted"], _means(copies))
    updated["severities"] = {
        level: _with(
            row, _means(of for (_, hard), of in cells.items() if str(hard) == level)
        )
        for level, row in document["severities"].items()
    }
    rows = document["cells"]
    updated["cells"] = [_with(row, cells[row["type"], row["severity"]]) for row in rows]
    return updated


def _with(row: Mapping[str, Any], values: Mapping[str, float]) -> dict[str, Any]:
    """Return scores and values as JSON takes them, with None for what is undefined."""
    return {**row, **finite_or_none(values)}


def _means(several: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each metric over several data sets."""
    rows = [*several]
    return {name: fmean(row[name] for row in rows) for name in rows[0]}


def _value(argument: str, metric: Metric, logits: Tensor, labels: Tensor) -> float:
    versions = logits._version, labels._version
    result = metric(logits, labels)
    unchanged = (logits._version, labels._version) == versions
    require(unchanged, argument, "leave logits and labels unchanged", "changed ones")
    if isinstance(result, Tensor):
        shape = tuple(result.shape)
        require(shape == (), argument, "return a scalar, not a tensor of shape", shape)
    else:
        kind = type(result).__name__
        require(isinstance(result, Real), argument, "return a scalar", kind)
    return float(result)
