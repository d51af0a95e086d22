"""Verdicts as Markdown, as cells of a table, and as a document for JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tepui.core.storage import finite_or_none, seal
from tepui.papers.claims.base import LEVEL, Claim
from tepui.papers.claims.judging import CLAIMS, Verdict, ends
from tepui.papers.recipe import PAPERS
from tepui.papers.writing import as_markdown


def document(
    judged: Sequence[Verdict], claims: Sequence[Claim] = CLAIMS
) -> dict[str, Any]:
    """Return verdicts in a form JSON can hold, sealed."""
    rows = []
    for claim, verdict in zip(claims, judged, strict=True):
        row = asdict(verdict)
        row |= {name: getattr(claim, name) for name in ("text", "source", "scope")}
        row["effect_is"] = claim.effect
        row["findings"] = finite_or_none(row["findings"])
        rows.append(row)
    return seal("claims", {"level": LEVEL, "verdicts": rows})


def markdown(judged: Sequence[Verdict], claims: Sequence[Claim] = CLAIMS) -> str:
    """Return a table for each paper, and the reason of every verdict."""
    blocks = []
    for paper, title in PAPERS.items():
        rows = [
            (claim, verdict)
            for claim, verdict in zip(claims, judged, strict=True)
            if claim.name.startswith(f"{paper}/")
        ]
        if not rows:
            continue
        headings = ["claim", "verdict", "effect", "95 % interval", "n", "p", "printed"]
        table = as_markdown(
            headings,
            [
                [f"`{claim.name.split('/')[1]}` {claim.text}", *cells(verdict)]
                for claim, verdict in rows
            ],
        )
        reasons = "".join(_reason(*row) for row in rows)
        blocks.append(f"### {title}\n\n{table}\n{reasons}")
    return "\n".join(blocks)


def cells(verdict: Verdict) -> list[str]:
    """Return the cells of a verdict's row: outcome, effect, interval, n, p, printed."""
    numbers = ["", "", "", ""]
    if verdict.effect is not None:
        numbers[0] = f"{verdict.effect:.4g}"
        numbers[2] = str(verdict.n)
    if verdict.interval is not None:
        exact = verdict.interval[0] == verdict.interval[1]
        numbers[1] = "exact" if exact else ends(verdict.interval)
    if verdict.p is not None:
        numbers[3] = f"{verdict.p:.2g}" if verdict.p >= 1e-4 else "< 0.0001"
    printed = "" if verdict.printed is None else verdict.printed.outcome
    return [verdict.outcome, *numbers, printed]


def _reason(claim: Claim, verdict: Verdict) -> str:
    name = claim.name.split("/")[1]
    lines = [f"- `{name}` ({claim.source}; effect: {claim.effect}). {verdict.why}"]
    if verdict.printed is not None:
        lines.append(f"  {verdict.printed.why}")
    lines += [f"  `{command}`" for command in verdict.commands]
    return "\n".join(lines) + "\n"
