"""``tepui claims``: what results say about each claim of the papers."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.padding import Padding
from rich.text import Text

from tepui.cli.console import console
from tepui.core.checks import require

if TYPE_CHECKING:
    from tepui.papers.claims.base import Claim
    from tepui.papers.claims.judging import Verdict

FILES = ("claims.json", "claims.md")
COLORS = {
    "supported": "green",
    "refuted": "red",
    "transfers": "green",
    "does not transfer": "red",
    "undecided": "yellow",
    "no data": "dim",
}


def claims(
    *,
    folder: Annotated[Path, Parameter(name="--from")] = Path("results"),
    out: Path | None = None,
    json: bool = False,
    markdown: bool = False,
    overwrite: bool = False,
) -> None:
    """Judge each claim of the papers, size by size.

    On real data it is supported or refuted, on stand-ins it transfers or does not.

    Such as:

        tepui claims
        tepui claims --from results --markdown
        tepui claims --from results --out verdicts

    Args:
        folder: Folder of results, as tepui reproduce wrote it; those of size smoke are
            left out.
        out: Folder for claims.json, with every comparison, and claims.md.
        json: Print JSON instead of sentences.
        markdown: Print Markdown with the reasons instead.
        overwrite: Replace existing files.
    """
    from tepui.cli.folders import say
    from tepui.papers.claims.evidence import read_evidence
    from tepui.papers.claims.judging import verdicts
    from tepui.papers.claims.tables import document, summary
    from tepui.papers.claims.tables import markdown as as_text
    from tepui.papers.writing import as_json, free_paths, write_files

    require(not (json and markdown), "--json", "be left out with --markdown", json)
    if out is not None:
        free_paths(out, FILES, overwrite=overwrite)
    evidence = read_evidence(folder)
    if not evidence.data:
        say(
            f"no results of the papers' figures and tables in {folder} (those of size "
            "smoke do not count): what follows needs none (make some with: tepui "
            "reproduce)"
        )
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
    for line in _lines(judged):
        terminal.print(line)
    terminal.print(summary(judged))
    terminal.print("reasons, commands and claims without data: tepui claims --markdown")
    if out is not None:
        terminal.print(f"written to {out}")


def _lines(judged: "Sequence[Verdict]") -> Iterator[Text | Padding]:
    """Yield each claim in its sentence, and below it a verdict for every size."""
    from tepui.papers.claims.judging import CLAIMS

    known = {claim.name: claim for claim in CLAIMS}
    heard = (verdict for verdict in judged if verdict.outcome != "no data")
    for name, found in groupby(heard, key=lambda verdict: verdict.claim):
        claim = known[name]
        yield Text.assemble((name, "bold"), f": {claim.text} (effect: {claim.effect})")
        for verdict in found:
            outcome = (verdict.outcome, COLORS[verdict.outcome])
            reason = f" ({verdict.reason})" if verdict.reason else ""
            numbers = _numbers(verdict) + _which(verdict, claim)
            said = Text.assemble(f"{verdict.size}: ", outcome, reason, numbers)
            yield Padding(said, (0, 0, 0, 2), expand=False)


def _which(verdict: "Verdict", claim: "Claim") -> str:
    """Return which of several comparisons the numbers of a verdict are those of."""
    from tepui.papers.claims.base import decide

    decision = decide(verdict.findings, claim.scope)
    if verdict.effect is None or decision is None or len(verdict.findings) == 1:
        return ""
    return f"; {decision.finding.where}"


def _numbers(verdict: "Verdict") -> str:
    """Return what a verdict rests on; the reasons are in the Markdown."""
    from tepui.papers.claims.tables import COLUMNS, cells

    shown = dict(zip(COLUMNS, cells(verdict), strict=True))
    if not shown["effect"]:
        return ""
    interval = shown["95 % interval"]
    known = "" if interval in ("", "exact") else f" (95 % interval {interval})"
    n = f", {shown['n']}" if shown["n"] else ""
    p = f", p {shown['p']}" if shown["p"] else ""
    return f", effect {shown['effect']}{known}{n}{p}"
