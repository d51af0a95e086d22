"""Verdicts as Markdown, as cells of a table, and as a document for JSON."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, get_args

from tepui.core.storage import finite_or_none, seal
from tepui.papers.claims.base import DECIDED, LEVEL, Claim, Outcome
from tepui.papers.claims.judging import CLAIMS, Verdict, ends
from tepui.papers.recipe import PAPERS
from tepui.papers.writing import as_markdown

DIGITS = 9  # significant, of numbers in a document
COLUMNS = (
    "size",
    "verdict",
    "effect",
    "95 % interval",
    "n",
    "p",
    "printed",
)


def document(judged: Sequence[Verdict]) -> dict[str, Any]:
    """Return verdicts in a form JSON can hold, sealed: on every machine the same."""
    by_name = {claim.name: claim for claim in CLAIMS}
    rows = []
    for verdict in judged:
        row, claim = asdict(verdict), by_name[verdict.claim]
        row |= {name: getattr(claim, name) for name in ("text", "source", "scope")}
        row["effect_is"] = claim.effect
        rows.append(finite_or_none(row))
    return seal("claims", rounded({"level": LEVEL, "verdicts": rows}))


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
    """Return verdicts in plain words, all of them in tables, and their reasons."""
    return "\n".join([overview(judged), verdict_tables(judged), reasons(judged)])


def overview(judged: Sequence[Verdict]) -> str:
    """Return the claims by verdict; one that some size decides is not undecided."""
    decided = {verdict.claim for verdict in judged if verdict.outcome in DECIDED}
    lines = []
    for outcome in OUTCOMES:
        sizes: dict[str, list[Verdict]] = {}
        for verdict in judged:
            shown = outcome in DECIDED or verdict.claim not in decided
            if verdict.outcome == outcome and shown:
                sizes.setdefault(verdict.claim, []).append(verdict)
        if sizes:
            lines.append(f"- **{outcome.capitalize()}** ({len(sizes)}):")
        for claim in CLAIMS:
            if at := sizes.get(claim.name):
                link = f"[{claim.text.removesuffix('.')}](#{claim.anchor})"
                lines.append(f"    - {link}{_places(at)}")
    return "\n".join(lines) + "\n"


def _places(found: Sequence[Verdict]) -> str:
    """Return the sizes of verdicts, and in brackets why those were not judged."""
    places: dict[str, list[str]] = {}
    for verdict in found:
        places.setdefault(verdict.reason, []).append(f"`{verdict.size}`")
    said = [
        f" at {', '.join(sizes)}" + (f" ({reason})" if reason else "")
        for reason, sizes in places.items()
    ]
    return ";".join(said) if found[0].size else ""


def verdict_tables(judged: Sequence[Verdict]) -> str:
    """Return a table for each paper, with a verdict for each claim and size."""
    blocks = [f"{summary(judged)}.\n"]
    for title, rows in _by_paper(judged):
        table = as_markdown(
            ["claim", *COLUMNS],
            [
                [_named(claim) if n == 0 else "", *cells(verdict)]
                for claim, verdicts in rows
                for n, verdict in enumerate(verdicts)
            ],
        )
        blocks.append(f"### {title}\n\n{table}")
    return "\n".join(blocks)


def reasons(judged: Sequence[Verdict]) -> str:
    """Return the reason of every verdict, and what makes its numbers again."""
    return "\n".join(
        f"### Reasons: {title}\n\n{''.join(_reason(*row) for row in rows)}"
        for title, rows in _by_paper(judged)
    )


def _by_paper(
    judged: Sequence[Verdict],
) -> Iterator[tuple[str, list[tuple[Claim, list[Verdict]]]]]:
    """Yield the papers' titles, and their claims with the verdicts on each."""
    for paper, title in PAPERS.items():
        ours = [claim for claim in CLAIMS if claim.paper == paper]
        yield title, [(c, [v for v in judged if v.claim == c.name]) for c in ours]


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
    if verdict.effect is not None:
        effect, n = f"{verdict.effect:.4g}", f"{verdict.n} {verdict.unit}"
    if verdict.interval is not None:
        interval = ends(verdict.interval)
        if verdict.interval[0] == verdict.interval[1]:
            interval, n = "exact", ""
    if verdict.p is not None:
        p = f"{verdict.p:.2g}" if verdict.p >= 1e-4 else "< 0.0001"
    printed = "" if verdict.printed is None else verdict.printed.outcome
    outcome = verdict.outcome + (f" ({verdict.reason})" if verdict.reason else "")
    return [verdict.size, outcome, effect, interval, n, p, printed]


OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


def _named(claim: Claim) -> str:
    link = f"[`{claim.name.split('/')[1]}`](#why-{claim.anchor})"
    return f'<a id="{claim.anchor}"></a>{link} {claim.text}'


def _reason(claim: Claim, verdicts: Sequence[Verdict]) -> str:
    name = claim.name.split("/")[1]
    here = f'<a id="why-{claim.anchor}"></a>`{name}`'
    lines = [f"- {here} ({claim.source}; effect: {claim.effect})."]
    for verdict in verdicts:
        size = f"At size {verdict.size}: " if verdict.size else ""
        lines.append(f"  {size}{verdict.why}")
    if verdicts and verdicts[0].printed is not None:
        lines.append(f"  {verdicts[0].printed.why}")
    commands = dict.fromkeys(c for verdict in verdicts for c in verdict.commands)
    lines += [f"  `{command}`" for command in commands]
    return "\n".join(lines) + "\n"
