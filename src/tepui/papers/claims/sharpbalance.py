"""Claims of the SharpBalance paper."""

import math
from collections.abc import Iterator
from functools import cache, partial
from typing import Literal

from tepui.papers.claims.base import Claim, Finding
from tepui.papers.claims.comparisons import (
    Region,
    apart,
    best,
    combined,
    duels,
    gap_trends,
    level,
    trends,
)
from tepui.papers.claims.evidence import PRINTED, Evidence, label
from tepui.studies.results import Record
from tepui.theory import (
    Setting,
    simulate_subset_constant,
    subset_constant,
    theorem1,
)
from tepui.theory.theorems import Gap

BARS = tuple(f"sharpbalance/figure7{panel}" for panel in "abcdef")
BASELINES = ("deep_ensemble", "sam")
GAIN = 1.3
# What rounds to one percent.
ONE_PERCENT = 1.5
# Further from a simulation than this is another number.
AGREEMENT: Region = (0.99, 1.01)


def tradeoff(evidence: Evidence) -> Iterator[Finding]:
    """Slopes of diversity on sharpness are positive; each counts once.

    Several panels show the same ensembles by the same measures.
    """
    items = [f"sharpbalance/figure{number}" for number in (3, 4, 5, 12)]
    found = evidence.find(items, metric="beta")
    shown = set()
    for datum in sorted(found, key=lambda datum: datum.record.item):
        record = datum.record
        measures = record.at.get("sharpness_measure"), record.at.get("diversity")
        slope = record.config_hash, record.value, measures
        if slope in shown:
            continue
        if record.config_hash:
            shown.add(slope)
        yield level(datum, f"beta: {label(datum.names)}")


def sam_individual(evidence: Evidence) -> Iterator[Finding]:
    """SAM's members are more accurate than plain ones."""
    yield from duels(evidence, BARS, "individual_accuracy", "sam", ["deep_ensemble"])


def sam_improvement(evidence: Evidence) -> Iterator[Finding]:
    """SAM's ensembles gain less over their members than plain ones."""
    yield from duels(evidence, BARS, "eir", "sam", ["deep_ensemble"], sign=-1)


def wins(evidence: Evidence) -> Iterator[Finding]:
    """SharpBalance is more accurate than plain ensembles and SAM's."""
    items = (*BARS, "sharpbalance/figure13", "sharpbalance/table5")
    metric = "ensemble_accuracy"
    yield from duels(evidence, items, metric, "sharpbalance", BASELINES)


def gap_severity(evidence: Evidence) -> Iterator[Finding]:
    """SharpBalance's lead over SAM grows with the severity of corruptions."""
    items = [f"sharpbalance/table{number}" for number in (2, 3, 4)]
    names = ("ensemble_accuracy", "severity", "sharpbalance", ["sam"])
    yield from gap_trends(evidence, items, *names)


def gap_size(evidence: Evidence) -> Iterator[Finding]:
    """SharpBalance's lead over the better baseline grows with the ensemble."""
    names = ("ensemble_accuracy", "ensemble_size", "sharpbalance", BASELINES)
    yield from gap_trends(_of_several(evidence), ["sharpbalance/figure8"], *names)


def gain_at_five(evidence: Evidence) -> Iterator[Finding]:
    """With five members, SharpBalance leads the best baseline by 1.30 points."""
    names = {
        "dataset": "cifar100_c",
        "metric": "ensemble_accuracy",
        "ensemble_size": 5,
    }
    groups = evidence.groups(["sharpbalance/figure8"], ["method"], **names)
    for group, methods in groups:
        if {"sharpbalance", *BASELINES} <= {*methods}:
            pair = methods["sharpbalance"], best(methods, BASELINES, 1)
            where = f"sharpbalance against the better baseline: {label(group)}"
            yield combined(pair, lambda v: v[0] - v[1], where, (GAIN, math.inf))


def beta_falls(
    evidence: Evidence, item: str, axis: str, sign: int
) -> Iterator[Finding]:
    """Smaller networks have larger slopes: both ends of an axis."""
    for group, betas in evidence.groups([item], [axis], metric="beta"):
        # The figure's text does not tell which printed slope belongs to which network:
        # they were assigned by this very claim.
        if len(betas) > 1 and group["size"] != PRINTED:
            small, large = sorted(betas, reverse=sign < 0)[:: len(betas) - 1]
            where = f"beta at {axis} {small} less {large}: {label(group)}"
            yield apart(betas[small], betas[large], where)


