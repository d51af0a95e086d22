"""Verdicts on all claims, size by size, from the numbers that are there.

Numbers of different sizes are never joined: a stand-in says nothing about the paper's
experiment, so that there a claim transfers or does not, and a shortened run is a study
of its own. The p-values of a paper's claims
at one size are corrected together (Holm), so that one wrong verdict among them has a
probability of at most five percent.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import NamedTuple

from tepui.papers.claims import rethinking, sed, sharpbalance
from tepui.papers.claims.base import (
    LEVEL,
    ON_REAL_DATA,
    ON_STAND_INS,
    Checked,
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
STAND_INS = "small"  # the size that has other data and networks than the papers
# Figures and tables that a size does not have: their absence blocks no claim there.
ABSENT = {
    "medium": ("sharpbalance/figure7c", "sharpbalance/figure7f", "sharpbalance/table4")
}


@dataclass(frozen=True)
class Printed:
    """What a paper's own numbers say about its claim, taken by the letter."""

    outcome: Outcome
    why: str


@dataclass(frozen=True)
class Verdict:
    """What our numbers of one size say about a claim."""

    claim: str
    size: str  # of the studies; empty where there are no numbers
    outcome: Outcome
    reason: str  # the check that fails, or why it is circular; empty if it was judged
    checks: tuple[Checked, ...]  # those of which there are numbers
    why: str
    effect: float | None  # of the comparison that decides; None if it was not judged
    # its 95 % confidence interval; None where it is not known
    interval: tuple[float, float] | None
    n: int  # its repetitions, members, or points of a fit
    unit: str  # what n counts
    # of the claim, corrected for the paper's claims; None if it was not judged
    p: float | None
    commands: tuple[str, ...]  # what makes the numbers again
    # what the paper's own numbers say; None where it prints none
    printed: Printed | None
    findings: tuple[Finding, ...]
    # figures and tables that the size has and that were not made; empty without data
    missing: tuple[str, ...]


def verdicts(evidence: Evidence, claims: Sequence[Claim] = CLAIMS) -> list[Verdict]:
    """Judge all claims: a verdict per claim and size, in the order of the claims."""
    hearings = [hearing for claim in claims for hearing in _hearings(claim, evidence)]
    families: dict[tuple[str, str], list[int]] = {}
    for index, (claim, size, *_) in enumerate(hearings):
        families.setdefault((claim.family, size), []).append(index)
    corrected: dict[int, float] = {}
    for members in families.values():
        raw = {n: found.p for n in members if (found := hearings[n].decision)}
        corrected |= dict(zip(raw, holm([*raw.values()]), strict=True))
    return [_verdict(each, corrected.get(n)) for n, each in enumerate(hearings)]


class _Hearing(NamedTuple):
    """What there is to judge a claim by, at one size."""

    claim: Claim
    size: str
    missing: tuple[str, ...]  # figures and tables it needs that are not there
    checked: tuple[Checked, ...]  # of its checks, those of which there are numbers
    reason: str  # what rules out a verdict; empty if nothing does
    findings: tuple[Finding, ...]  # what the numbers say
    decision: Decision | None  # all of them together; None if nothing was judged


def _hearings(claim: Claim, evidence: Evidence) -> list[_Hearing]:
    if claim.computed is not None and not any(map(evidence.has, claim.needs)):
        evidence += computed_evidence(claim.computed())
    sizes = evidence.sizes(claim.needs)
    heard = [
        _hearing(claim, size, evidence.at(size), tuple(_checked(claim, size, evidence)))
        for size in sizes
    ]
    some = [hearing for hearing in heard if hearing.findings]
    return some or [_hearing(claim, "", evidence, ())]


def _checked(claim: Claim, size: str, evidence: Evidence) -> Iterator[Checked]:
    """Yield what is known of each check: at a size, or with other repetitions."""
    studied = evidence.at(size).find(claim.needs)
    for check in claim.checks:
        for place in (size, *_repeated(size, evidence)):
            findings = check.judge(evidence.at(place), studied)
            if found := decide(findings, "always"):
                yield Checked(check.name, place, *found)
                break


def _repeated(size: str, evidence: Evidence) -> list[str]:
    """Return studies that differ in radius and repetitions alone, most of them first.

    Those that measure sharpness do so for many radii.
    """
    base, *changed = size.split("+")
    if not all(word.startswith(("ensembles=", "rho=")) for word in changed):
        return []
    alike = re.compile(rf"{base}(?:\+ensembles=(\d+))?")
    matches = map(alike.fullmatch, {datum.size for datum in evidence.data})
    repeats = {match[0]: int(match[1] or 0) for match in matches if match}
    return sorted(repeats, key=lambda other: -repeats[other])


