"""``tepui claims``: what results say about each claim of the papers."""

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from tepui.cli.console import console, table
from tepui.core.checks import require
from tepui.papers.claims.base import Outcome
from tepui.papers.claims.evidence import read_evidence
from tepui.papers.claims.judging import Verdict, verdicts
from tepui.papers.claims.tables import COLUMNS, cells, document, summary
from tepui.papers.claims.tables import markdown as as_text
from tepui.papers.writing import as_json, free_paths, write_files

EXAMPLE = "tepui claims --from results"
FILES = ("claims.json", "claims.md")
# What a terminal has room for; the reasons are in the Markdown.
SHOWN = ("size", "verdict", "effect", "95 % interval", "n", "p")
COLORS: dict[Outcome, str] = {
    "supported": "green",
    "refuted": "red",
    "undecided": "yellow",
    "no data": "dim",
}


def claims(
    folder: Path = Path("results"),
    out: Path | None = None,
    json: bool = False,
    markdown: bool = False,
    overwrite: bool = False,
) -> None:
    """Judge each claim of the papers, size by size: supported, refuted or undecided.

    Args:
        folder: Folder of results, as tepui reproduce wrote it; those of size smoke are
            left out.
        out: Folder for claims.json, with every comparison, and claims.md.
        json: Print JSON instead of a table.
        markdown: Print Markdown instead of a table.
        overwrite: Replace existing files.
    """
    require(not (json and markdown), "--json", "be left out with --markdown", json)
    if out is not None:
        free_paths(out, FILES, overwrite=overwrite)
    evidence = read_evidence(folder)
    judged = verdicts(evidence)
    contents = dict(
        zip(FILES, (as_json(document(judged)), as_text(judged).encode()), strict=True)
    )
    if out is not None:
        write_files(out, contents, overwrite=overwrite)
    terminal = console()
    if json or markdown:
        text = contents[FILES[0 if json else 1]].decode()
        terminal.out(text, end="", highlight=False)
        return
    terminal.print(_table(judged))
    terminal.print(summary(judged))
    if evidence.smoke:
        shown = ", ".join(sorted(evidence.smoke))
        terminal.print(f"of size smoke, which shows only that code runs: {shown}")
    terminal.print("reasons, commands and claims without data: tepui claims --markdown")
    if out is not None:
        terminal.print(f"written to {out}")


def _table(judged: Sequence[Verdict]) -> Table:
    rows: list[list[str | Text]] = []
    for verdict in judged:
        if verdict.outcome == "no data":
            continue
        by_column = dict(zip(COLUMNS, cells(verdict), strict=True))
        shown: dict[str, str | Text] = {name: by_column[name] for name in SHOWN}
        shown["verdict"] = Text(verdict.outcome, COLORS[verdict.outcome])
        rows.append([verdict.claim, *shown.values()])
    numbers = ("effect", "p")
    return table("claims of the papers", ("claim", *SHOWN), rows, numbers=numbers)
