"""``tepui report``: show runs of any kind on one page."""

import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

from tepui.cli.console import console

if TYPE_CHECKING:
    from tepui.studies.results import Record


def report(
    runs: list[Path],
    /,
    *,
    out: Path | None = None,
    overwrite: bool = False,
    open: bool = False,
) -> None:
    """Write one page about any number of runs, and print their tables.

    Such as:

        tepui report runs/digits --open
        tepui report runs/sam runs/flat --out runs/both
        tepui report runs/digits results/small/sharpbalance/figure7

    Args:
        runs: Folders of comparisons, of evaluated runs, and of results of tepui
            reproduce.
        out: The folder of the page; that of a single run, or the next free
            runs/report-NNN for several, by default.
        overwrite: Replace the page of other runs.
        open: Show the page in a browser.
    """
    from tepui.cli.folders import check_there, folder_for
    from tepui.core.replacing import check_writable
    from tepui.report import printed_table, write_report
    from tepui.report.loading import load_reports
    from tepui.report.page import PAGE
    from tepui.report.sections import claim

    for run in runs:
        check_there(run)
    alone = len(runs) == 1 and out in (None, runs[0])
    folder = runs[0] if alone else folder_for("report", out, resume=False)
    check_writable(folder)
    loaded = load_reports(runs)
    page = folder / PAGE
    if page.exists() and not (alone or overwrite):
        raise FileExistsError(f"{page} exists; pass --overwrite to replace it")
    terminal = console()
    terminal.print(loaded.title)
    if loaded.comparison is not None:
        terminal.print(printed_table(loaded.comparison))
        terminal.print(claim(loaded.comparison))
    for study in loaded.studies:
        terminal.print(f"{study.results.name}: {study.results.title}")
    page = write_report(loaded, folder, _numbers)
    terminal.print(f"report: {page}")
    if not (open and webbrowser.open(page.resolve().as_uri())):
        terminal.print(f"next: open {page} in a browser")


def _numbers(record: "Record") -> tuple[str, str]:
    from tepui.papers.reproduce import own_cell, paper_cell

    return paper_cell(record), own_cell(record)
