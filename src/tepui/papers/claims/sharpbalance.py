"""Claims of the SharpBalance paper."""

import math
from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import Any, Literal

from tepui.papers.claims.base import Claim, Finding
from tepui.papers.claims.comparisons import (
    Region,
    all_of,
    among,
    apart,
    best,
    difference,
    duels,
    gap_trends,
    level,
    levels,
    trends,
)
from tepui.papers.claims.evidence import PRINTED, Datum, Evidence, label
from tepui.studies import Record
from tepui.theory import Setting, simulate_subset_constant, subset_constant, theorem1
from tepui.theory.theorems import Gap

BARS = tuple(f"sharpbalance/figure7{panel}" for panel in "abcdef")
BASELINES = ("deep_ensemble", "sam")
GAIN = 1.3
# What rounds to one percent.
ONE_PERCENT = 1.5
# Further from a simulation than this is another number.
AGREEMENT: Region = (0.99, 1.01)
leads = partial(duels, metric="ensemble_accuracy", winner="sharpbalance")
leads_grow = partial(gap_trends, metric="ensemble_accuracy", winner="sharpbalance")


def tradeoff(evidence: Evidence, items: Sequence[str]) -> Iterator[Finding]:
    """Slopes of diversity on sharpness are positive; each counts once.

    Several panels show the same ensembles by the same measures.
    """
    shown = set()
    betas = evidence.find(items, metric="beta")
    for datum in sorted(betas, key=lambda datum: datum.record.item):
        record = datum.record
        measures = record.at.get("sharpness_measure"), record.at.get("diversity")
        slope = record.config_hash, record.value, measures
        if slope in shown:
            continue
        if record.config_hash:
            shown.add(slope)
        yield level(datum, f"beta: {label(datum.names)}")


def gain_at_five(evidence: Evidence, items: Sequence[str]) -> Iterator[Finding]:
    """With five members, SharpBalance leads the better baseline by 1.30 points."""
    names = {"dataset": "cifar100_c", "metric": "ensemble_accuracy"}
    groups = evidence.groups(items, ["method"], ensemble_size=5, **names)
    for group, methods in groups:
        if {"sharpbalance", *BASELINES} <= {*methods}:
            where = f"sharpbalance against the better baseline: {label(group)}"
            rival = best(methods, BASELINES, 1)
            yield difference(methods["sharpbalance"], rival, where, (GAIN, math.inf))


def beta_falls(
    evidence: Evidence, items: Sequence[str], axis: str, sign: int
) -> Iterator[Finding]:
    """Smaller networks have larger slopes: both ends of an axis."""
    for group, betas in evidence.groups(items, [axis], metric="beta"):
        # The figure's text does not tell which printed slope belongs to which network:
        # they were assigned by this very claim.
        if len(betas) > 1 and group["size"] != PRINTED:
            small, large = sorted(betas, reverse=sign < 0)[:: len(betas) - 1]
            where = f"beta at {axis} {small} less {large}: {label(group)}"
            yield apart(betas[small], betas[large], where)


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
        computed=theorem_numbers,
    )


ACCURACY = "percentage points of ensemble accuracy"
CLAIMS = (
    Claim(
        name="sharpbalance/tradeoff",
        text="Less sharp ensembles are less diverse, for every data set and measure.",
        source="Sections 3 and 4.2; figures 3, 4, 5 and 12",
        needs=(
            "sharpbalance/figure3",
            "sharpbalance/figure4",
            "sharpbalance/figure5",
            "sharpbalance/figure12",
        ),
        judge=tradeoff,
        effect="slope of log diversity on log sharpness",
    ),
    Claim(
        name="sharpbalance/sam-individual",
        text="SAM makes single members more accurate.",
        source="Section 4.4; figure 7",
        needs=BARS,
        judge=partial(
            duels, metric="individual_accuracy", winner="sam", rivals=["deep_ensemble"]
        ),
        effect="percentage points of individual accuracy",
        scope="generally",
    ),
    Claim(
        name="sharpbalance/sam-improvement",
        text="SAM lowers what an ensemble gains over its members (EIR).",
        source="Section 4.4; figure 7",
        needs=BARS,
        judge=partial(
            duels, metric="eir", winner="sam", rivals=["deep_ensemble"], sign=-1
        ),
        effect="EIR of the plain ensemble less SAM's",
        scope="generally",
    ),
    Claim(
        name="sharpbalance/wins",
        text="SharpBalance is more accurate than plain ensembles and SAM's.",
        source="Section 4.4; figures 7 and 13, table 5",
        needs=(*BARS, "sharpbalance/figure13", "sharpbalance/table5"),
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
        text="With five members it leads the baselines on CIFAR-100-C by 1.30 points.",
        source="Section 4.4; figure 8",
        needs=("sharpbalance/figure8",),
        judge=gain_at_five,
        effect=ACCURACY,
        scope="somewhere",
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
        text="Scoring the samples adds 1 % to the training time (judged: below 1.5 %).",
        source="Appendix G; table 8",
        needs=("sharpbalance/table8",),
        judge=partial(
            levels,
            metric="scoring_overhead",
            words="percent added by scoring",
            region=(-math.inf, ONE_PERCENT),
        ),
        effect="percent of the training time",
    ),
    Claim(
        name="sharpbalance/gsam",
        text="GSAM in place of SAM improves both SAM's ensembles and SharpBalance.",
        source="Appendix F.4; table 7, though of SharpBalance with GSAM the paper "
        "itself claims only better accuracy on clean data",
        needs=("sharpbalance/table7",),
        judge=all_of(
            partial(duels, metric="ensemble_accuracy", winner=better, rivals=[worse])
            for better, worse in (
                ("gsam", "sam"),
                ("sharpbalance_gsam", "sharpbalance"),
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
