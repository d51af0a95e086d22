"""Verdicts on all claims, from the numbers that are there.

Each claim's p-value is corrected for the number of claims that were judged (Holm), so
that one wrong verdict among all has a probability of at most five percent.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from tepui.experiments.statistics import holm
from tepui.recipes.base import PAPERS
from tepui.recipes.claims import rethinking, sed, sharpbalance
from tepui.recipes.claims.base import (
    LEVEL,
    Claim,
    Decision,
    Finding,
    Outcome,
    decide,
)
from tepui.recipes.claims.evidence import (
    Evidence,
    computed_evidence,
    printed_evidence,
)
from tepui.recipes.writing import as_markdown

CLAIMS: tuple[Claim, ...] = (
    *sharpbalance.CLAIMS,
    *sed.CLAIMS,
    *rethinking.CLAIMS,
)
FORMAT = 1


@dataclass(frozen=True)
class Printed:
    """What a paper's own numbers say about its claim, taken by the letter.

    Attributes:
        outcome: The verdict.
        why: A sentence.
    """

    outcome: Outcome
    why: str


@dataclass(frozen=True)
class Verdict:
    """What our numbers say about a claim.

    Attributes:
        claim: Its name.
        outcome: The verdict.
        why: A sentence.
        effect: Of the comparison that decides; None without data.
        interval: Its 95 % confidence interval; None where it is not known.
        n: Its repetitions, or points of a fit.
        p: Of the claim, corrected for the number of claims; None if it was not judged.
        commands: What makes the numbers again.
        printed: What the paper's own numbers say; None where it prints none.
        findings: Every comparison.
    """

    claim: str
    outcome: Outcome
    why: str
    effect: float | None
    interval: tuple[float, float] | None
    n: int
    p: float | None
    commands: tuple[str, ...]
    printed: Printed | None
    findings: tuple[Finding, ...]


def verdicts(evidence: Evidence, claims: Sequence[Claim] = CLAIMS) -> list[Verdict]:
    """Judge all claims.

    Args:
        evidence: Our numbers.
        claims: What to judge.

    Returns:
        A verdict for each claim, in their order.
    """
    found = [tuple(claim.judge(_with_computed(evidence, claim))) for claim in claims]
    decisions = [
        decide(findings, claim.scope)
        if any(f.error is not None for f in findings)
        else None
        for claim, findings in zip(claims, found, strict=True)
    ]
    judged = [index for index, each in enumerate(decisions) if each is not None]
    corrected = holm([each.p for each in decisions if each is not None])
    p_values = dict(zip(judged, corrected, strict=True))
    return [
        _verdict(
            claim,
            _missing(evidence, claim),
            findings,
            decision,
            p_values.get(index),
            _printed(claim),
        )
        for index, (claim, findings, decision) in enumerate(
            zip(claims, found, decisions, strict=True)
        )
    ]


def document(found: Sequence[Verdict]) -> dict[str, Any]:
    """Return verdicts in a form JSON can hold; an unbounded end is None."""
    rows = []
    for verdict in found:
        row = asdict(verdict)
        row["findings"] = [
            {name: _finite(value) for name, value in each.items()}
            for each in row["findings"]
        ]
        rows.append(row)
    return {"format": FORMAT, "level": LEVEL, "verdicts": rows}


def markdown(found: Sequence[Verdict], claims: Sequence[Claim] = CLAIMS) -> str:
    """Return a table for each paper, and the reason of every verdict.

    Args:
        found: The verdicts.
        claims: What they are about, in the same order.

    Returns:
        Markdown.
    """
    blocks = []
    for paper, title in PAPERS.items():
        rows = [
            (claim, verdict)
            for claim, verdict in zip(claims, found, strict=True)
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
        numbers[1] = "exact" if exact else _ends(verdict.interval)
    if verdict.p is not None:
        numbers[3] = f"{verdict.p:.2g}" if verdict.p >= 1e-4 else "< 0.0001"
    printed = "" if verdict.printed is None else verdict.printed.outcome
    return [verdict.outcome, *numbers, printed]


def _with_computed(evidence: Evidence, claim: Claim) -> Evidence:
    if claim.computed is None or any(map(evidence.has, claim.needs)):
        return evidence
    return evidence + computed_evidence(claim.computed())


def _missing(evidence: Evidence, claim: Claim) -> list[str]:
    whole = _with_computed(evidence, claim)
    return [item for item in claim.needs if not whole.has(item)]


def _verdict(
    claim: Claim,
    missing: Sequence[str],
    findings: tuple[Finding, ...],
    decision: Decision | None,
    p: float | None,
    printed: Printed | None,
) -> Verdict:
    outcome, why = _outcome(claim, missing, findings, decision, p)
    shown = decision.finding if decision else (findings or (None,))[0]
    return Verdict(
        claim=claim.name,
        outcome=outcome,
        why=why,
        effect=shown.effect if shown else None,
        interval=shown.interval if shown else None,
        n=shown.n if shown else 0,
        p=p,
        commands=tuple(dict.fromkeys(_split(each.command for each in findings))),
        printed=printed,
        findings=findings,
    )


def _outcome(
    claim: Claim,
    missing: Sequence[str],
    findings: Sequence[Finding],
    decision: Decision | None,
    p: float | None,
) -> tuple[Outcome, str]:
    absent = f"; no numbers of {_listed(missing)}" if missing else ""
    if not findings:
        return "undecided", f"No data: needs {_listed(claim.needs)}."
    if decision is None or p is None:
        return "undecided", f"No comparison has two repetitions or more{absent}."
    sentence = f"It {_count(findings)}; {_shown(decision)}{absent}."
    # One finding settles what is claimed of some place, or denied of every place.
    settled = claim.scope == ("somewhere" if decision.holds else "always")
    if p > LEVEL or (missing and not settled):
        return "undecided", sentence
    return ("supported" if decision.holds else "refuted"), sentence


@cache
def _printed(claim: Claim) -> Printed | None:
    findings = tuple(claim.judge(printed_evidence()))
    if not findings:
        return None
    decision = decide(findings, claim.scope)
    sentence = f"As printed it {_count(findings)}; {_shown(decision)}."
    if decision.p > LEVEL:
        return Printed("undecided", sentence)
    return Printed("supported" if decision.holds else "refuted", sentence)


def _count(findings: Iterable[Finding]) -> str:
    """Return how many comparisons hold and fail, each by its own 95 % interval."""
    states = Counter(map(_state, findings))
    parts = [f"{state} in {count}" for state, count in sorted(states.items())]
    total = states.total()
    return f"{', '.join(parts)} of {total} comparison{'s' if total > 1 else ''}"


def _state(finding: Finding) -> str:
    if 2 * finding.p_for <= LEVEL:
        return "holds"
    return "fails" if 2 * finding.p_against <= LEVEL else "is open"


def _shown(decision: Decision) -> str:
    finding = decision.finding
    known = (
        f" ({_ends(finding.interval)})" if finding.interval and finding.error else ""
    )
    return f"{decision.role}: {finding.where}: {finding.effect:.4g}{known}"


def _reason(claim: Claim, verdict: Verdict) -> str:
    name = claim.name.split("/")[1]
    lines = [f"- `{name}` ({claim.source}; effect: {claim.effect}). {verdict.why}"]
    if verdict.printed is not None:
        lines.append(f"  {verdict.printed.why}")
    lines += [f"  `{command}`" for command in verdict.commands]
    return "\n".join(lines) + "\n"


def _listed(items: Sequence[str]) -> str:
    """Return names of figures and tables, the paper's only once."""
    return ", ".join([*items[:1], *(item.split("/")[1] for item in items[1:])])


def _split(commands: Iterable[str]) -> list[str]:
    return [part for text in commands for part in text.split("; ") if part]


def _ends(interval: tuple[float, float]) -> str:
    return f"{interval[0]:.4g} to {interval[1]:.4g}"


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
