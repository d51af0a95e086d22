"""Where commands print."""

import sys

from rich.console import Console


def console() -> Console:
    """Return standard output: as wide as the terminal, or as tables need in a file."""
    return Console(width=None if sys.stdout.isatty() else 140, highlight=False)
