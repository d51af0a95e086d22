"""Claims of the SharpBalance paper."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, product

from tepui.papers.claims import theorems
from tepui.papers.claims.base import Check, Claim, Finding
from tepui.papers.claims.comparisons import (
    among,
    apart,
    combined,
    duels,
    gap_trends,
    level,
    levels,
    log_line,
    trends,
)
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


BARS = tuple(f"sharpbalance/figure7{panel}" for panel in "abcdef")
CORRUPTED_BARS, CLEAN_BARS = BARS[:3], BARS[3:]
BASELINES = ("deep_ensemble", "sam")
# Percentage points by which a method may fall short and still be as good.
MARGIN = 0.2
# What rounds to one percent, of runs of as many epochs as the paper's.
ONE_PERCENT = 1.5
EPOCHS = 200
OURS = "sharpbalance"  # by the paper's rule
ahead = partial(duels, metric="ensemble_accuracy")
leads_grow = partial(gap_trends, metric="ensemble_accuracy")


def scoring_cost(evidence: Evidence, items: Sequence[str]) -> Iterator[Finding]:
    """One scoring of all samples adds little to as many epochs as the paper's.

    The rule that takes sets from the scores does not matter.
    """
    for datum in evidence.find(items, metric="scoring_overhead"):
        epochs = EPOCHS if datum.size == PRINTED else datum.epochs
        if epochs is not None:
            where = f"percent of {EPOCHS} epochs, {datum.record.method}"
            region = (-math.inf, ONE_PERCENT)
            yield combined([datum], partial(_per_run, epochs), where, region)


def _per_run(epochs: int, values: Sequence[float]) -> float:
    """Return what one scoring adds to as many epochs as the paper's."""
    return values[0] * epochs / EPOCHS


def _of_several(datum: Datum) -> bool:
    """Leave out single members: SharpBalance's is SAM's, and cannot lead."""
    return bool(datum.names.get("ensemble_size") != 1)


def _of_clean_data(datum: Datum) -> bool:
    return not datum.record.dataset.endswith("_c")


def _of_curvature(datum: Datum) -> bool:
    return datum.names.get("score") in (None, "input_curvature")


def uncertainty_order(
    evidence: Evidence, items: Sequence[str], winner: str
) -> Iterator[Finding]:
    """SharpBalance below SAM and, for the paper's rule, SAM below plain ensembles."""
    of_sam = [("sam", "deep_ensemble")] if winner == OURS else []
    for metric, pair in product(("ece", "nll"), (*of_sam, (winner, "sam"))):
        better, worse = pair
        yield from duels(evidence, items, metric, better, [worse], sign=-1)


def uncertainty_falls(
    evidence: Evidence, items: Sequence[str], winner: str
) -> Iterator[Finding]:
    """All methods' for the paper's rule, else only SharpBalance's."""
    methods = (*(BASELINES if winner == OURS else ()), winner)
    for metric, method in product(("ece", "nll"), methods):
        names = {"axis": "ensemble_size", "sign": -1, "method": method}
        yield from trends(evidence, items, metric, **names)


def with_gsam(
    evidence: Evidence, items: Sequence[str], winner: str
) -> Iterator[Finding]:
    """SharpBalance ahead of GSAM; for the paper's rule also what GSAM improves."""
    yield from ahead(evidence, items, winner=winner, rivals=["gsam"])
    if winner == OURS:
        yield from ahead(evidence, items, winner="gsam", rivals=["sam"])
        of_clean = among(_of_clean_data, ahead)
        both = {"winner": "sharpbalance_gsam", "rivals": [winner]}
        yield from of_clean(evidence, items, **both)


def by_rule(claim: Claim) -> Iterator[Claim]:
    """Yield a claim about SharpBalance for the paper's rule, and for the released."""
    yield replace(claim, judge=partial(claim.judge, winner=OURS))
    text = OF_RELEASED.get(claim.name, claim.text)
    yield replace(
        claim,
        name=f"{claim.name}-released",
        text=f"{text} By the released rule, after SAM.",
        judge=partial(claim.judge, winner=f"{OURS}_released"),
        twin="released",
    )