def rank_correlation(evidence: Evidence) -> Iterator[Finding]:
    """Fisher traces and input curvatures rank samples alike."""
    for datum in evidence.find(["sharpbalance/figure14"], metric="rank_correlation"):
        if datum.record.at.get("score", "input_curvature") == "input_curvature":
            yield level(datum, f"rank correlation: {label(datum.names)}")


def uncertainty_order(evidence: Evidence) -> Iterator[Finding]:
    """Calibration error and log-likelihood order the three methods."""
    several = _of_several(evidence)
    for metric in ("ece", "nll"):
        for better, worse in (("sam", "deep_ensemble"), ("sharpbalance", "sam")):
            items = ["sharpbalance/figure15"]
            yield from duels(several, items, metric, better, [worse], sign=-1)


def uncertainty_size(evidence: Evidence) -> Iterator[Finding]:
    """Calibration error and log-likelihood fall as ensembles grow."""
    for metric in ("ece", "nll"):
        items = ["sharpbalance/figure15"]
        yield from trends(evidence, items, metric, "ensemble_size", sign=-1)


def scoring(evidence: Evidence) -> Iterator[Finding]:
    """Scoring all samples once adds one percent to the training time."""
    for datum in evidence.find(["sharpbalance/table8"], metric="scoring_overhead"):
        where = f"percent added by scoring: {label(datum.names)}"
        yield level(datum, where, (-math.inf, ONE_PERCENT))


def gsam(evidence: Evidence) -> Iterator[Finding]:
    """GSAM in place of SAM improves ensembles of SAM and SharpBalance."""
    pairs = (("gsam", "sam"), ("sharpbalance_gsam", "sharpbalance"))
    for better, worse in pairs:
        items, metric = ["sharpbalance/table7"], "ensemble_accuracy"
        yield from duels(evidence, items, metric, better, [worse])


def beaten(evidence: Evidence) -> Iterator[Finding]:
    """SharpBalance is more accurate than EoA and SAM+."""
    items, rivals = ["sharpbalance/table6"], ["eoa", "sam_plus"]
    yield from duels(evidence, items, "ensemble_accuracy", "sharpbalance", rivals)


def _of_several(evidence: Evidence) -> Evidence:
    """Leave out single members: SharpBalance's is SAM's, and cannot lead."""
    data = (each for each in evidence.data if each.names.get("ensemble_size") != 1)
    return Evidence(tuple(data))


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
    found = []
    for name in ("printed", "corrected"):
        ratio = _constant(name) / float(simulated)
        sem = ratio * float(error) / float(simulated)
        found.append(_theorem("theorem2", name, "constant_ratio", ratio, sem, 100))
        scaling = _lower_bound(name, 2) / _lower_bound(name, 1) / 4
        found.append(_theorem("theorem1", name, "bound_scaling", scaling, 0.0, 1))
    return tuple(found)


def _constant(name: Literal["printed", "corrected"]) -> float:
    found = subset_constant(4, eta=0.02, rho=0.1, ratio=20.0, subsets=3, constant=name)
    return float(found)


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


def agrees(
    evidence: Evidence, item: str, metric: str, method: str
) -> Iterator[Finding]:
    """A constant of the theory is right: its ratio to what it must be is one."""
    for datum in evidence.find([item], metric=metric, method=method):
        where = f"{metric.replace('_', ' ')}, {method}: {item.split('/')[1]}"
        yield level(datum, where, AGREEMENT)


def _theorem(
    item: str, method: str, metric: str, value: float, sem: float, n: int
) -> Record:
    return Record(
        item=f"sharpbalance/{item}",
        dataset="random_quadratics",
        architecture="linear",
        method=method,
        metric=metric,
        value=value,
        unit="ratio",
        n=n,
        sem=sem,
    )


