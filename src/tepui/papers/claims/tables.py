"""Verdicts as Markdown, and as a document for JSON."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, get_args

from tepui.core.storage import finite_or_none, seal
from tepui.papers.claims.base import DECIDED, LEVEL, Outcome
from tepui.papers.claims.judging import Verdict, ends
from tepui.papers.recipe import PAPERS
from tepui.papers.writing import as_markdown

DIGITS = 9  # significant, of numbers in a document
COLUMNS = ("size", "verdict", "effect", "95 % interval", "n", "p", "printed")
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


def document(judged: Sequence[Verdict]) -> dict[str, Any]:
    """Return verdicts in a form JSON can hold, sealed: on every machine the same."""
    rows = [finite_or_none(_row(verdict)) for verdict in judged]
    return seal("claims", rounded({"level": LEVEL, "verdicts": rows}))


def _row(verdict: Verdict) -> dict[str, Any]:
    claim, printed = verdict.claim, verdict.printed
    shown = verdict.decision.finding if verdict.decision else None
    of_claim = {name: getattr(claim, name) for name in ("text", "source", "scope")}
    of_size = {n: getattr(verdict, n) for n in ("size", "outcome", "reason", "why")}
    return {
        "claim": claim.name,
        **of_claim,
        **of_size,
        "effect_is": claim.effect,
        "effect": shown.effect if shown else None,
        "interval": shown.interval if shown else None,
        "n": shown.n if shown else 0,
        "p": verdict.p,
        "printed": printed and {"outcome": printed.outcome, "why": printed.why},
        "checks": [asdict(check) for check in verdict.checks],
        "findings": [asdict(finding) for finding in verdict.findings],
    }


def rounded(value: Any) -> Any:
    """Return a value for a JSON document, with nine significant digits of its floats.

    Libraries for linear algebra and special functions differ in the last digits of a
    double from one processor to another: by 1e-15 of most numbers, by 1e-12 of the
    smallest p-values.

    Example:
        >>> rounded({"error": 0.29608086847321585, "values": (2, 1 / 3, None)})
        {'error': 0.296080868, 'values': [2, 0.333333333, None]}
    """
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, Mapping):
        return {name: rounded(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    return value


def markdown(judged: Sequence[Verdict]) -> str:
    """Return the claims by verdict, and a table of all verdicts for each paper."""
    return f"{overview(judged)}\n{verdict_tables(judged)}"


def overview(judged: Sequence[Verdict]) -> str:
    """Return the claims by verdict; one that some size decides is not undecided."""
    decided = {each.claim.name for each in judged if each.outcome in DECIDED}
    lines = []
    for outcome in OUTCOMES:
        places: dict[str, dict[str, list[str]]] = {}
        for verdict in judged:
            claim = verdict.claim
            if verdict.outcome == outcome and (
                outcome in DECIDED or claim.name not in decided
            ):
                reason = f" ({verdict.reason})" if verdict.reason else ""
                of_claim = places.setdefault(claim.text.removesuffix("."), {})
                of_claim.setdefault(reason, []).append(f"`{verdict.size}`")
        if places:
            lines.append(f"- **{outcome.capitalize()}** ({len(places)}):")
        for text, sizes in places.items():
            said = "; ".join(f"{', '.join(at)}{reason}" for reason, at in sizes.items())
            lines.append(f"    - {text}" + (f": {said}" if said != "``" else ""))
    return "\n".join(lines) + "\n"


def verdict_tables(judged: Sequence[Verdict]) -> str:
    """Return a table for each paper, with a verdict for each claim and size."""
    blocks = [f"{summary(judged)}.\n"]
    for paper, title in PAPERS.items():
        rows = [
            [f"`{verdict.claim.name}` {verdict.claim.text}", *cells(verdict)]
            for verdict in judged
            if verdict.claim.paper == paper
        ]
        table = as_markdown(["claim", *COLUMNS], rows)
        blocks.append(f"### {title}\n\n{table}")
    return "\n".join(blocks)


def summary(judged: Sequence[Verdict]) -> str:
    """Return how many verdicts there are of each kind, size by size.

    Claims without data are counted apart: they are not undecided.
    """
    sizes = dict.fromkeys(verdict.size for verdict in judged)
    parts = []
    for size in sorted(sizes, key=lambda size: size == ""):
        counts = Counter(v.outcome for v in judged if v.size == size)
        said = [f"{name} {counts[name]}" for name in OUTCOMES if counts[name]]
        parts.append(f"{size}: {', '.join(said)}" if size else ", ".join(said))
    return "; ".join(parts)


def cells(verdict: Verdict) -> list[str]:
    """Return the cells of a verdict's row, by ``COLUMNS``."""
    effect = interval = n = p = ""
    if verdict.decision is not None:
        shown = verdict.decision.finding
        effect, n = f"{shown.effect:.4g}", str(shown.n)
        interval = ends(shown.interval) if shown.error else "exact"
    if verdict.p is not None:
        p = f"{verdict.p:.2g}" if verdict.p >= 1e-4 else "< 0.0001"
    printed = "" if verdict.printed is None else verdict.printed.outcome
    outcome = verdict.outcome + (f" ({verdict.reason})" if verdict.reason else "")
    return [verdict.size, outcome, effect, interval, n, p, printed]
