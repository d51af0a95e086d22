"""Verdicts on all claims, from the numbers that are there.

Each claim's p-value is corrected for the number of claims that were judged (Holm), so
that one wrong verdict among all has a probability of at most five percent.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import NamedTuple

from tepui.papers.claims import rethinking, sed, sharpbalance
from tepui.papers.claims.base import (
    LEVEL,
    Claim,
    Decision,
    Finding,
    Outcome,
    decide,
)
from tepui.papers.claims.evidence import (
    Evidence,
    computed_evidence,
    printed_evidence,
)
from tepui.studies.significance import holm

CLAIMS: tuple[Claim, ...] = (
    *sharpbalance.CLAIMS,
    *sed.CLAIMS,
    *rethinking.CLAIMS,
)
UNKNOWN = "has no known error"


@dataclass(frozen=True)
class Printed:
    """What a paper's own numbers say about its claim, taken by the letter."""

    outcome: Outcome
    why: str


@dataclass(frozen=True)
class Verdict:
    """What our numbers say about a claim."""

    claim: str
    outcome: Outcome
    why: str
    effect: float | None  # of the comparison that decides; None without data
    # its 95 % confidence interval; None where it is not known
    interval: tuple[float, float] | None
    n: int  # its repetitions, or points of a fit
    # of the claim, corrected for the number of claims; None if it was not judged
    p: float | None
    commands: tuple[str, ...]  # what makes the numbers again
    # what the paper's own numbers say; None where it prints none
    printed: Printed | None
    findings: tuple[Finding, ...]


def verdicts(evidence: Evidence, claims: Sequence[Claim] = CLAIMS) -> list[Verdict]:
    """Judge all claims."""
    hearings = [_hearing(claim, evidence) for claim in claims]
    judged = [hearing for hearing in hearings if hearing.decision is not None]
    corrected = iter(
        holm([hearing.decision.p for hearing in judged if hearing.decision])
    )
    return [
        _verdict(hearing, None if hearing.decision is None else next(corrected))
        for hearing in hearings
    ]


class _Hearing(NamedTuple):
    """What there is to judge a claim by."""

    claim: Claim
    missing: tuple[str, ...]  # figures and tables it needs that are not there
    smoke: bool  # whether some of them are there at size smoke, which is left out
    findings: tuple[Finding, ...]  # what the others say
    decision: Decision | None  # all of them together; None if no error is known


def _hearing(claim: Claim, evidence: Evidence) -> _Hearing:
    if claim.computed is not None and not any(map(evidence.has, claim.needs)):
        evidence += computed_evidence(claim.computed())
    missing = tuple(item for item in claim.needs if not evidence.has(item))
    smoke = any(evidence.left_out(item) for item in missing)
    findings = tuple(claim.judge(evidence, claim.needs))
    return _Hearing(claim, missing, smoke, findings, decide(findings, claim.scope))


def _verdict(hearing: _Hearing, p: float | None) -> Verdict:
    claim, _, _, findings, decision = hearing
    outcome, why = _outcome(hearing, p)
    shown = decision.finding if decision else next(iter(findings), None)
    commands = chain.from_iterable(finding.commands for finding in findings)
    return Verdict(
        claim=claim.name,
        outcome=outcome,
        why=why,
        effect=shown.effect if shown else None,
        interval=shown.interval if shown else None,
        n=shown.n if shown else 0,
        p=p,
        commands=tuple(dict.fromkeys(commands)),
        printed=_printed(claim),
        findings=findings,
    )


def _outcome(hearing: _Hearing, p: float | None) -> tuple[Outcome, str]:
    claim, missing, smoke, findings, decision = hearing
    smoke_only = "; results of size smoke are left out" if smoke else ""
    absent = f"; no numbers of {_listed(missing)}{smoke_only}" if missing else ""
    if missing == claim.needs:
        return "undecided", f"No data: needs {_listed(claim.needs)}{smoke_only}."
    if not findings:
        return "undecided", f"The numbers there allow no comparison{absent}."
    if decision is None or p is None:
        return "undecided", f"No comparison has repetitions that differ{absent}."
    sentence = f"It {_count(findings)}; {_shown(decision)}{absent}."
    # One finding settles what is claimed of some place, or denied of every place.
    settled = claim.scope == ("somewhere" if decision.holds else "always")
    if p > LEVEL or (missing and not settled):
        return "undecided", sentence
    return ("supported" if decision.holds else "refuted"), sentence


@cache
def _printed(claim: Claim) -> Printed | None:
    findings = tuple(claim.judge(printed_evidence(), claim.needs))
    decision = decide(findings, claim.scope)
    if decision is None:
        return None
    sentence = f"As printed it {_count(findings)}; {_shown(decision)}."
    if decision.p > LEVEL:
        return Printed("undecided", sentence)
    return Printed("supported" if decision.holds else "refuted", sentence)


def _count(findings: Iterable[Finding]) -> str:
    """Return how many comparisons hold and fail, each by its own 95 % interval."""
    states = Counter(map(_state, findings))
    unknown = states.pop(UNKNOWN, 0)
    parts = [f"{state} in {count}" for state, count in sorted(states.items())]
    total = states.total()
    others = f" ({unknown} more without a known error left out)" if unknown else ""
    return f"{', '.join(parts)} of {total} comparison{'s' if total > 1 else ''}{others}"


def _state(finding: Finding) -> str:
    if finding.error is None:
        return UNKNOWN
    if 2 * finding.p_for <= LEVEL:
        return "holds"
    return "fails" if 2 * finding.p_against <= LEVEL else "is open"


def _shown(decision: Decision) -> str:
    finding = decision.finding
    interval = (
        f" ({ends(finding.interval)})" if finding.interval and finding.error else ""
    )
    return f"{decision.role}: {finding.where}: {finding.effect:.4g}{interval}"


def _listed(items: Sequence[str]) -> str:
    """Return names of figures and tables, the paper's only once."""
    return ", ".join([*items[:1], *(item.split("/")[1] for item in items[1:])])


def ends(interval: tuple[float, float]) -> str:
    """Return an interval in words."""
    return f"{interval[0]:.4g} to {interval[1]:.4g}"
