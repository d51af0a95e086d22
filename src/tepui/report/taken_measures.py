"""What ``tepui measure`` wrote down of the runs of a page."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from tepui.report.loading import Group
from tepui.report.markup import (
    TableCell,
    definitions,
    folded,
    grouped_table,
    lead,
    note,
)
from tepui.report.measures import shown_name
from tepui.report.wording import DASH, opening
from tepui.studies.stored_measures import stored_measures

ERRORS = (
    " Below a member's sharpness stands its standard error over samples, below the "
    "mean that over members."
)
OF_MEMBERS = "member_"  # begins the names of scores that every member has
Row = Sequence[str | TableCell]


def taken_parts(group: Group) -> list[Markup]:
    """Return a table for every time that an ensemble was measured."""
    about = (
        "Taken by tepui measure and kept in the folders of these runs: sharpness of "
        "every member with its mean over members, diversity and scores of the ensemble."
    )
    parts = [
        part
        for entry in group.entries
        for place, trained in enumerate(entry.result.ensembles, 1)
        for name, found in stored_measures(Path(trained.folder)).items()
        for part in _parts(f"{entry.result.label}, ensemble {place}: {name}", found)
    ]
    return [lead(about), *parts] if parts else []


def _parts(title: str, found: Mapping[str, Any]) -> Iterator[Markup]:
    sharpness, diversity = found.get("sharpness", {}), found.get("diversity", {})
    members = max(
        [len(each["members"]) for each in sharpness.values()]
        + [len(values) for values in diversity.values() if isinstance(values, list)],
        default=0,
    )
    groups = {
        "Sharpness, on training data": [*map(_sharpness, sharpness.items())],
        "Scores and diversity, on test data": [*_diversity(diversity, members)],
        "Unfamiliar samples, AUROC": [*_unfamiliar(found.get("ood", {}), members)],
    }
    headings = ["measure", *(f"member {n}" for n in range(members))]
    known = {name: rows for name, rows in groups.items() if rows}
    yield grouped_table(title, [*headings, "mean or ensemble"], known)
    asked = opening(_words(found.get("settings", {"data": "not recorded"})))
    yield note(f"{asked}.{ERRORS if sharpness else ''}")
    settings = {
        shown_name(name): _words(each["members"][0]["settings"])
        for name, each in sharpness.items()
    }
    if settings:
        yield folded("How sharpness was measured", definitions(settings))


def _sharpness(item: tuple[str, Mapping[str, Any]]) -> Row:
    name, found = item
    mean = {**found, "value": found["mean"]}
    return [shown_name(name), *map(_cell, [*found["members"], mean])]


def _cell(found: Mapping[str, Any]) -> TableCell:
    error = found["standard_error"]
    below = "" if error is None else f"± {error:.2g}"
    return TableCell(_number(found["value"]), small=below)


def _diversity(found: Mapping[str, Any], members: int) -> Iterator[Row]:
    for name, value in found.items():
        if isinstance(value, list) and name.startswith(OF_MEMBERS):
            yield [shown_name(name), *map(_number, value), ""]
        elif not isinstance(value, list):
            yield [shown_name(name), *[""] * members, _number(value)]


def _unfamiliar(found: Mapping[str, Any], members: int) -> Iterator[Row]:
    for data, scores in found.items():
        for score, detected in scores.items():
            title = f"{data}, by {shown_name(score)}"
            yield [title, *[""] * members, _number(detected["auroc"])]


def _number(value: float | None) -> str:
    return DASH if value is None else f"{value:.4g}"


def _words(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {v}" for name, v in settings.items())
