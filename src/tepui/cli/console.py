"""Where commands print, and the tables they print."""

import sys
from collections.abc import Collection, Iterable, Sequence

from rich.console import Console, JustifyMethod, RenderableType
from rich.table import Table

from tepui.training.ranks import place_of_environment


def console() -> Console:
    """Return standard output: as wide as the terminal, or as tables need in a file."""
    width = None if sys.stdout.isatty() else 140
    others = place_of_environment().rank > 0  # under torchrun one process speaks
    # Names of files and methods may hold brackets, which are no markup.
    return Console(width=width, highlight=False, markup=False, quiet=others)


def table(
    title: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[RenderableType]] = (),
    *,
    numbers: Collection[str] = (),
) -> Table:
    """Return a table; numbers are right-aligned, long words wrap."""
    shown = Table(title=title)
    for heading in headings:
        justify: JustifyMethod = "right" if heading in numbers else "left"
        shown.add_column(heading, justify=justify, overflow="fold")
    for row in rows:
        shown.add_row(*row)
    return shown
