"""Claims of the SharpBalance paper."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, Literal

from tepui.papers.claims.base import Checked, Claim, Finding, Judge
from tepui.papers.claims.comparisons import (
    Region,
    all_of,
    among,
    apart,
    combined,
    difference,
    duels,
    gap_trends,
    level,
    levels,
    log_line,
    trends,
)
from tepui.papers.claims.evidence import PRINTED, Datum, Evidence, label
from tepui.studies import Record
from tepui.theory import Setting, simulate_subset_constant, subset_constant, theorem1
from tepui.theory.theorems import Gap

BARS = tuple(f"sharpbalance/figure7{panel}" for panel in "abcdef")
CORRUPTED_BARS, CLEAN_BARS = BARS[:3], BARS[3:]
BASELINES = ("deep_ensemble", "sam")
SWEEPS = tuple(f"sharpbalance/figure{number}" for number in (3, 4))
# The radius that table 1 chooses for every data set; beyond it members break.
LARGEST_RADIUS = 0.2
# Percentage points by which a method may fall short and still be as good.
MARGIN = 0.2
# What rounds to one percent, of runs of as many epochs as the paper's.
ONE_PERCENT = 1.5
EPOCHS = 200
# Further from a simulation than this is another number.
AGREEMENT: Region = (0.99, 1.01)
leads = partial(duels, metric="ensemble_accuracy", winner="sharpbalance")
leads_grow = partial(gap_trends, metric="ensemble_accuracy", winner="sharpbalance")


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


def slopes(
    evidence: Evidence, items: Sequence[str]
) -> Iterator[tuple[Datum, Finding]]:
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


def sam_flattens(evidence: Evidence) -> Checked | None:
    """Return whether SAM, at the paper's radius, lowers sharpness on every data set."""
    lower = []
    names = {"metric": "sharpness", "sharpness_measure": "worst_case"}
    for _, points in evidence.groups(SWEEPS, ["method", "rho"], **names):
        plain, flat = (
            points.get(place) for place in (("deep_ensemble", 0), ("sam", 0.2))
        )
        if plain is not None and flat is not None:
            lower.append((flat.record.value or 0.0) < (plain.record.value or 0.0))
    if not lower:
        return None
    said = f"SAM lowers sharpness in {sum(lower)} of {len(lower)} panels"
    return Checked(all(lower), said)


def gain_at_five(evidence: Evidence, items: Sequence[str]) -> Iterator[Finding]:
    """With five members, SharpBalance leads both baselines."""
    names = {"dataset": "cifar100_c", "ensemble_size": 5}
    return leads(evidence, items, rivals=BASELINES, **names)


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


def scoring_cost(evidence: Evidence, items: Sequence[str]) -> Iterator[Finding]:
    """One scoring of all samples adds little to as many epochs as the paper's."""
    for datum in evidence.find(items, metric="scoring_overhead"):
        epochs = EPOCHS if datum.size == PRINTED else datum.epochs
        if epochs is None:
            continue
        share = epochs / EPOCHS
        where = f"percent of {EPOCHS} epochs added by scoring: {label(datum.names)}"
        region = (-math.inf, ONE_PERCENT)
        yield combined([datum], lambda v, share=share: share * v[0], where, region)


def _of_several(datum: Datum) -> bool:
    """Leave out single members: SharpBalance's is SAM's, and cannot lead."""
    return bool(datum.names.get("ensemble_size") != 1)


def _of_curvature(datum: Datum) -> bool:
    return datum.names.get("score") in (None, "input_curvature")


@cache
def theorem_numbers() -> tuple[Record, ...]:
    """Return constants of both theorems, as printed and as corrected.

    Theorem 2's constant is divided by its mean over 100 simulated matrices of
    1200 x 60. Theorem 1's lower bound is computed for all lengths doubled and divided
    by four: sharpness, a rise of a quadratic, must come out as it was.
    """
    simulated, error = simulate_subset_constant(
        4, eta=0.02, rho=0.1, n=1200, d=60, subsets=3, matrices=100
    )
    numbers = []
    for name in ("printed", "corrected"):
        ratio = _constant(name) / float(simulated)
        scaling = _lower_bound(name, 2) / _lower_bound(name, 1) / 4
        sem = ratio * float(error) / float(simulated)
        numbers += [
            _number("theorem2", name, "constant_ratio", ratio, n=100, sem=sem),
            _number("theorem1", name, "bound_scaling", scaling, n=1, sem=0.0),
        ]
    return tuple(numbers)


def _constant(name: Literal["printed", "corrected"]) -> float:
    chosen = subset_constant(4, eta=0.02, rho=0.1, ratio=20.0, subsets=3, constant=name)
    return float(chosen)


