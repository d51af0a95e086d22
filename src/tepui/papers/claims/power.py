"""How often the design of a claim finds what the paper prints, and what is not there.

Each comparison has a true effect and noise. A draw of a study has a mean with its
standard error, as Student's distribution has them; many draws are judged at once. The
claims of a paper at one size are judged together, as verdicts are.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tepui.core.seeding import derive
from tepui.papers.claims.base import LEVEL, Claim, Finding, Scope
from tepui.papers.claims.designs import Design, design_of
from tepui.papers.claims.evidence import Evidence, printed_evidence

Array = NDArray[np.float64]
# Of many draws of a study: whether the claim holds, and p.
Drawn = tuple[NDArray[np.bool_], Array]


class Power(NamedTuple):
    """Shares of draws in which a claim comes out as supported."""

    as_claimed: float  # with the printed effects, or those of the claim
    without_effect: float  # with every effect at the edge of what is claimed
    one_missing: float  # with the weakest effect there, all others as claimed


class Expected(NamedTuple):
    """The comparisons of a claim, as the paper prints them or as they are assumed."""

    findings: tuple[Finding, ...]
    noise: Array  # standard deviation between units, by comparison
    units: Array  # how many, by comparison
    freedom: Array  # degrees of freedom of the standard error, by comparison
    means: str  # where the effects are from: "printed", "as claimed" or "assumed"


def simulated(
    claims: Sequence[Claim], *, draws: int = 1000, seed: int = 0
) -> dict[str, Power]:
    """Return the power of each claim's design, by name; twins have their original's."""
    found: dict[str, Power] = {}
    for family in families(claims):
        found |= _of_family(family, draws, seed)
    return found


def families(claims: Sequence[Claim]) -> list[list[tuple[Claim, Design]]]:
    """Return designs of a paper and size, which are judged together."""
    designed = [(claim, design_of(claim)) for claim in claims if not claim.twin]
    several: dict[tuple[str, str], list[tuple[Claim, Design]]] = {}
    for claim, design in designed:
        if design is not None:
            several.setdefault((claim.family, design.size), []).append((claim, design))
    return [*several.values()]


def _of_family(
    family: Sequence[tuple[Claim, Design]], draws: int, seed: int
) -> dict[str, Power]:
    """Return the power of claims that are judged together."""
    expectations = [(claim, expected(claim, design)) for claim, design in family]

    def all_drawn(way: str) -> list[Drawn]:
        return [drawn(*each, way, draws, seed) for each in expectations]

    usual, found = all_drawn("as_claimed"), {}
    others = {way: all_drawn(way) for way in ("without_effect", "one_missing")}
    for n, (claim, _) in enumerate(family):
        shares = {"as_claimed": supported(usual, n)}
        for way, results in others.items():
            shares[way] = supported([*usual[:n], results[n], *usual[n + 1 :]], n)
        found[claim.name] = Power(**shares)
    return found


def drawn(claim: Claim, each: Expected, way: str, draws: int, seed: int) -> Drawn:
    """Return whether a claim holds in draws of its study, and p, before correction."""
    random = np.random.default_rng(derive(seed, claim.name, way))
    return joined(*p_values(each, _effects(each, way), draws, random), claim.scope)


def expected(claim: Claim, design: Design) -> Expected:
    """Return the comparisons of a claim at its design's size.

    Where the paper's own numbers are outside of what it claims, a comparison has a
    typical effect instead: the median of the others', in units of their noise.
    """
    printed = printed_evidence().data
    kept = tuple(d for d in printed if d.record.item not in design.without)
    findings = tuple(claim.judge(Evidence(kept), claim.needs))
    means = "printed"
    if design.assumed or not findings:
        findings, means = _assumed(design), "assumed"
    noise = np.array([design.noise(each.where) for each in findings])
    depth = np.array([each.depth for each in findings])
    if (depth <= 0).any():
        typical = noise * np.median((depth / noise)[depth > 0])
        findings = tuple(map(_inside, findings, typical))
        means = "as claimed"
    units = np.array([design.units(each.where) for each in findings])
    return Expected(findings, noise, units, units - design.fits, means)


def _assumed(design: Design) -> tuple[Finding, ...]:
    region: dict[str, Any] = {"low": design.region[0], "high": design.region[1]}
    return tuple(
        Finding(where=name, effect=effect, error=0.0, freedom=1, n=0, **region)
        for name, effect in design.assumed.items()
    )


def _inside(finding: Finding, typical: float) -> Finding:
    """Return a finding that holds: as it is, or moved by a typical effect."""
    if finding.depth > 0:
        return finding
    above = np.isfinite(finding.low)
    effect = finding.low + typical if above else finding.high - typical
    return replace(finding, effect=float(effect))


def _effects(each: Expected, way: str) -> Array:
    """Return true effects; one that is not there lies at the edge of the claim."""
    claimed = np.array([finding.effect for finding in each.findings])
    edges = np.array([f.low if np.isfinite(f.low) else f.high for f in each.findings])
    if way == "as_claimed":
        return claimed
    if way == "without_effect":
        return edges
    weakest = np.argmin([finding.depth for finding in each.findings] / each.noise)
    claimed[weakest] = edges[weakest]
    return claimed


def p_values(
    each: Expected,
    effects: Array,
    draws: int,
    random: np.random.Generator,
) -> tuple[Array, Array]:
    """Return the p-values for and against each comparison, by draw."""
    freedom = each.freedom[:, None]
    shape = len(effects), draws
    scale = (each.noise / np.sqrt(each.units))[:, None]
    mean = effects[:, None] + scale * random.standard_normal(shape)
    error = scale * np.sqrt(random.chisquare(freedom, shape) / freedom)
    return of_draws(each.findings, mean, error, freedom)


def of_draws(
    findings: Sequence[Finding], mean: Array, error: Array, freedom: float | Array
) -> tuple[Array, Array]:
    """Return what ``Finding`` calls ``p_for`` and ``p_against``, of many at once."""
    from scipy.special import stdtr

    low, high, looks = (
        np.array([getattr(finding, name) for finding in findings])[:, None]
        for name in ("low", "high", "looks")
    )
    above, below = (mean - low) / error, (high - mean) / error
    inside = np.maximum(stdtr(freedom, -above), stdtr(freedom, -below))
    outside = np.minimum(stdtr(freedom, above), stdtr(freedom, below))
    return np.minimum(1.0, looks * inside), np.minimum(1.0, looks * outside)


def joined(p_for: Array, p_against: Array, scope: Scope) -> Drawn:
    """Return what ``decide`` does of many draws: whether they hold, and p."""
    support = p_for.max(0)
    doubt = p_against.max(0)
    if scope == "always":
        doubt = len(p_against) * p_against.min(0)
    holds = support <= doubt
    return holds, np.minimum(1.0, 2 * np.where(holds, support, doubt))


def supported(family: Sequence[Drawn], which: int) -> float:
    """Return how often one claim is supported among those it is judged with."""
    corrected = holm_of_draws(np.array([p for _, p in family]))
    return float(np.mean(family[which][0] & (corrected[which] <= LEVEL)))


def holm_of_draws(p: Array) -> Array:
    """Return p-values corrected for their number, draw by draw."""
    order = np.argsort(p, axis=0)
    steps = np.arange(len(p), 0, -1)[:, None] * np.take_along_axis(p, order, 0)
    corrected = np.empty_like(p)
    largest = np.minimum(1.0, np.maximum.accumulate(steps, axis=0))
    np.put_along_axis(corrected, order, largest, 0)
    return corrected
