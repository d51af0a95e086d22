"""Verdicts and designs as Markdown, as cells of a table, and as a document for JSON."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any, get_args

from tepui.core.rounding import rounded
from tepui.core.storage import finite_or_none, seal
from tepui.papers.claims.base import LEVEL, Claim, Outcome
from tepui.papers.claims.designs import Design, design_of
from tepui.papers.claims.judging import CLAIMS, Verdict, ends
from tepui.papers.claims.overview import overview
from tepui.papers.claims.power import Power, expected
from tepui.papers.recipe import PAPERS
from tepui.papers.writing import as_markdown

COLUMNS = (
    "size",
    "verdict",
    "effect",
    "95 % interval",
    "excludes",
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
        row["findings"] = finite_or_none(row["findings"])
        rows.append(row)
    return seal("claims", rounded({"level": LEVEL, "verdicts": rows}))


def markdown(judged: Sequence[Verdict]) -> str:
    """Return verdicts in plain words, all of them in tables, and their reasons."""
    return "\n".join([overview(judged), verdict_tables(judged), reasons(judged)])


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
        said = [f"{counts[name]} {name}" for name in OUTCOMES if counts[name]]
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
    excluded = ", ".join(verdict.excludes)
    return [verdict.size, verdict.outcome, effect, interval, excluded, n, p, printed]


def designs(
    power: Mapping[str, Power],
    judged: Sequence[Verdict],
    claims: Sequence[Claim] = CLAIMS,
) -> str:
    """Return a table of the studies that can decide the claims, and their sources.

    Beside each stands the study of that size that was run, and what it came to.
    """
    headings = ["claim", "size", "n", "power", "no effect", "one missing", "means"]
    headings += ["noise, found over planned"]
    rows, notes, enough, standing = [], [], 0, 0
    for claim in claims:
        design = design_of(claim)
        if claim.name not in power or design is None:
            continue
        shares = [f"{100 * share:.1f} %" for share in power[claim.name]]
        n = f"{design.n} {design.unit or claim.unit}"
        n += "".join(f", {few} in {word}" for word, few in design.fewer.items())
        means = expected(claim, design).means
        verdict = largest_run(claim, design, judged)
        ran = verdict is not None and whole(claim, verdict, design)
        stood = ran and verdict is not None and stands(verdict)
        enough, standing = enough + ran, standing + stood
        noise = noise_found(claim, design, verdict) if verdict and ran else None
        found = "" if noise is None else f"{noise:.2g}"
        rows.append([f"`{claim.name}`", design.size, n, *shares, means, found])
        rows[-1] += _as_run(claim, verdict, stood=stood)
        note = f"{design.note}; " if design.note else ""
        notes.append(f"- `{claim.name}`: {note}noise: {design.source}.\n")
    table = as_markdown([*headings, "run with", "came out"], rows)
    count = (
        f"{enough} of these {len(rows)} studies were run whole. Of {standing} of them "
        "the verdict stands (bold): supported, refuted, or with an interval that "
        "leaves out zero or the effect.\n"
    )
    return f"{table}\n{count}\n{''.join(notes)}"


def largest_run(
    claim: Claim, design: Design, judged: Sequence[Verdict]
) -> Verdict | None:
    """Return what was judged at a design's size by most units, if anything was."""
    at = [v for v in judged if v.claim == claim.name and v.findings]
    same_size = [v for v in at if v.size.split("+")[0] == design.size]
    return max(
        same_size, key=lambda v: (whole(claim, v, design), v.fewest.n), default=None
    )


def whole(claim: Claim, verdict: Verdict, design: Design) -> bool:
    """Return whether it was judged with nothing missing and all units there.

    Each has them of the planned kind: results that tell only ensembles apart in some
    places and members in others are another study, whichever comparison decides.
    """
    planned = design.unit or claim.unit
    enough = all(
        (found.unit or claim.unit) == planned and found.n >= design.units(found.where)
        for found in verdict.findings
    )
    return verdict.p is not None and not verdict.missing and enough


def noise_found(claim: Claim, design: Design, verdict: Verdict) -> float | None:
    """Return the noise of a study over the planned one, each the median comparison's.

    None where nothing varied.
    """
    found = [each.error * math.sqrt(each.n) for each in verdict.findings if each.error]
    planned = median(expected(claim, design).noise)
    return median(found) / float(planned) if found else None


def stands(verdict: Verdict) -> bool:
    """Return whether a verdict decides, or rules out no effect or the claimed one."""
    return verdict.outcome in ("supported", "refuted") or bool(verdict.excludes)


def _as_run(claim: Claim, verdict: Verdict | None, *, stood: bool) -> list[str]:
    if verdict is None:
        return ["", ""]
    n = f"{verdict.fewest.n} {verdict.fewest.unit or claim.unit}"
    if verdict.missing:
        n += f", without {', '.join(name.split('/')[1] for name in verdict.missing)}"
    said: str = verdict.outcome if verdict.p is not None else "not judged"
    if verdict.outcome == "undecided" and verdict.excludes:
        said += f", excludes {', '.join(verdict.excludes)}"
    return [n, f"**{said}**" if stood else said]


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