def _hearing(
    claim: Claim, size: str, evidence: Evidence, checked: tuple[Checked, ...]
) -> _Hearing:
    missing = tuple(item for item in claim.needs if not evidence.has(item))
    findings = tuple(claim.judge(evidence, claim.needs))
    failed = ", ".join(each.name for each in checked if not each.holds)
    reason = f"check failed: {failed}" if failed else ""
    if claim.circular and _on_stand_ins(size):
        reason = f"circular: {claim.circular}"
    decision = None if reason else decide(findings, claim.scope)
    return _Hearing(claim, size, missing, checked, reason, findings, decision)


def _on_stand_ins(size: str) -> bool:
    return size.split("+", maxsplit=1)[0] == STAND_INS


def _verdict(hearing: _Hearing, p: float | None) -> Verdict:
    claim, findings, decision = hearing.claim, hearing.findings, hearing.decision
    outcome, why = _outcome(hearing, p)
    shown = decision.finding if decision else None
    commands = chain.from_iterable(finding.commands for finding in findings)
    return Verdict(
        claim=claim.name,
        size=hearing.size,
        outcome=outcome,
        reason=hearing.reason,
        checks=hearing.checked,
        why=why,
        effect=shown.effect if shown else None,
        interval=shown.interval if shown else None,
        n=shown.n if shown else 0,
        unit=(shown.unit or claim.unit) if shown else "",
        p=p,
        commands=tuple(dict.fromkeys(commands)),
        printed=_printed(claim),
        findings=findings,
        missing=_missing(hearing)[0] if findings else (),
    )


def _outcome(hearing: _Hearing, p: float | None) -> tuple[Outcome, str]:
    claim, decision = hearing.claim, hearing.decision
    if hearing.missing == claim.needs:
        return "no data", f"Needs {_listed(claim.needs)}."
    missing, absent = _missing(hearing)
    if not hearing.findings:
        return "no data", f"The numbers there allow no comparison{absent}."
    checks = _said_of_checks(hearing)
    if hearing.reason:
        return "undecided", f"Not judged{checks or f' ({hearing.reason})'}{absent}."
    if decision is None or p is None:
        return "undecided", f"No comparison has repetitions that differ{absent}."
    heard = f"{tally(hearing.findings)}; deciding: {_numbered(decision.finding)}"
    sentence = f"It {heard}{checks}{absent}."
    # One clear counter-example settles what is claimed of every place.
    settled = claim.scope == "always" and not decision.holds
    if p > LEVEL or (missing and not settled):
        return "undecided", sentence
    holds, fails = ON_STAND_INS if _on_stand_ins(hearing.size) else ON_REAL_DATA
    return (holds if decision.holds else fails), sentence


def _said_of_checks(hearing: _Hearing) -> str:
    """Return what was found of each check, in words."""
    said = {check.name: "not measured at this size" for check in hearing.claim.checks}
    for each in hearing.checked:
        said[each.name] = f"{_numbered(each.finding)} at size {each.size}"
    return "".join(f"; check: {name}: {found}" for name, found in said.items())


def _missing(hearing: _Hearing) -> tuple[tuple[str, ...], str]:
    """Return what blocks support by being missing, and all that is missing in words."""
    size = hearing.size.split("+")[0]
    never = ABSENT.get(size, ())
    missing = tuple(item for item in hearing.missing if item not in never)
    beyond = tuple(item for item in hearing.missing if item in never)
    words = f"; no numbers of {_listed(missing)}" if missing else ""
    words += f"; {size} size does not have {_listed(beyond)}" if beyond else ""
    return missing, words


@cache
def _printed(claim: Claim) -> Printed | None:
    findings = tuple(claim.judge(printed_evidence(), claim.needs))
    decision = decide(findings, claim.scope)
    if decision is None:
        return None
    sentence = (
        f"As printed it {tally(findings)}; deciding: {_numbered(decision.finding)}."
    )
    if decision.p > LEVEL:
        return Printed("undecided", sentence)
    return Printed("supported" if decision.holds else "refuted", sentence)


def tally(findings: Iterable[Finding]) -> str:
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


def _numbered(finding: Finding) -> str:
    """Return a comparison with its effect and interval."""
    known = finding.interval and finding.error
    interval = f" ({ends(finding.interval)})" if finding.interval and known else ""
    return f"{finding.where}: {finding.effect:.4g}{interval}"


def _listed(items: Sequence[str]) -> str:
    """Return names of figures and tables, the paper's only once."""
    return ", ".join([*items[:1], *(item.split("/")[1] for item in items[1:])])


def ends(interval: tuple[float, float]) -> str:
    """Return an interval in words."""
    return f"{interval[0]:.4g} to {interval[1]:.4g}"
