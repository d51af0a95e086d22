"""The table of a comparison, for the terminal and for the page."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tepui.studies import Comparison, Estimate, MethodResult, estimate

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Column:
    """A column of the table."""

    # the score of :class:`tepui.Scores` it shows, a metric of the caller's own, or
    # "sharpness"
    score: str
    title: str  # its heading
    percent: bool = False  # whether it is shown in percent
    best: str | None = None  # "max" or "min", where one direction is better


COLUMNS = (
    Column("individual_accuracy", "individual", percent=True, best="max"),
    Column("accuracy", "ensemble", percent=True, best="max"),
    Column("improvement", "gain", percent=True),
    Column("der", "DER"),
    Column("ece", "ECE", percent=True, best="min"),
    Column("nll", "NLL", best="min"),
)
# What evaluations of other tasks have instead, or beside.
OF_OTHER_TASKS = (
    Column("mean_iou", "mIoU", percent=True, best="max"),
    Column("mean_average_precision", "mAP", percent=True, best="max"),
    Column("individual_rmse", "members' RMSE", best="min"),
    Column("rmse", "RMSE", best="min"),
    Column("crps", "CRPS", best="min"),
    Column("interval_coverage", "coverage", percent=True),
    Column("interval_width", "width", best="min"),
    Column("quantile_calibration", "quantile error", percent=True, best="min"),
    Column("spread", "spread"),
)
SHARPNESS = Column("sharpness", "sharpness")
DATA = {"clean": "clean", "shifted": "corrupted"}


@dataclass(frozen=True)
class Row:
    """A row of the table."""

    data: str  # "clean", "corrupted" or the name of a natural shift
    method: str  # the method's label
    cells: tuple[str, ...]  # one text per column
    best: tuple[bool, ...]  # whether each cell is the best of its column


def rows(comparison: Comparison) -> Iterator[Row]:
    """Yield the rows of a comparison's table."""
    for data in kinds(comparison):
        shown = columns(comparison)
        estimates = {
            method.label: [_estimate(method, data, column) for column in shown]
            for method in comparison.methods
        }
        winners = [
            best_of([row[index].mean for row in estimates.values()], column)
            for index, column in enumerate(shown)
        ]
        for label, row in estimates.items():
            yield Row(
                DATA.get(data, data),
                label,
                tuple(map(cell, row, shown)),
                tuple(e.mean == w for e, w in zip(row, winners, strict=True)),
            )


def kinds(comparison: Comparison) -> list[str]:
    """Return the data on which all methods were tested, clean ones first."""
    corrupted = ["shifted"] if comparison.has_shift else []
    return ["clean", *corrupted, *comparison.natural_shifts]


def columns(comparison: Comparison) -> tuple[Column, ...]:
    """Return the columns that a comparison fills, the caller's own metrics last."""
    custom = (Column(name, shown_name(name)) for name in comparison.custom_metrics)
    sharpness = (SHARPNESS,) if comparison.has_sharpness else ()
    known = comparison.score_names
    shown = (c for c in (*COLUMNS, *OF_OTHER_TASKS) if c.score in known)
    return (*shown, *sharpness, *custom)


def shown_name(score: str) -> str:
    """Return the name of a score or metric as headings show it."""
    return score.replace("_", " ")


def cell(value: Estimate, column: Column) -> str:
    """Return an estimate as text, with its standard error where it has one.

    Example:
        >>> cell(Estimate(0.9712, 0.003, 3), COLUMNS[1])
        '97.12 ± 0.30'
    """
    if math.isnan(value.mean):
        return "–"  # noqa: RUF001 - a dash in a table
    scale, digits = (100, 2) if column.percent else (1, 3)
    text = f"{scale * value.mean:.{digits}f}"
    if math.isnan(value.error):
        return text
    return f"{text} ± {scale * value.error:.{digits}f}"


def headings(comparison: Comparison) -> list[str]:
    """Return the headings of the score columns, with their units."""
    return [f"{c.title} %" if c.percent else c.title for c in columns(comparison)]


def printed_table(comparison: Comparison) -> "Table":
    """Return the table for a terminal.

    Args:
        comparison: The comparison.

    Returns:
        A ``rich`` table.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(comparison.title), box=SIMPLE_HEAD, padding=(0, 1))
    table.add_column("data", no_wrap=True)
    table.add_column("method", no_wrap=True)
    for heading in headings(comparison):
        table.add_column(Text(heading), justify="right")
    last = None
    for row in rows(comparison):
        if last not in (None, row.data):
            table.add_section()
        last = row.data
        cells = [
            Text(text, "bold" if best else "")
            for text, best in zip(row.cells, row.best, strict=True)
        ]
        table.add_row(Text(row.data), Text(row.method), *cells)
    return table


def _estimate(method: MethodResult, data: str, column: Column) -> Estimate:
    """Return what a cell shows; sharpness, of training data, goes with clean data."""
    if column is not SHARPNESS:
        return method.score(data, column.score)
    return method.sharpness if data == "clean" else estimate([])


def best_of(values: list[float], column: Column) -> float | None:
    """Return the best of a column's means; None where none is better than others."""
    defined = [value for value in values if not math.isnan(value)]
    if column.best is None or len(defined) < 2:
        return None
    return max(defined) if column.best == "max" else min(defined)
