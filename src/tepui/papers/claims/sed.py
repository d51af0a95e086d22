"""Claims of the paper on scalable ensemble diversification (SED)."""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product

from tepui.papers.claims.base import Check, Claim, Finding, Judge, Region
from tepui.papers.claims.comparisons import (
    all_of,
    among,
    combined,
    difference,
    duels,
    levels,
    trends,
)
from tepui.papers.claims.evidence import Datum, Evidence, label

SED = "sed_a2d"
NAIVE = ("a2d", "divdis")
CLEAN = "imagenet_val"
JUMP = (0.1, 10.0)
# Percentage points by which a method may fall short and still be as good.
SHORT = 0.5
# AUROC by which more members may be worse where they help but marginally.
WORSE = 0.01
# Different answers per sample, of at most five, from which an ensemble is diverse.
DIVERSE = 2
# Either will do: an exponent does not depend on the unit.
STEP_TIMES = ("step_milliseconds", "relative_step_time")
# Exponents of the step time in the number of members that still count as claimed.
CONSTANT: Region = (-0.25, 0.25)
AT_MOST_QUADRATIC: Region = (-math.inf, 2.25)


def pds_over_bma(evidence: Evidence, items: Sequence[str]) -> Iterator[Finding]:
    """PDS detects better than BMA for SED."""
    names = {"metric": "auroc", "method": SED}
    for group, scores in evidence.groups(items, ["score"], **names):
        if {"PDS", "BMA"} <= {*scores}:
            where = f"PDS against BMA: {label(group)}"
            yield difference(scores["PDS"], scores["BMA"], where)


def best_detector(evidence: Evidence, items: Sequence[str]) -> Iterator[Finding]:
    """SED with PDS detects better than every other method with either score."""
    for group, detectors in evidence.groups(items, ["method", "score"], metric="auroc"):
        first = detectors.get((SED, "PDS"))
        for (method, score), other in detectors.items():
            if first is not None and other is not first:
                where = f"against {method} with {score}: {label(group)}"
                yield difference(first, other, where)


def jump(evidence: Evidence, items: Sequence[str], metric: str) -> Iterator[Finding]:
    """The change over lambda between 0.1 and 10 is a rise, and larger than beside it.

    Changes have their signs: noise adds nothing to them, as it does to absolute ones.
    """
    for group, points in evidence.groups(items, ["lambda"], metric=metric):
        places = sorted(points)
        inside = [place for place in places if JUMP[0] <= place <= JUMP[1]]
        if len(inside) < 2:
            continue
        first, last = points[inside[0]], points[inside[-1]]
        where = f"of {metric}: {label(group)}"
        yield difference(last, first, f"rise {where}")
        lowest, highest = points[places[0]], points[places[-1]]
        if lowest is not first:
            below = [last, first, first, lowest]
            yield combined(below, _excess, f"rise less change below, {where}")
        if highest is not last:
            above = [last, first, highest, last]
            yield combined(above, _excess, f"rise less change above, {where}")


def _excess(values: Sequence[float]) -> float:
    """Return one difference less another."""
    return values[0] - values[1] - (values[2] - values[3])


def more_members(evidence: Evidence, items: Sequence[str]) -> Iterator[Finding]:
    """Five members detect better than two, and more of them no worse than five."""
    names = {"metric": "auroc", "method": SED, "dataset": "imagenet_c1"}
    for group, points in evidence.groups(items, ["ensemble_size"], **names):
        if {2, 5} <= {*points}:
            yield difference(points[5], points[2], f"five against two: {label(group)}")
        largest = max(points)
        if 5 in points and largest > 5:
            where = f"{largest} against five: {label(group)}"
            yield difference(points[largest], points[5], where, (-WORSE, math.inf))


def shifted_accuracy(evidence: Evidence, items: Sequence[str]) -> Iterator[Finding]:
    """SED is ahead on shifted data, but for the exception that the paper names."""
    found = duels(evidence, items, "accuracy", SED)
    for finding in found:
        rival = finding.where.removeprefix(f"{SED} against ").split(",")[0]
        of_five = "ensemble size 5," in finding.where
        oracle = finding.where.endswith("aggregation oracle selection")
        if not (rival.startswith("deep_ensemble") and of_five and oracle):
            yield finding


def diversified(evidence: Evidence, studied: Sequence[Datum]) -> Iterator[Finding]:
    """SED's members give at least two different answers to shifted samples."""
    judge = partial(levels, metric="unique_predictions", region=(DIVERSE, math.inf))
    yield from among(_shifted, partial(judge, method=SED))(evidence, ["sed/table1"])