def _lower_bound(name: Literal["printed", "corrected"], length: int) -> float:
    setting = Setting(
        rho0=0.01 * length,
        n=3000,
        d=150,
        sigma2=0.1 * length**2,
        theta_norm=length * math.sqrt(15),
    )
    gap: Gap = "paper" if name == "printed" else "haar"
    return float(theorem1(setting, 3, eta=0.01, rho=0.1, gap=gap).sharpness_lower)


def _number(item: str, method: str, metric: str, value: float, **rest: Any) -> Record:
    return Record(
        item=f"sharpbalance/{item}",
        dataset="random_quadratics",
        architecture="linear",
        method=method,
        metric=metric,
        value=value,
        unit="ratio",
        **rest,
    )


def _theory(name: str, text: str, source: str) -> Claim:
    item, method = name.split("-")
    metric = {"theorem1": "bound_scaling", "theorem2": "constant_ratio"}[item]
    return Claim(
        name=f"sharpbalance/{name}",
        text=text,
        source=source,
        needs=(f"sharpbalance/{item}",),
        judge=partial(levels, metric=metric, region=AGREEMENT, method=method),
        effect="ratio to what it must be",
        unit="matrices",
        computed=theorem_numbers,
    )


def of_released(judge: Judge) -> Judge:
    """Return a judge that sees the released rule's numbers for the paper's rule."""

    def renamed(datum: Datum) -> Datum | None:
        name = datum.record.method
        if name.endswith(RELEASED):
            record = replace(datum.record, method=name.removesuffix(RELEASED))
            return replace(datum, record=record)
        return None if name.startswith("sharpbalance") else datum

    def judged(evidence: Evidence, items: Sequence[str]) -> Iterator[Finding]:
        ours = (datum for datum in evidence.data if datum.size != PRINTED)
        kept = tuple(datum for each in ours if (datum := renamed(each)) is not None)
        for finding in judge(Evidence(kept), items):
            if "sharpbalance" in finding.where:
                where = finding.where.replace("sharpbalance", f"sharpbalance{RELEASED}")
                yield replace(finding, where=where)

    return judged


def released_twin(claim: Claim) -> Claim:
    """Return a claim about SharpBalance for the library's default rule."""
    return replace(
        claim,
        name=f"{claim.name}-released",
        text=f"{claim.text} By the released rule, the library's default.",
        judge=of_released(claim.judge),
    )


