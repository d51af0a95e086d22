"""What ``tepui measure`` wrote down of the runs of a page."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from tepui.report.loading import Group
from tepui.report.markup import TableCell, definitions, grouped_table
from tepui.report.measures import shown_name
from tepui.report.wording import DASH
from tepui.studies.stored_measures import stored_measures

Row = Sequence[str | TableCell]


def taken_parts(group: Group) -> list[Markup]:
    """Return a table for every time that an ensemble was measured."""
    return [
        part
        for entry in group.entries
        for place, trained in enumerate(entry.result.ensembles, 1)
        for name, found in stored_measures(Path(trained.folder)).items()
        for part in _parts(f"{entry.result.label}, ensemble {place}: {name}", found)
    ]


def _parts(title: str, found: Mapping[str, Any]) -> Iterator[Markup]:
    sharpness, diversity = found.get("sharpness", {}), found.get("diversity", {})
    counts = [len(each["members"]) for each in sharpness.values()]
    counts += [len(values) for values in diversity.values() if isinstance(values, list)]
    members = max(counts, default=0)
    blank, settings = [""] * members, {"settings": found.get("settings", {})}
    rows: dict[str, list[Row]] = {"Sharpness ± standard error": [], "Other": []}
    for name, each in sharpness.items():
        settings[name] = each["members"][0]["settings"]
        values = [*each["members"], {**each, "value": each["mean"]}]
        rows["Sharpness ± standard error"].append(
            [shown_name(name), *map(_cell, values)]
        )
    for name, value in diversity.items():
        whole = [*map(_number, value), ""] if isinstance(value, list) else None
        rows["Other"].append([shown_name(name), *(whole or [*blank, _number(value)])])
    for data, scores in found.get("ood", {}).items():
        for score, detected in scores.items():
            about = f"AUROC of {data}, by {shown_name(score)}"
            rows["Other"].append([about, *blank, _number(detected["auroc"])])
    headings = ["measure", *(f"member {n}" for n in range(members)), "mean or ensemble"]
    yield grouped_table(title, headings, {k: own for k, own in rows.items() if own})
    yield definitions({shown_name(name): _words(own) for name, own in settings.items()})


def _cell(found: Mapping[str, Any]) -> TableCell:
    error = found["standard_error"]
    below = "" if error is None else f"± {error:.2g}"
    return TableCell(_number(found["value"]), small=below)


def _number(value: float | None) -> str:
    return DASH if value is None else f"{value:.4g}"


def _words(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {v}" for name, v in settings.items())
