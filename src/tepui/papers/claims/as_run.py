"""Designs with the noise and units of the studies that were run by them.

A comparison of a study has the planned one of the same name, or that with the longest
name whose words are all in its own, in their order.
"""

import re
from collections.abc import Mapping, Sequence

import numpy as np

from tepui.papers.claims.base import Claim, Finding
from tepui.papers.claims.designs import Design
from tepui.papers.claims.judging import Verdict
from tepui.papers.claims.power import (
    Array,
    Expected,
    drawn,
    expected,
    families,
    supported,
)


def noise_ratios(claim: Claim, design: Design, verdict: Verdict) -> Array:
    """Return each comparison's noise over the planned one; of those that varied."""
    planned = expected(claim, design)
    found = as_run(planned, verdict.findings)
    return found.noise / planned.noise[_planned_places(planned, verdict.findings)]


def power_as_run(
    claims: Sequence[Claim],
    runs: Mapping[str, Verdict],
    *,
    draws: int = 1000,
    seed: int = 0,
) -> dict[str, float]:
    """Return the power with the noise and n of studies that were run, by claim.

    Each is corrected for the claims beside it, with what theirs found if they were run.
    """
    found: dict[str, float] = {}
    for family in families(claims):
        names = [claim.name for claim, _ in family]
        if runs.keys().isdisjoint(names):
            continue
        results = []
        for claim, design in family:
            each = expected(claim, design)
            if claim.name in runs:
                each = as_run(each, runs[claim.name].findings)
            results.append(drawn(claim, each, "as_claimed", draws, seed))
        shares = {name: supported(results, n) for n, name in enumerate(names)}
        found |= {name: share for name, share in shares.items() if name in runs}
    return found


def as_run(planned: Expected, findings: Sequence[Finding]) -> Expected:
    """Return the comparisons of a study, with planned effects and the noise found."""
    varied = [finding for finding in findings if finding.error]
    units = np.array([finding.n for finding in varied])
    error = np.array([finding.error for finding in varied])
    return Expected(
        tuple(planned.findings[n] for n in _planned_places(planned, findings)),
        error * np.sqrt(units),
        units,
        np.array([finding.freedom for finding in varied]),
        planned.means,
    )


def _planned_places(planned: Expected, findings: Sequence[Finding]) -> list[int]:
    """Return at which places the comparisons that varied were planned."""
    names = [finding.where for finding in planned.findings]
    return [names.index(planned_name(f.where, names)) for f in findings if f.error]


def planned_name(name: str, planned: Sequence[str]) -> str:
    """Return the planned comparison that a comparison of results is one of.

    Example:
        >>> planned_name("ece of sam: figure15", ["ece", "ece of sam", "nll"])
        'ece of sam'
    """
    words = _words(name)
    inside = [each for each in planned if _in_order(_words(each), words)]
    if not inside:
        raise ValueError(f"{name!r} is none of the planned comparisons: {planned}")
    return max(inside, key=lambda each: len(_words(each)))


def _words(name: str) -> list[str]:
    return re.split(r"[\s,:]+", name.strip(" ,:"))


def _in_order(few: Sequence[str], many: Sequence[str]) -> bool:
    rest = iter(many)
    return all(word in rest for word in few)
