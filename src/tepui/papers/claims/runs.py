"""Studies that were run by designs: which are whole, and which verdicts stand."""

from collections.abc import Sequence

from tepui.papers.claims.base import DECIDED, Claim
from tepui.papers.claims.designs import Design, design_of
from tepui.papers.claims.judging import Verdict


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


def whole_runs(
    claims: Sequence[Claim], judged: Sequence[Verdict]
) -> dict[str, Verdict]:
    """Return the largest studies that were run whole, by claim."""
    found = {}
    for claim in claims:
        design = design_of(claim)
        if design is not None and not claim.twin:
            verdict = largest_run(claim, design, judged)
            if verdict is not None and whole(claim, verdict, design):
                found[claim.name] = verdict
    return found


def stands(verdict: Verdict) -> bool:
    """Return whether a verdict decides, or rules out no effect or the claimed one."""
    return verdict.outcome in DECIDED or bool(verdict.excludes)