def _theory(name: str, text: str, source: str, method: str, number: int) -> Claim:
    item = f"sharpbalance/theorem{number}"
    metric = ("bound_scaling", "constant_ratio")[number - 1]
    return Claim(
        name=f"sharpbalance/{name}",
        text=text,
        source=source,
        needs=(item,),
        judge=partial(agrees, item=item, metric=metric, method=method),
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
        judge=sam_individual,
        effect="percentage points of individual accuracy",
        scope="generally",
    ),
    Claim(
        name="sharpbalance/sam-improvement",
        text="SAM lowers what an ensemble gains over its members (EIR).",
        source="Section 4.4; figure 7",
        needs=BARS,
        judge=sam_improvement,
        effect="EIR of the plain ensemble less SAM's",
        scope="generally",
    ),
    Claim(
        name="sharpbalance/wins",
        text="SharpBalance is more accurate than plain ensembles and SAM's.",
        source="Section 4.4; figures 7 and 13, table 5",
        needs=(*BARS, "sharpbalance/figure13", "sharpbalance/table5"),
        judge=wins,
        effect=ACCURACY,
    ),
    Claim(
        name="sharpbalance/gap-severity",
        text="Its lead over SAM grows with the severity of corruptions.",
        source="Section 4.4; tables 2 to 4",
        needs=tuple(f"sharpbalance/table{number}" for number in (2, 3, 4)),
        judge=gap_severity,
        effect="percentage points per step of severity",
    ),
    Claim(
        name="sharpbalance/gap-size",
        text="Its lead over the better baseline grows with the members, from two on.",
        source="Section 4.4; figure 8",
        needs=("sharpbalance/figure8",),
        judge=gap_size,
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
        judge=partial(beta_falls, item="sharpbalance/figure5a", axis="width", sign=1),
        effect="beta of the narrowest less the widest",
    ),
    Claim(
        name="sharpbalance/beta-sparsity",
        text="Sparser networks trade diversity for flatness more steeply.",
        source="Section 4.2; figure 5b",
        needs=("sharpbalance/figure5b",),
        judge=partial(
            beta_falls, item="sharpbalance/figure5b", axis="sparsity", sign=-1
        ),
        effect="beta of the sparsest less the densest",
    ),
    Claim(
        name="sharpbalance/fisher-curvature",
        text="The Fisher trace ranks samples as their input curvature does.",
        source="Appendix F.3; figure 14",
        needs=("sharpbalance/figure14",),
        judge=rank_correlation,
        effect="Spearman's rank correlation",
    ),
    Claim(
        name="sharpbalance/uncertainty-order",
        text="ECE and NLL under corruption: SAM below plain, SharpBalance below SAM.",
        source="Appendix F.5; figure 15",
        needs=("sharpbalance/figure15",),
        judge=uncertainty_order,
        effect="ECE or NLL of the worse less the better",
    ),
    Claim(
        name="sharpbalance/uncertainty-size",
        text="ECE and NLL under corruption fall as members are added.",
        source="Appendix F.5; figure 15",
        needs=("sharpbalance/figure15",),
        judge=uncertainty_size,
        effect="fall of ECE or NLL per member",
    ),
    Claim(
        name="sharpbalance/scoring-cost",
        text="Scoring the samples adds 1 % to the training time (judged: below 1.5 %).",
        source="Appendix G; table 8",
        needs=("sharpbalance/table8",),
        judge=scoring,
        effect="percent of the training time",
    ),
    Claim(
        name="sharpbalance/gsam",
        text="GSAM in place of SAM improves both SAM's ensembles and SharpBalance.",
        source="Appendix F.4; table 7, though of SharpBalance with GSAM the paper "
        "itself claims only better accuracy on clean data",
        needs=("sharpbalance/table7",),
        judge=gsam,
        effect=ACCURACY,
    ),
    Claim(
        name="sharpbalance/eoa-sam-plus",
        text="SharpBalance is more accurate than EoA and SAM+.",
        source="Appendix F.4; table 6",
        needs=("sharpbalance/table6",),
        judge=beaten,
        effect=ACCURACY,
    ),
    _theory(
        "theorem1-printed",
        "The lower bound of Theorem 1, as printed, scales as sharpness does.",
        "Theorem 1",
        "printed",
        1,
    ),
    _theory(
        "theorem1-corrected",
        "The lower bound of Theorem 1, as corrected here, scales as sharpness does.",
        "our correction, theory page",
        "corrected",
        1,
    ),
    _theory(
        "theorem2-printed",
        "The constant C of Theorem 2, as printed, is what simulations give (to 1 %).",
        "Theorem 2",
        "printed",
        2,
    ),
    _theory(
        "theorem2-corrected",
        "The constant C of Theorem 2, as corrected here, is what simulations give.",
        "our correction, theory page",
        "corrected",
        2,
    ),
)
