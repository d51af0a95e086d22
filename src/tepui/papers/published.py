"""The numbers that the papers print, by the names that our records have too."""

import json
from functools import cache
from importlib.resources import files
from typing import Any

from tepui.studies.results import Record

NAMES = ("dataset", "architecture", "method", "metric")
# Keys of a printed number that say where it stands, beside its names.
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
    file = files("tepui.papers").joinpath("published.json")
    text = file.read_text(encoding="utf-8")
    return tuple(json.loads(text))


def printed(record: Record) -> dict[str, Any] | None:
    """Return the number of the paper that a record is to be held against."""
    names = record.names
    for row in _by_item().get(record.item, ()):
        size = row.get("ensemble_size", names.get("ensemble_size"))
        sized = {**names, "ensemble_size": names.get("ensemble_size", size)}
        row_sized = {**row, "ensemble_size": size}
        if all(row_sized.get(key) == sized.get(key) for key in (*NAMES, *AXES)):
            return row
    return None


@cache
def _by_item() -> dict[str, list[dict[str, Any]]]:
    by_item: dict[str, list[dict[str, Any]]] = {}
    for row in published():
        by_item.setdefault(row["item"], []).append(row)
    return by_item
