"""The table of a comparison, for the terminal and for the page."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from tepui.report.markup import TableCell, grouped_table
from tepui.report.measures import Measure, data_name, kinds, measures_of
from tepui.report.wording import DASH, number, opening
from tepui.studies import Comparison, Interval, MethodResult
from tepui.studies.comparison import differing
from tepui.studies.contrasts import leads

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class ScoreRow:
    """A row of the table."""

    data: str  # "clean", "corrupted" or the name of a natural shift
    method: str  # the method's label
    cells: tuple[TableCell, ...]  # one per measure


def rows(comparison: Comparison) -> Iterator[ScoreRow]:
    """Yield the rows of a comparison's table."""
    for data in kinds(comparison):
        for method in comparison.methods:
            cells = (
                score_cell(measure, method, comparison.methods, data)
                for measure in measures_of(comparison)
            )
            yield ScoreRow(data_name(data), method.label, tuple(cells))


def score_cell(
    measure: Measure, method: MethodResult, methods: Sequence[MethodResult], data: str
) -> TableCell:
    """Return a mean and its interval, bold where it is apart from all other methods."""
    others = [other for other in methods if other is not method]
    ahead = leads(method, others, measure.read(data), measure.step(data, method))
    return interval_cell(measure.of(method, data), measure.digits, bold=ahead)


def interval_cell(found: Interval, digits: int, *, bold: bool = False) -> TableCell:
    """Return a mean with half its interval, or a dash.

    Example:
        >>> interval_cell(Interval(97.12, 96.0, 98.24, 3), 2)[:3]
        ('97.12', False, '± 1.12')
    """
    if math.isnan(found.mean):
        return TableCell(DASH)
    known = not math.isnan(found.reach)
    half = f"± {number(found.reach, digits)}" if known else ""
    return TableCell(number(found.mean, digits), bold, half)


def in_line(cell: TableCell) -> str:
    """Return a cell as one line of text."""
    return f"{cell.text} {cell.small}".rstrip()


def score_table(comparison: Comparison) -> Markup:
    """Return all scores for the page, below the data they were measured on."""
    groups: dict[str, list[list[str | TableCell]]] = {}
    for row in rows(comparison):
        title = f"{opening(row.data)} test data"
        groups.setdefault(title, []).append([row.method, *row.cells])
    headings = ["method", *(measure.heading for measure in measures_of(comparison))]
    return grouped_table(
        "All scores, mean ± half of the 95 % interval", headings, groups
    )


def printed_table(comparison: Comparison) -> "Table":
    """Return the table for a terminal.

    Args:
        comparison: The comparison.

    Returns:
        A ``rich`` table of means ± half of their 95 % intervals. Bold is what is apart
        from all other methods by the paired interval over shared seeds.
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
    for row in rows(comparison):
        if last not in (None, row.data):
            table.add_section()
        last = row.data
        cells = [Text(in_line(cell), "bold" if cell.bold else "") for cell in row.cells]
        table.add_row(Text(row.data), Text(row.method), *cells)
    apart = [
        f"{name}: {', '.join(f'{label} {value}' for label, value in values.items())}"
        for name, values in differing(comparison.methods).items()
    ]
    table.caption = Text(f"methods differ in {'; '.join(apart)}") if apart else None
    return table
