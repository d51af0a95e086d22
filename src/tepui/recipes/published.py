"""The numbers that the papers print, by the names that our records have too."""

import json
from functools import cache
from importlib.resources import files
from typing import Any

from tepui.experiments.results import Record

# Keys of a printed number that say where it stands, beside the five names.
AXES = (
    "severity",
    "ensemble_size",
    "aggregation",
    "score",
    "width",
    "sparsity",
    "sharpness_data",
)


@cache
def published() -> tuple[dict[str, Any], ...]:
    """Return every number of the three papers."""
    text = files("tepui.recipes").joinpath("published.json").read_text()
    return tuple(json.loads(text))


def printed(record: Record) -> dict[str, Any] | None:
    """Return the number of the paper that a record is to be held against.

    Args:
        record: Ours.

    Returns:
        The paper's, None if it prints none. Where several coordinates are the same
        for a whole table, the paper's records may leave them out.
    """
    names = record.names
    for row in _by_item().get(record.item, ()):
        fixed = ("dataset", "architecture", "method", "metric")
        axes = {axis for axis in AXES if axis in row}
        if all(row[name] == names[name] for name in fixed) and all(
            row[axis] == names.get(axis, row[axis]) for axis in axes
        ):
            extra = {axis for axis in AXES if axis in names} - axes
            if extra <= {"ensemble_size"}:
                return row
    return None


@cache
def _by_item() -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in published():
        found.setdefault(row["item"], []).append(row)
    return found
