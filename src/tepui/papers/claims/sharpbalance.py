"""Claims of the SharpBalance paper."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from tepui.papers.claims import theorems
from tepui.papers.claims.base import Claim, Finding, Judge
from tepui.papers.claims.comparisons import (
    all_of,
    among,
    combined,
    duels,
    gap_trends,
    levels,
    trends,
)
from tepui.papers.claims.evidence import PRINTED, Datum, Evidence
from tepui.papers.claims.slopes import SAM_FLATTENS, SWEEPS, beta_falls, tradeoff

BARS = tuple(f"sharpbalance/figure7{panel}" for panel in "abcdef")
CORRUPTED_BARS, CLEAN_BARS = BARS[:3], BARS[3:]
BASELINES = ("deep_ensemble", "sam")
# Percentage points by which a method may fall short and still be as good.
MARGIN = 0.2
# What rounds to one percent, of runs of as many epochs as the paper's.
ONE_PERCENT = 1.5
EPOCHS = 200
ahead = partial(duels, metric="ensemble_accuracy")
leads = partial(ahead, winner="sharpbalance")
leads_grow = partial(gap_trends, metric="ensemble_accuracy", winner="sharpbalance")


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


def _of_the_paper(datum: Datum) -> bool:
    """Leave out the released rule, which has a claim of its own."""
    return not datum.record.method.endswith(RELEASED)


def _of_clean_data(datum: Datum) -> bool:
    return not datum.record.dataset.endswith("_c")


def _of_curvature(datum: Datum) -> bool:
    return datum.names.get("score") in (None, "input_curvature")


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
    """Return a claim about SharpBalance for the released rule."""
    text = OF_RELEASED.get(claim.name, claim.text)
    return replace(
        claim,
        name=f"{claim.name}-released",
        text=f"{text} By the released rule, after SAM.",
        judge=of_released(claim.judge),
        twin="released",
    )


RELEASED = "_released"
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
        unit="points",
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
            by_member=True,
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
            by_member=True,
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
        unit="points",
    ),
    Claim(
        name="sharpbalance/beta-sparsity",
        text="Sparser networks trade diversity for flatness more steeply.",
        source="Section 4.2; figure 5b",
        needs=("sharpbalance/figure5b",),
        judge=partial(beta_falls, axis="sparsity", sign=-1),
        effect="beta of the sparsest less the densest",
        unit="points",
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
    Claim(
        name="sharpbalance/scoring-cost",
        text="Scoring the samples adds 1 % to the training time of 200 epochs (judged: "
        "below 1.5 %).",
        source="Appendix G; table 8",
        needs=("sharpbalance/table8",),
        judge=scoring_cost,
        effect="percent of the training time",
        unit="runs",
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
        checks=(SAM_FLATTENS,),
    ),
    Claim(
        name="sharpbalance/wins-id",
        text="SharpBalance is no less accurate than plain ensembles and SAM's on clean "
        "data (by 0.2 points).",
        source="Section 4.4; figures 7d to 7f",
        needs=CLEAN_BARS,
        judge=partial(leads, rivals=BASELINES, region=(-MARGIN, math.inf)),
        effect=ACCURACY,
        checks=(SAM_FLATTENS,),
    ),
    Claim(
        name="sharpbalance/other-networks",
        text="With WideResNets, ViT and ALBERT, too, SharpBalance is more accurate "
        "than plain ensembles and SAM's.",
        source="Appendix F.2; figure 13, table 5",
        needs=("sharpbalance/figure13", "sharpbalance/table5"),
        judge=partial(leads, rivals=BASELINES),
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
        judge=partial(leads, rivals=BASELINES, dataset="cifar100_c", ensemble_size=5),
        effect=ACCURACY,
        checks=(SAM_FLATTENS,),
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
        checks=(SAM_FLATTENS,),
    ),
    Claim(
        name="sharpbalance/uncertainty-size",
        text="ECE and NLL under corruption fall as members are added.",
        source="Appendix F.5; figure 15",
        needs=("sharpbalance/figure15",),
        judge=among(
            _of_the_paper,
            all_of(
                partial(trends, metric=metric, axis="ensemble_size", sign=-1)
                for metric in ("ece", "nll")
            ),
        ),
        effect="fall of ECE or NLL per member",
    ),
    Claim(
        name="sharpbalance/gsam",
        text="GSAM improves SAM's ensembles, which stay behind SharpBalance; with "
        "GSAM, SharpBalance is better on clean data.",
        source="Appendix F.4; table 7",
        needs=("sharpbalance/table7",),
        judge=all_of(
            (
                partial(ahead, winner="gsam", rivals=["sam"]),
                partial(ahead, winner="sharpbalance", rivals=["gsam"]),
                among(
                    _of_clean_data,
                    partial(ahead, winner="sharpbalance_gsam", rivals=["sharpbalance"]),
                ),
            )
        ),
        effect=ACCURACY,
        checks=(SAM_FLATTENS,),
    ),
    Claim(
        name="sharpbalance/eoa-sam-plus",
        text="SharpBalance is more accurate than EoA and SAM+.",
        source="Appendix F.4; table 6",
        needs=("sharpbalance/table6",),
        judge=partial(leads, rivals=["eoa", "sam_plus"]),
        effect=ACCURACY,
        checks=(SAM_FLATTENS,),
    ),
)
CLAIMS = (
    *OF_EITHER_RULE,
    *OF_SHARPBALANCE,
    *theorems.CLAIMS,
    *map(released_twin, OF_SHARPBALANCE),
)