def accurate(evidence: Evidence, studied: Sequence[Datum]) -> Iterator[Finding]:
    """SED's five members lose next to nothing in domain, as the paper's do."""
    judge = partial(duels, metric="accuracy", winner=SED, rivals=["deep_ensemble"])
    at = partial(judge, dataset=CLEAN, ensemble_size=5, region=(-SHORT, math.inf))
    yield from at(evidence, ["sed/table2"])


def quadratic(evidence: Evidence, studied: Sequence[Datum]) -> Iterator[Finding]:
    """The exponents of the naive methods are nearer to two than to one."""
    yield from _exponents(NAIVE, (1.5, math.inf))(evidence, ["sed/figure4"])


def _shifted(datum: Datum) -> bool:
    return datum.record.dataset != CLEAN


def _exponents(methods: Sequence[str], region: Region) -> Judge:
    """The step time grows with the number of members to some power."""
    return all_of(
        partial(
            trends,
            metric=metric,
            axis="ensemble_size",
            log_log=True,
            region=region,
            method=method,
        )
        for metric, method in product(STEP_TIMES, methods)
    )


TREATED = (
    Check("SED's members differ", diversified),
    Check("SED keeps its accuracy in domain", accurate),
)
CLAIMS = (
    Claim(
        name="sed/unique",
        text="SED's members give more different answers than any other method's.",
        source="Section 4.2; table 1",
        needs=("sed/table1",),
        judge=among(_shifted, partial(duels, metric="unique_predictions", winner=SED)),
        effect="different answers per sample",
        circular="the weight was chosen by this measure",
    ),
    Claim(
        name="sed/pds-over-bma",
        text="For diverse ensembles (SED) PDS detects unfamiliar data better than BMA.",
        source="Section 4.4; table 3",
        needs=("sed/table3",),
        judge=pds_over_bma,
        effect="AUROC of PDS less BMA",
        checks=TREATED,
    ),
    Claim(
        name="sed/best-detector",
        text="SED with PDS has the best AUROC of all methods and scores.",
        source="Section 4.4; table 3",
        needs=("sed/table3",),
        judge=best_detector,
        effect="AUROC",
        checks=TREATED,
    ),
    Claim(
        name="sed/aggregations",
        text="SED generalizes best to shifted data under all three aggregations (but "
        "for deep ensembles of five under oracle selection).",
        source="Section 4.3; table 2",
        needs=("sed/table2",),
        judge=among(_shifted, shifted_accuracy),
        effect="percentage points of accuracy",
        checks=TREATED,
    ),
    Claim(
        name="sed/envelops-a2d",
        text="SED envelops naive A2D: it is nowhere less accurate (by 0.5 points).",
        source="Section 4.3; table 2",
        needs=("sed/table2",),
        judge=partial(
            duels,
            metric="accuracy",
            winner=SED,
            rivals=["a2d"],
            region=(-SHORT, math.inf),
        ),
        effect="percentage points of accuracy",
        checks=TREATED,
    ),
    Claim(
        name="sed/lambda-jump",
        text="Diversity and detection jump in lambda between 0.1 and 10.",
        source="Section 4.4; figure 3",
        needs=("sed/figure3",),
        judge=all_of(partial(jump, metric=metric) for metric in ("pds", "auroc")),
        effect="PDS or AUROC: rise within, and less the change on either side",
    ),
    Claim(
        name="sed/auroc-size",
        text="On C-1, SED's AUROC with five members is above that with two; more "
        "members help marginally (judged: are no worse by 0.01).",
        source="Section 4.4; figure 4",
        needs=("sed/figure4",),
        judge=more_members,
        effect="AUROC",
        checks=TREATED,
    ),
    Claim(
        name="sed/step-constant",
        text="The cost of SED's step does not depend on the number of members.",
        source="Section 4.4; figure 4",
        needs=("sed/figure4",),
        judge=_exponents([SED], CONSTANT),
        effect="exponent of the step time, within 0.25 of 0",
    ),
    Claim(
        name="sed/naive-quadratic",
        text="The cost of the naive methods' step is O(M²), at most quadratic in their "
        "members (judged: only the upper bound, an exponent below 2.25).",
        source="Section 4.4; figure 4",
        needs=("sed/figure4",),
        judge=_exponents(NAIVE, AT_MOST_QUADRATIC),
        effect="exponent of the step time",
        checks=(Check("growth is nearer to M² than to M", quadratic),),
    ),
)
