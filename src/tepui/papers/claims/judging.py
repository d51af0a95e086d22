"""Verdicts on all claims, size by size, from the numbers that are there.

Numbers of different sizes are never joined: a stand-in says nothing about the paper's
experiment, so that there a claim transfers or does not, and a shortened run is a study
of its own. The p-values of a paper's claims at one size are corrected together (Holm),
so that one wrong verdict among them has a probability of at most five percent.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

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
from tepui.papers.claims.evidence import PRINTED, Evidence, printed_evidence
from tepui.studies.significance import holm

CLAIMS: tuple[Claim, ...] = (
    *sharpbalance.CLAIMS,
    *sed.CLAIMS,
    *rethinking.CLAIMS,
)
COMPUTED = "computed"  # the size of what needs no training
UNKNOWN = "has no known error"
STAND_INS = "small"  # the size that has other data and networks than the papers
# Figures and tables that a size does not have: their absence blocks no claim there.
ABSENT = {
    "medium": ("sharpbalance/figure7c", "sharpbalance/figure7f", "sharpbalance/table4")
}


@dataclass(frozen=True)
class Verdict:
    """What numbers of one size say about a claim."""

    claim: Claim
    size: str  # of the studies; empty where there are no numbers
    missing: tuple[str, ...]  # figures and tables it needs that are not there
    checks: tuple[Checked, ...]  # of its checks, those of which there are numbers
    reason: str  # the check that fails, or why it is circular; empty if it was judged
    findings: tuple[Finding, ...]  # all comparisons
    decision: Decision | None  # all of them together; None if nothing was judged
    p: float | None = None  # of the decision, corrected for the paper's claims

    @property
    def outcome(self) -> Outcome:
        """The verdict in a word."""
        if not self.findings:
            return "no data"
        if self.decision is None or self.p is None:
            return "undecided"
        # One clear counter-example settles what is claimed of every place.
        settled = self.claim.scope == "always" and not self.decision.holds
        if self.p > LEVEL or (self._blocking and not settled):
            return "undecided"
        holds, fails = ON_STAND_INS if _on_stand_ins(self.size) else ON_REAL_DATA
        return holds if self.decision.holds else fails

    @property
    def why(self) -> str:
        """The verdict in a sentence."""
        if self.missing and self.missing == self.claim.needs:
            return f"Needs {_listed(self.missing)}."
        blocking, size = self._blocking, self.size.split("+")[0]
        beyond = [item for item in self.missing if item not in blocking]
        absent = f"; no numbers of {_listed(blocking)}" if blocking else ""
        absent += f"; {size} size does not have {_listed(beyond)}" if beyond else ""
        checks = self._said_of_checks()
        if not self.findings:
            return f"The numbers there allow no comparison{absent}."
        if self.reason:
            return f"Not judged{checks or f' ({self.reason})'}{absent}."
        if self.decision is None:
            return f"No comparison has repetitions that differ{absent}."
        it = "As printed it" if self.size == PRINTED else "It"
        heard = f"{tally(self.findings)}; deciding: {_numbered(self.decision.finding)}"
        return f"{it} {heard}{checks}{absent}."

    @property
    def _blocking(self) -> list[str]:
        """What is missing that the size has."""
        never = ABSENT.get(self.size.split("+")[0], ())
        return [item for item in self.missing if item not in never]

    def _said_of_checks(self) -> str:
        """Return what was found of each check, in words."""
        if self.size == PRINTED:
            return ""
        said = {check.name: "not measured at this size" for check in self.claim.checks}
        for each in self.checks:
            said[each.name] = f"{_numbered(each.finding)} at size {each.size}"
        return "".join(f"; check: {name}: {found}" for name, found in said.items())

    @property
    def printed(self) -> "Verdict | None":
        """What the paper's own numbers say, taken by the letter; None without them."""
        return _printed(self.claim)


def verdicts(evidence: Evidence, claims: Sequence[Claim] = CLAIMS) -> list[Verdict]:
    """Judge all claims: a verdict per claim and size, in the order of the claims."""
    judged = [verdict for claim in claims for verdict in _judged(claim, evidence)]
    families: dict[tuple[str, str], list[int]] = {}
    for index, verdict in enumerate(judged):
        family = verdict.claim.family, verdict.size
        families.setdefault(family, []).append(index)
    for members in families.values():
        raw = {n: found.p for n in members if (found := judged[n].decision)}
        for n, p in zip(raw, holm([*raw.values()]), strict=True):
            judged[n] = replace(judged[n], p=p)
    return judged


def _judged(claim: Claim, evidence: Evidence) -> list[Verdict]:
    if not claim.needs:
        return [_verdict(claim, COMPUTED, evidence, ())]
    each = [
        _verdict(claim, size, evidence.at(size), tuple(_checked(claim, size, evidence)))
        for size in evidence.sizes(claim.needs)
    ]
    some = [verdict for verdict in each if verdict.findings]
    return some or [_verdict(claim, "", evidence, ())]


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


def _verdict(
    claim: Claim, size: str, evidence: Evidence, checks: tuple[Checked, ...]
) -> Verdict:
    missing = tuple(item for item in claim.needs if not evidence.has(item))
    findings = tuple(claim.judge(evidence, claim.needs))
    failed = ", ".join(each.name for each in checks if not each.holds)
    reason = f"check failed: {failed}" if failed else ""
    if claim.circular and _on_stand_ins(size):
        reason = f"circular: {claim.circular}"
    decision = None if reason else decide(findings, claim.scope)
    return Verdict(claim, size, missing, checks, reason, findings, decision)


def _on_stand_ins(size: str) -> bool:
    return size.split("+", maxsplit=1)[0] == STAND_INS


@cache
def _printed(claim: Claim) -> Verdict | None:
    found = _verdict(claim, PRINTED, printed_evidence(), ())
    if not claim.needs or found.decision is None:
        return None
    return replace(found, missing=(), p=found.decision.p)


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
    interval = f" ({ends(finding.interval)})" if finding.error else ""
    return f"{finding.where}: {finding.effect:.4g}{interval}"


def _listed(items: Sequence[str]) -> str:
    """Return names of figures and tables, the paper's only once."""
    return ", ".join([*items[:1], *(item.split("/")[1] for item in items[1:])])


def ends(interval: tuple[float, float] | None) -> str:
    """Return an interval in words."""
    assert interval is not None
    return f"{interval[0]:.4g} to {interval[1]:.4g}"
