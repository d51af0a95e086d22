"""Metrics of one's own that come to an evaluation from the logits beside it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.table import Table

from tepui.cli.console import table
from tepui.core.storage import tensors_document
from tepui.data.shifts import NATURAL
from tepui.evaluation.custom_metrics import Metric, check_metrics, rescored
from tepui.evaluation.stored_logits import LOGITS, StoredLogits, read_logits
from tepui.report.wording import DASH


def new_metrics(
    before: Mapping[str, Any] | None, metrics: Mapping[str, Metric]
) -> dict[str, Metric]:
    """Return those of the metrics that an earlier evaluation does not have.

    Example:
        >>> [*new_metrics({"metrics": ["margin"]}, {"margin": min, "doubt": max})]
        ['doubt']
        >>> new_metrics(None, {"margin": min})
        {}
    """
    if before is None:
        return {}
    known = before.get("metrics", ())
    return {name: metric for name, metric in metrics.items() if name not in known}


def with_metrics(
    before: Mapping[str, Any],
    folder: Path,
    metrics: Mapping[str, Metric],
    of: Mapping[str, Any],
) -> dict[str, Any]:
    """Return an evaluation with further metrics on all of its labeled data.

    Args:
        before: The evaluation, as its file holds it.
        folder: The folder of that file and of the logits.
        metrics: What is added.
        of: What the logits must be of.

    Raises:
        FileNotFoundError: If there are no logits.
        ValueError: If they are of something else, or a metric has the name of a score.
    """
    check_metrics(metrics, tuple(before["clean"]))
    document = rescored(before, _logits(folder, of, [*metrics]), metrics)
    return {**document, "of": {**before["of"], "metrics": document["metrics"]}}


def metric_table(document: Mapping[str, Any], names: list[str], title: str) -> Table:
    """Return the table of some metrics of an evaluation on all of its labeled data."""
    columns = {"clean": document["clean"], "corrupted": document["shifted"]}
    cells = document["cells"]
    columns |= {cell["type"]: cell for cell in cells if cell["severity"] == NATURAL}
    columns = {data: scores for data, scores in columns.items() if scores is not None}
    rows = [
        [name, *(_cell(scores[name]) for scores in columns.values())] for name in names
    ]
    return table(title, ("score", *columns), rows, numbers=columns)


def _cell(value: float | None) -> str:
    return DASH if value is None else f"{value:.4f}"


def _logits(folder: Path, of: Mapping[str, Any], metrics: list[str]) -> StoredLogits:
    """Read the logits that metrics are computed from."""
    file, added = folder / LOGITS, ", ".join(metrics)
    instead = "pass --overwrite to evaluate again, with all metrics that are named"
    if not file.is_file():
        raise FileNotFoundError(
            f"{file} must be there to add {added}, since metrics are computed from "
            f"stored logits; {instead}"
        )
    if tensors_document(file).get("of") != of:
        raise ValueError(
            f"{file} must hold the logits of {folder}'s evaluation to add {added}, and "
            f"holds those of another; {instead}"
        )
    return read_logits(folder)
