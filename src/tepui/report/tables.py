"""The table of a comparison, for the terminal and for the page."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from markupsafe import Markup

from tepui.report.comparison import Comparison
from tepui.report.markup import TableCell, grouped_table
from tepui.report.measures import data_name, kinds, measures_of
from tepui.report.wording import DASH, ends, number, opening
from tepui.studies import Interval, mean_interval

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text


def rows(comparison: Comparison) -> Iterator[tuple[str, list[str | TableCell]]]:
    """Yield the rows of a comparison's table, each with the name of its data."""
    for data in kinds(comparison):
        for method in comparison.methods:
            cells = (
                interval_cell(measure.of(method, data), measure.digits)
                for measure in measures_of(comparison)
            )
            yield data_name(data), [method.label, *cells]


def interval_cell(found: Interval, digits: int) -> TableCell:
    """Return a mean with its interval below it, or a dash; of equal values the mean.

    Example:
        >>> interval_cell(Interval(97.12, 94.24, 100.0, 2), 2)[:2]
        ('97.12', '94.24 to 100')
    """
    if math.isnan(found.mean):
        return TableCell(DASH)
    both = ends(found.low, found.high, digits) if found.reach > 0 else ""
    return TableCell(number(found.mean, digits), small=both)


def mean_cell(values: Sequence[float], scale: float, digits: int) -> TableCell:
    """Return the mean of a share in percent, scale 100, or of a size; a dash of none.

    Example:
        >>> mean_cell([0.5, 0.75], 100, 1), mean_cell([], 1, 2).text
        (TableCell(text='62.5', small='0 to 100', shade=None, hue=''), '–')
    """
    found = mean_interval(scale * value for value in values)
    most = scale if scale == 100 else math.inf
    return interval_cell(found.within(0, most), digits)


def score_table(comparison: Comparison) -> Markup:
    """Return all scores for the page, below the data they were measured on."""
    groups: dict[str, list[list[str | TableCell]]] = {}
    for data, row in rows(comparison):
        groups.setdefault(f"{opening(data)} test data", []).append(row)
    headings = ["method", *(measure.heading for measure in measures_of(comparison))]
    return grouped_table("By data and method, mean and 95 % interval", headings, groups)


def printed_table(comparison: Comparison) -> "Table":
    """Return the table for a terminal.

    Args:
        comparison: The comparison.

    Returns:
        A ``rich`` table of means with their 95 % intervals below them.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(comparison.title), box=SIMPLE_HEAD, padding=(0, 1))
    table.add_column("data", no_wrap=True)
    table.add_column("method", no_wrap=True)
    for measure in measures_of(comparison):
        table.add_column(Text(measure.heading), justify="right")
    last = None
    for data, (label, *cells) in rows(comparison):
        if last not in (None, data):
            table.add_section()
        last = data
        table.add_row(Text(data), Text(str(label)), *map(_in_terminal, cells))
    return table


def _in_terminal(cell: str | TableCell) -> "Text":
    from rich.text import Text

    assert isinstance(cell, TableCell)
    below = [(f"\n{cell.small}", "dim")] if cell.small else []
    return Text.assemble(cell.text, *below)
