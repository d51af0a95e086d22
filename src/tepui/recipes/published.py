"""The numbers that the papers print, by the names that our records have too."""

import json
from functools import cache
from importlib.resources import files
from typing import Any

from tepui.experiments.results import Record

# What a number of a paper and one of ours must agree in.
JOINED = (
    "dataset",
    "architecture",
    "method",
    "metric",
    "severity",
    "aggregation",
    "score",
    "width",
    "sparsity",
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
        The paper's, None if it prints none. All names and coordinates agree; the size
        of ensembles, which is often the same for a whole table, where both have it.
    """
    names = record.names
    for row in _by_item().get(record.item, ()):
        size = row.get("ensemble_size", names.get("ensemble_size"))
        same_size = names.get("ensemble_size", size) == size
        if same_size and all(row.get(name) == names.get(name) for name in JOINED):
            return row
    return None


@cache
def _by_item() -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in published():
        found.setdefault(row["item"], []).append(row)
    return found
