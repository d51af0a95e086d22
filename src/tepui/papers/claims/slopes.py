"""Slopes of diversity on sharpness over SAM's radii, and whether SAM flattens."""

import math
from collections.abc import Iterator, Sequence

from tepui.papers.claims.base import Check, Finding
from tepui.papers.claims.comparisons import apart, combined, level, log_line
from tepui.papers.claims.evidence import (
    PRINTED,
    Datum,
    Evidence,
    label,
    plain_name,
)

SWEEPS = tuple(f"sharpbalance/figure{number}" for number in (3, 4))
# The radius that table 1 chooses for every data set; beyond it members break.
LARGEST_RADIUS = 0.2
FLATTER = 0.1  # by which share sharpness falls if SAM does what it is for


def tradeoff(evidence: Evidence, items: Sequence[str]) -> Iterator[Finding]:
    """Slopes of diversity on sharpness are positive; each counts once.

    Several panels show the same ensembles by the same measures.
    """
    shown = set()
    for beta, line in slopes(evidence, items):
        at = beta.record.at
        measures = at.get("sharpness_measure"), at.get("diversity")
        slope = beta.record.config_hash, line.effect, measures
        if slope in shown:
            continue
        if beta.record.config_hash:
            shown.add(slope)
        yield line


def slopes(evidence: Evidence, items: Sequence[str]) -> Iterator[tuple[Datum, Finding]]:
    """Yield each slope of figures over radii: as printed, or fitted to ensembles."""
    betas = evidence.find(items, metric="beta")
    for beta in sorted(betas, key=lambda datum: datum.record.item):
        if beta.size == PRINTED:
            yield beta, level(beta, _slope_of(beta))
        elif line := log_line(*_points(evidence, beta), _slope_of(beta)):
            yield beta, line


def _slope_of(beta: Datum) -> str:
    """Return a slope in words; the usual measures, of figure 4, are not named."""
    usual = {"sharpness_measure": "worst_case", "diversity": "der"}
    rest = {k: v for k, v in beta.names.items() if (k, v) not in usual.items()}
    return f"beta: {label(rest)}"


def _points(evidence: Evidence, beta: Datum) -> tuple[list[Datum], list[Datum]]:
    """Return sharpness and diversity of SAM's ensembles, up to the largest radius."""
    record = beta.record
    axes = {**record.at, "architecture": record.architecture, "method": "sam"}
    measure, diversity = axes.pop("sharpness_measure"), axes.pop("diversity")
    sharp = {"dataset": record.dataset, "sharpness_measure": measure}
    diverse = {"dataset": f"{record.dataset}_c", "metric": diversity}
    found = (
        evidence.find([record.item], metric="sharpness", **sharp, **axes),
        evidence.find([record.item], **diverse, **axes),
    )
    sharpness, diversities = (
        [datum for datum in several if datum.names["rho"] <= LARGEST_RADIUS]
        for several in found
    )
    return sharpness, diversities


def flattening(evidence: Evidence, studied: Sequence[Datum]) -> list[Finding]:
    """Return by which share SAM, with a study's radii, flattens on its data sets.

    All of them must have been looked at.
    """
    radii = radii_of(studied)
    names = {"metric": "sharpness", "sharpness_measure": "worst_case"}
    found, left = [], {*radii}
    for group, points in evidence.groups(SWEEPS, ["method", "rho"], **names):
        radius = radii.get(group["dataset"])
        plain, flat = points.get(("deep_ensemble", 0)), points.get(("sam", radius))
        if plain and flat and plain.record.value:
            where = f"radius {radius:g}, {label(group)}"
            found.append(combined([plain, flat], _fall, where, (FLATTER, math.inf)))
            left.discard(group["dataset"])
    return [] if left else found


def _fall(values: Sequence[float]) -> float:
    return 1 - values[1] / values[0]


SAM_FLATTENS = Check("SAM lowers sharpness by a tenth", flattening)


def radii_of(studied: Sequence[Datum]) -> dict[str, float]:
    """Return the largest radius on each data set; the paper's where none is told.

    SharpBalance's radius is SAM's.
    """
    radii: dict[str, float] = {}
    for datum in studied:
        own = datum.names.get("rho", datum.rho)
        radius = LARGEST_RADIUS if own is None else own
        sharp = datum.record.method.startswith(("sam", "sharpbalance"))
        if sharp and radius <= LARGEST_RADIUS:
            name = plain_name(datum.record.dataset)
            radii[name] = max(radius, radii.get(name, 0.0))
    return radii


def beta_falls(
    evidence: Evidence, items: Sequence[str], axis: str, sign: int
) -> Iterator[Finding]:
    """Smaller networks have larger slopes: both ends of an axis."""
    # The figure's text does not tell which printed slope belongs to which network:
    # they were assigned by this very claim.
    found = {
        beta.names[axis]: line
        for beta, line in slopes(evidence, items)
        if axis in beta.names and beta.size != PRINTED
    }
    if len(found) > 1:
        small, large = sorted(found, reverse=sign < 0)[:: len(found) - 1]
        where = f"beta at {axis} {small:g} less {large:g}"
        yield apart(found[small], found[large], where)