# What is left of claims that are also about others than SharpBalance.
OF_RELEASED = {
    "sharpbalance/uncertainty-order": "ECE and NLL under corruption: SharpBalance "
    "below SAM.",
    "sharpbalance/uncertainty-size": "ECE and NLL of SharpBalance under corruption "
    "fall as members are added.",
    "sharpbalance/gsam": "SAM's ensembles with GSAM stay behind SharpBalance.",
}
ACCURACY = "percentage points of ensemble accuracy"
OF_EITHER_RULE = (
    Claim(
        name="sharpbalance/tradeoff",
        text="Less sharp ensembles are less diverse, for every data set and measure "
        "(radii up to 0.2, the one that table 1 chooses).",
        source="Sections 3 and 4.2; figures 3, 4, 5 and 12",
        needs=(*SWEEPS, "sharpbalance/figure5", "sharpbalance/figure12"),
        judge=tradeoff,
        effect="slope of log diversity on log sharpness",
        checks=(SAM_FLATTENS,),
    ),
    Claim(
        name="sharpbalance/sam-individual",
        text="SAM makes single members more accurate.",
        source="Section 4.4; figure 7",
        needs=BARS,
        judge=partial(
            duels,
            metric="individual_accuracy",
            winner="sam",
            rivals=["deep_ensemble"],
        ),
        effect="percentage points of individual accuracy",
        scope="generally",
        checks=(SAM_FLATTENS,),
    ),
    Claim(
        name="sharpbalance/sam-improvement",
        text="SAM lowers what an ensemble gains over its members (EIR).",
        source="Section 4.4; figure 7",
        needs=BARS,
        judge=partial(
            duels,
            metric="eir",
            winner="sam",
            rivals=["deep_ensemble"],
            sign=-1,
        ),
        effect="EIR of the plain ensemble less SAM's",
        scope="generally",
        checks=(SAM_FLATTENS,),
    ),
    Claim(
        name="sharpbalance/beta-width",
        text="Narrower networks trade diversity for flatness more steeply.",
        source="Section 4.2; figure 5a",
        needs=("sharpbalance/figure5a",),
        judge=partial(beta_falls, axis="width", sign=1),
        effect="beta of the narrowest less the widest",
    ),
    Claim(
        name="sharpbalance/beta-sparsity",
        text="Sparser networks trade diversity for flatness more steeply.",
        source="Section 4.2; figure 5b",
        needs=("sharpbalance/figure5b",),
        judge=partial(beta_falls, axis="sparsity", sign=-1),
        effect="beta of the sparsest less the densest",
    ),
    Claim(
        name="sharpbalance/fisher-curvature",
        text="The Fisher trace ranks samples as their input curvature does.",
        source="Appendix F.3; figure 14",
        needs=("sharpbalance/figure14",),
        judge=among(_of_curvature, partial(levels, metric="rank_correlation")),
        effect="Spearman's rank correlation",
    ),
    Claim(
        name="sharpbalance/scoring-cost",
        text="Scoring the samples adds 1 % to the training time of 200 epochs (judged: "
        "below 1.5 %).",
        source="Appendix G; table 8",
        needs=("sharpbalance/table8",),
        judge=scoring_cost,
        effect="percent of the training time",
    ),
)
OF_SHARPBALANCE = (
    Claim(
        name="sharpbalance/wins-ood",
        text="SharpBalance is more accurate than plain ensembles and SAM's on "
        "corrupted data.",
        source="Section 4.4; figures 7a to 7c",
        needs=CORRUPTED_BARS,
        judge=partial(ahead, rivals=BASELINES),
        effect=ACCURACY,
        checks=(SAM_FLATTENS,),
    ),
    Claim(
        name="sharpbalance/wins-id",
        text="SharpBalance is no less accurate than plain ensembles and SAM's on clean "
        "data (by 0.2 points).",
        source="Section 4.4; figures 7d to 7f",
        needs=CLEAN_BARS,
        judge=partial(ahead, rivals=BASELINES, region=(-MARGIN, math.inf)),
        effect=ACCURACY,
        checks=(SAM_FLATTENS,),
    ),
    Claim(
        name="sharpbalance/other-networks",
        text="With WideResNets, ViT and ALBERT, too, SharpBalance is more accurate "
        "than plain ensembles and SAM's.",
        source="Appendix F.2; figure 13, table 5",
        needs=("sharpbalance/figure13", "sharpbalance/table5"),
        judge=partial(ahead, rivals=BASELINES),
        effect=ACCURACY,
    ),
    Claim(
        name="sharpbalance/gap-severity",
        text="SharpBalance's lead over SAM grows with the severity of corruptions.",
        source="Section 4.4; tables 2 to 4",
        needs=tuple(f"sharpbalance/table{number}" for number in (2, 3, 4)),
        judge=partial(leads_grow, axis="severity", rivals=["sam"]),
        effect="percentage points per step of severity",
        checks=(SAM_FLATTENS,),
    ),
    Claim(
        name="sharpbalance/gap-size",
        text="SharpBalance's lead over plain ensembles and SAM's, the better of both, "
        "grows with the members, from two on.",
        source="Section 4.4; figure 8",
        needs=("sharpbalance/figure8",),
        judge=among(
            _of_several, partial(leads_grow, axis="ensemble_size", rivals=BASELINES)
        ),
        effect="percentage points per member",
        checks=(SAM_FLATTENS,),
    ),
    Claim(
        name="sharpbalance/gain-at-five",
        text="With five members SharpBalance leads plain ensembles and SAM's on "
        "CIFAR-100-C, by up to 1.30 points (judged: at all).",
        source="Section 4.4; figure 8",
        needs=("sharpbalance/figure8",),
        judge=partial(ahead, rivals=BASELINES, dataset="cifar100_c", ensemble_size=5),
        effect=ACCURACY,
        checks=(SAM_FLATTENS,),
    ),
    Claim(
        name="sharpbalance/uncertainty-order",
        text="ECE and NLL under corruption: SAM below plain, SharpBalance below SAM.",
        source="Appendix F.5; figure 15",
        needs=("sharpbalance/figure15",),
        judge=among(_of_several, uncertainty_order),
        effect="ECE or NLL of the worse less the better",
        checks=(SAM_FLATTENS,),
    ),
    Claim(
        name="sharpbalance/uncertainty-size",
        text="ECE and NLL under corruption fall as members are added.",
        source="Appendix F.5; figure 15",
        needs=("sharpbalance/figure15",),
        judge=uncertainty_falls,
        effect="fall of ECE or NLL per member",
    ),
    Claim(
        name="sharpbalance/gsam",
        text="GSAM improves SAM's ensembles, which stay behind SharpBalance; with "
        "GSAM, SharpBalance is better on clean data.",
        source="Appendix F.4; table 7",
        needs=("sharpbalance/table7",),
        judge=with_gsam,
        effect=ACCURACY,
        checks=(SAM_FLATTENS,),
    ),
    Claim(
        name="sharpbalance/eoa-sam-plus",
        text="SharpBalance is more accurate than EoA and SAM+.",
        source="Appendix F.4; table 6",
        needs=("sharpbalance/table6",),
        judge=partial(ahead, rivals=["eoa", "sam_plus"]),
        effect=ACCURACY,
        checks=(SAM_FLATTENS,),
    ),
)
TWICE = tuple(chain.from_iterable(map(by_rule, OF_SHARPBALANCE)))
CLAIMS = (
    *OF_EITHER_RULE,
    *(claim for claim in TWICE if not claim.twin),
    *theorems.CLAIMS,
    *(claim for claim in TWICE if claim.twin),
)
