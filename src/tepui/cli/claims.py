"""``tepui claims``: what results say about each claim of the papers."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from tepui.cli.console import console, table
from tepui.core.checks import require
from tepui.papers.claims.base import Outcome
from tepui.papers.claims.evidence import read_evidence
from tepui.papers.claims.judging import CLAIMS, Verdict, verdicts
from tepui.papers.claims.tables import cells, document
from tepui.papers.claims.tables import markdown as as_text
from tepui.papers.writing import as_json, free_paths, write_files

EXAMPLE = "tepui claims --from results"
FILES = ("claims.json", "claims.md")
COLORS: dict[Outcome, str] = {
    "supported": "green",
    "refuted": "red",
    "undecided": "yellow",
}


def claims(
    folder: Path = Path("results"),
    out: Path | None = None,
    json: bool = False,
    markdown: bool = False,
    overwrite: bool = False,
) -> None:
    """Judge each claim of the papers: supported, refuted or undecided.

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
    judged = verdicts(read_evidence(folder))
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
    counts = Counter(verdict.outcome for verdict in judged)
    terminal.print(", ".join(f"{counts[name]} {name}" for name in COLORS))
    if out is not None:
        terminal.print(f"written to {out}")


def _table(judged: Sequence[Verdict]) -> Table:
    numbers = ("effect", "95 % interval", "n", "p")
    rows: list[list[str | Text]] = []
    for claim, verdict in zip(CLAIMS, judged, strict=True):
        marked = Text(verdict.outcome, COLORS[verdict.outcome])
        rows.append([claim.name, marked, *cells(verdict)[1:], verdict.why])
    headings = ("claim", "verdict", *numbers, "printed", "why")
    return table("claims of the papers", headings, rows, numbers=numbers)