RELEASED = "_released"
ACCURACY = "percentage points of ensemble accuracy"
OF_SAM = (
    Claim(
        name="sharpbalance/tradeoff",
        text="Less sharp ensembles are less diverse, for every data set and measure "
        "(radii up to 0.2, the one that table 1 chooses).",
        source="Sections 3 and 4.2; figures 3, 4, 5 and 12",
        needs=(*SWEEPS, "sharpbalance/figure5", "sharpbalance/figure12"),
        judge=tradeoff,
        effect="slope of log diversity on log sharpness",
        unit="ensembles on a line",
        check=sam_flattens,
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
            by_member=True,
        ),
        effect="percentage points of individual accuracy",
        scope="generally",
        check=sam_flattens,
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
            by_member=True,
        ),
        effect="EIR of the plain ensemble less SAM's",
        scope="generally",
        check=sam_flattens,
    ),
    Claim(
        name="sharpbalance/beta-width",
        text="Narrower networks trade diversity for flatness more steeply.",
        source="Section 4.2; figure 5a",
        needs=("sharpbalance/figure5a",),
        judge=partial(beta_falls, axis="width", sign=1),
        effect="beta of the narrowest less the widest",
        unit="ensembles on a line",
    ),
    Claim(
        name="sharpbalance/beta-sparsity",
        text="Sparser networks trade diversity for flatness more steeply.",
        source="Section 4.2; figure 5b",
        needs=("sharpbalance/figure5b",),
        judge=partial(beta_falls, axis="sparsity", sign=-1),
        effect="beta of the sparsest less the densest",
        unit="ensembles on a line",
    ),
    Claim(
        name="sharpbalance/fisher-curvature",
        text="The Fisher trace ranks samples as their input curvature does.",
        source="Appendix F.3; figure 14",
        needs=("sharpbalance/figure14",),
        judge=among(_of_curvature, partial(levels, metric="rank_correlation")),
        effect="Spearman's rank correlation",
        unit="networks",
    ),
)
OF_SHARPBALANCE = (
    Claim(
        name="sharpbalance/wins-ood",
        text="SharpBalance is more accurate than plain ensembles and SAM's on "
        "corrupted data.",
        source="Section 4.4; figures 7a to 7c",
        needs=CORRUPTED_BARS,
        judge=partial(leads, rivals=BASELINES),
        effect=ACCURACY,
    ),
    Claim(
        name="sharpbalance/wins-id",
        text="SharpBalance is no less accurate than plain ensembles and SAM's on clean "
        "data (by 0.2 points).",
        source="Section 4.4; figures 7d to 7f",
        needs=CLEAN_BARS,
        judge=partial(leads, rivals=BASELINES, region=(-MARGIN, math.inf)),
        effect=ACCURACY,
    ),
    Claim(
        name="sharpbalance/other-networks",
        text="SharpBalance is more accurate than both with WideResNets, ViT and "
        "ALBERT, too.",
        source="Appendix F.2; figure 13, table 5",
        needs=("sharpbalance/figure13", "sharpbalance/table5"),
        judge=partial(leads, rivals=BASELINES),
        effect=ACCURACY,
    ),
    Claim(
        name="sharpbalance/gap-severity",
        text="Its lead over SAM grows with the severity of corruptions.",
        source="Section 4.4; tables 2 to 4",
        needs=tuple(f"sharpbalance/table{number}" for number in (2, 3, 4)),
        judge=partial(leads_grow, axis="severity", rivals=["sam"]),
        effect="percentage points per step of severity",
    ),
    Claim(
        name="sharpbalance/gap-size",
        text="Its lead over the better baseline grows with the members, from two on.",
        source="Section 4.4; figure 8",
        needs=("sharpbalance/figure8",),
        judge=among(
            _of_several, partial(leads_grow, axis="ensemble_size", rivals=BASELINES)
        ),
        effect="percentage points per member",
    ),
    Claim(
        name="sharpbalance/gain-at-five",
        text="With five members it leads both baselines on CIFAR-100-C, by up to 1.30 "
        "points (judged: at all).",
        source="Section 4.4; figure 8",
        needs=("sharpbalance/figure8",),
        judge=gain_at_five,
        effect=ACCURACY,
    ),
    Claim(
        name="sharpbalance/uncertainty-order",
        text="ECE and NLL under corruption: SAM below plain, SharpBalance below SAM.",
        source="Appendix F.5; figure 15",
        needs=("sharpbalance/figure15",),
        judge=among(
            _of_several,
            all_of(
                partial(duels, metric=metric, winner=better, rivals=[worse], sign=-1)
                for metric in ("ece", "nll")
                for better, worse in (("sam", "deep_ensemble"), ("sharpbalance", "sam"))
            ),
        ),
        effect="ECE or NLL of the worse less the better",
        check=sam_flattens,
    ),
    Claim(
        name="sharpbalance/uncertainty-size",
        text="ECE and NLL under corruption fall as members are added.",
        source="Appendix F.5; figure 15",
        needs=("sharpbalance/figure15",),
        judge=all_of(
            partial(trends, metric=metric, axis="ensemble_size", sign=-1)
            for metric in ("ece", "nll")
        ),
        effect="fall of ECE or NLL per member",
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
    Claim(
        name="sharpbalance/gsam",
        text="GSAM improves SAM's ensembles, which stay behind SharpBalance; with GSAM, "
        "SharpBalance is better on clean data.",
        source="Appendix F.4; table 7",
        needs=("sharpbalance/table7",),
        judge=all_of(
            partial(
                duels, metric="ensemble_accuracy", winner=winner, rivals=[rival], **data
            )
            for winner, rival, data in (
                ("gsam", "sam", {}),
                ("sharpbalance", "gsam", {}),
                ("sharpbalance_gsam", "sharpbalance", {"dataset": "cifar100"}),
            )
        ),
        effect=ACCURACY,
    ),
    Claim(
        name="sharpbalance/eoa-sam-plus",
        text="SharpBalance is more accurate than EoA and SAM+.",
        source="Appendix F.4; table 6",
        needs=("sharpbalance/table6",),
        judge=partial(leads, rivals=["eoa", "sam_plus"]),
        effect=ACCURACY,
    ),
)
THEOREMS = (
    _theory(
        "theorem1-printed",
        "The lower bound of Theorem 1, as printed, scales as sharpness does.",
        "Theorem 1",
    ),
    _theory(
        "theorem1-corrected",
        "The lower bound of Theorem 1, as corrected here, scales as sharpness does.",
        "our correction, theory page",
    ),
    _theory(
        "theorem2-printed",
        "The constant C of Theorem 2, as printed, is what simulations give (to 1 %).",
        "Theorem 2",
    ),
    _theory(
        "theorem2-corrected",
        "The constant C of Theorem 2, as corrected here, is what simulations give.",
        "our correction, theory page",
    ),
)
CLAIMS = (*OF_SAM, *OF_SHARPBALANCE, *THEOREMS, *map(released_twin, OF_SHARPBALANCE))
