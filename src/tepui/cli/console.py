"""Where commands print, and the tables they print."""

import sys
import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from tepui.core.processes import place_of_environment
from tepui.core.text import printable


class _Console(Console):
    """A console that no name of a file or class can command."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Return text without control characters."""
        return super().render_str(printable(text, lines=True), **options)


def console() -> Console:
    """Return standard output: as wide as the terminal, or as tables need in a file."""
    width = None if sys.stdout.isatty() else 140
    others = place_of_environment().rank > 0  # under torchrun one process speaks
    # Names of files and methods may hold brackets and colons, which are no markup.
    return _Console(
        width=width, highlight=False, markup=False, emoji=False, quiet=others
    )


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Show warnings as a user reads them, without the place in the source."""
    before = warnings.formatwarning
    warnings.formatwarning = _plain
    try:
        yield
    finally:
        warnings.formatwarning = before


def _plain(message: object, *place: object, **more: object) -> str:
    return f"warning: {printable(str(message), lines=True)}\n"


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
