"""The table of a comparison, for the terminal and for the page."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markupsafe import Markup

from tepui.report.comparison import Comparison, MethodResult, differing
from tepui.report.contrasts import leads
from tepui.report.markup import TableCell, grouped_table
from tepui.report.measures import Measure, data_name, kinds, measures_of
from tepui.report.wording import DASH, ends, number, opening
from tepui.studies import Interval, mean_interval

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text


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
    """Return a mean and its interval, bold where it is better than all others'."""
    others = [other for other in methods if other is not method]
    read, step = measure.read(data), measure.step(data, method)
    ahead = leads(method, others, read, step, better=measure.better)
    return interval_cell(measure.of(method, data), measure.digits, bold=ahead)


def interval_cell(found: Interval, digits: int, *, bold: bool = False) -> TableCell:
    """Return a mean with its interval below it, or a dash; of equal values the mean.

    Example:
        >>> interval_cell(Interval(97.12, 94.24, 100.0, 2), 2)[:3]
        ('97.12', False, '94.24 to 100')
    """
    if math.isnan(found.mean):
        return TableCell(DASH)
    both = ends(found.low, found.high, digits) if found.reach > 0 else ""
    return TableCell(number(found.mean, digits), bold, both)


def mean_cell(
    values: Sequence[float], scale: float, digits: int, *, step: float = 0.0
) -> TableCell:
    """Return the mean of a share in percent, scale 100, or of a size; a dash of none.

    Example:
        >>> mean_cell([0.5, 0.75], 100, 1), mean_cell([], 1, 2).text
        (TableCell(text='62.5', bold=False, small='0 to 100', shade=None, hue=''), '–')
    """
    found = mean_interval((scale * value for value in values), step)
    most = scale if scale == 100 else math.inf
    return interval_cell(found.within(0, most), digits)


def score_table(comparison: Comparison) -> Markup:
    """Return all scores for the page, below the data they were measured on."""
    groups: dict[str, list[list[str | TableCell]]] = {}
    for row in rows(comparison):
        title = f"{opening(row.data)} test data"
        groups.setdefault(title, []).append([row.method, *row.cells])
    headings = ["method", *(measure.heading for measure in measures_of(comparison))]
    return grouped_table("By data and method, mean and 95 % interval", headings, groups)


def printed_table(comparison: Comparison) -> "Table":
    """Return the table for a terminal.

    Args:
        comparison: The comparison.

    Returns:
        A ``rich`` table of means with their 95 % intervals below them. Bold is what is
        better than all other methods by the paired interval over shared seeds.
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
        table.add_row(Text(row.data), Text(row.method), *map(_in_terminal, row.cells))
    apart = [
        f"{name}: {', '.join(f'{label} {value}' for label, value in values.items())}"
        for name, values in differing(comparison.methods).items()
    ]
    table.caption = Text(f"methods differ in {'; '.join(apart)}") if apart else None
    return table


def _in_terminal(cell: TableCell) -> "Text":
    from rich.text import Text

    below = [(f"\n{cell.small}", "dim")] if cell.small else []
    return Text.assemble((cell.text, "bold" if cell.bold else ""), *below)
