"""What calibration and conformal sets give, beside the plain numbers."""

from collections.abc import Mapping
from typing import Any

from tepui.report.markup import paragraph, table
from tepui.report.tables import Column, cell
from tepui.studies import estimate
from tepui.studies.load_reports import Entry, Group

SCORES = (
    Column("accuracy", "accuracy %", percent=True),
    Column("nll", "NLL"),
    Column("ece", "ECE %", percent=True),
    Column("brier", "Brier"),
)
COVERAGE, SIZE = Column("coverage", "coverage", percent=True), Column("size", "size")


def applied_parts(group: Group) -> list[str]:
    """Return tables of calibrated scores and of coverage, where there are any."""
    return [*_calibrated(group), *_covered(group)]


def _calibrated(group: Group) -> list[str]:
    known = [entry for entry in group.entries if _values(entry, "clean", "nll")]
    if not known:
        return []
    rows = []
    for entry in known:
        plain = [cell(entry.result.score("clean", c.score), c) for c in SCORES]
        after = [cell(_mean(entry, "clean", c.score), c) for c in SCORES]
        rows.append([entry.result.label, "as trained", *plain])
        rows.append([entry.result.label, "calibrated", *after])
    headings = ["method", "probabilities", *(column.title for column in SCORES)]
    about = "Calibration was fitted on held-out data and is applied by predict."
    shown = table("Before and after calibration", headings, rows, words=2)
    return [shown, paragraph(about, "note")]


def _covered(group: Group) -> list[str]:
    known = [entry for entry in group.entries if _values(entry, "clean", "coverage")]
    if not known:
        return []
    first = known[0].result.ensembles[0].evaluation["applied"]
    levels = ["clean", *first["severities"], *first.get("natural", ())]
    rows = []
    for entry in known:
        promised = cell(_mean(entry, "clean", "promised"), COVERAGE)
        for column in (COVERAGE, SIZE):
            cells = [
                cell(_mean(entry, level, column.score), column) for level in levels
            ]
            title = f"{column.title} %" if column.percent else column.title
            rows.append([entry.result.label, title, promised, *cells])
    headings = ["method", "of sets or intervals", "promised %"]
    headings += [f"severity {n}" if n in first["severities"] else n for n in levels]
    about = (
        "How often conformal sets hold the true class, or intervals the true number, "
        "and how many classes a set holds, or how wide an interval is, on average. The "
        "promise is made for data like the held-out ones: where the coverage falls "
        "below it, the data have shifted."
    )
    shown = table("Coverage of conformal sets", headings, rows, words=2)
    return [shown, paragraph(about, "note")]


def _mean(entry: Entry, level: str, name: str) -> Any:
    return estimate(_values(entry, level, name))


def _values(entry: Entry, level: str, name: str) -> list[float]:
    """Return a score of all ensembles that have it."""
    values = []
    for trained in entry.result.ensembles:
        applied: Mapping[str, Any] = trained.evaluation.get("applied") or {}
        at_level = applied.get("severities", {}) | applied.get("natural", {})
        at_level |= {"clean": applied.get("clean", {})}
        value = at_level.get(level, {}).get(name)
        if value is not None:
            values.append(value)
    return values
