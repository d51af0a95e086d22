"""``tepui report``: write the page of a finished comparison again."""

from pathlib import Path

from tepui.cli.console import console
from tepui.experiments import read_comparison
from tepui.report import printed_table, write_report

EXAMPLE = "tepui report runs/digits"


def report(run: Path, out: Path | None = None) -> None:
    """Print a finished comparison's table and write its page.

    Args:
        run: The folder of the comparison.
        out: Where the page goes; into the same folder by default.
    """
    comparison = read_comparison(run)
    terminal = console()
    terminal.print(printed_table(comparison))
    terminal.print(f"report: {write_report(comparison, out or run, run)}")
