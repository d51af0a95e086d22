"""Claims of the paper on scalable ensemble diversification (SED)."""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise, product

from tepui.papers.claims.base import Claim, Finding, Judge
from tepui.papers.claims.comparisons import (
    Region,
    all_of,
    among,
    combined,
    difference,
    duels,
    trends,
)
from tepui.papers.claims.evidence import Datum, Evidence, label

SED = "sed_a2d"
CLEAN = "imagenet_val"
JUMP = (0.1, 10.0)
# Percentage points by which a method may fall short and still be as good.
SHORT = 0.5
# Either will do: an exponent does not depend on the unit.
STEP_TIMES = ("step_milliseconds", "relative_step_time")
# Exponents of the step time in the number of members that still count as claimed.
CONSTANT: Region = (-0.25, 0.25)
QUADRATIC: Region = (-0.5, 0.5)


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
    """Most of the change over lambda happens between 0.1 and 10."""
    for group, points in evidence.groups(items, ["lambda"], metric=metric):
        places = sorted(points)
        inside = [place for place in places if JUMP[0] <= place <= JUMP[1]]
        if len(inside) < 2 or inside == places:
            continue
        first, last = (places.index(place) for place in (inside[0], inside[-1]))

        def excess(
            values: Sequence[float], first: int = first, last: int = last
        ) -> float:
            steps = [b - a for a, b in pairwise(values)]
            outside = steps[:first] + steps[last:]
            return sum(steps[first:last]) - sum(map(abs, outside))

        where = f"rise of {metric} within less change outside: {label(group)}"
        yield combined([points[place] for place in places], excess, where)


def _shifted(datum: Datum) -> bool:
    return datum.record.dataset != CLEAN


def _exponents(methods: Sequence[str], region: Region, target: float) -> Judge:
    """The step time grows with the number of members to some power."""
    return all_of(
        partial(
            trends,
            metric=metric,
            axis="ensemble_size",
            log_log=True,
            region=region,
            target=target,
            method=method,
        )
        for metric, method in product(STEP_TIMES, methods)
    )


CLAIMS = (
    Claim(
        name="sed/unique",
        text="SED's members give more different answers than any other method's.",
        source="Section 4.2; table 1",
        needs=("sed/table1",),
        judge=among(_shifted, partial(duels, metric="unique_predictions", winner=SED)),
        effect="different answers per sample",
    ),
    Claim(
        name="sed/pds-over-bma",
        text="For diverse ensembles (SED) PDS detects unfamiliar data better than BMA.",
        source="Section 4.4; table 3",
        needs=("sed/table3",),
        judge=pds_over_bma,
        effect="AUROC of PDS less BMA",
    ),
    Claim(
        name="sed/best-detector",
        text="SED with PDS has the best AUROC of all methods and scores.",
        source="Section 4.4; table 3",
        needs=("sed/table3",),
        judge=best_detector,
        effect="AUROC",
    ),
    Claim(
        name="sed/aggregations",
        text="SED generalizes best to shifted data under all three aggregations.",
        source="Section 4.3; table 2",
        needs=("sed/table2",),
        judge=among(_shifted, partial(duels, metric="accuracy", winner=SED)),
        effect="percentage points of accuracy",
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
    ),
    Claim(
        name="sed/lambda-jump",
        text="Diversity and detection jump in lambda between 0.1 and 10.",
        source="Section 4.4; figure 3",
        needs=("sed/figure3",),
        judge=all_of(partial(jump, metric=metric) for metric in ("pds", "auroc")),
        effect="PDS or AUROC, rise within less change outside",
    ),
    Claim(
        name="sed/auroc-size",
        text="SED's AUROC grows with the number of members.",
        source="Section 4.4; figure 4",
        needs=("sed/figure4",),
        judge=partial(trends, metric="auroc", axis="ensemble_size", method=SED),
        effect="AUROC per member",
    ),
    Claim(
        name="sed/step-constant",
        text="The cost of SED's step does not depend on the number of members.",
        source="Section 4.4; figure 4",
        needs=("sed/figure4",),
        judge=_exponents([SED], CONSTANT, 0.0),
        effect="exponent of the step time, within 0.25 of 0",
    ),
    Claim(
        name="sed/naive-quadratic",
        text="The cost of the naive methods' step is quadratic in their members.",
        source="Section 3.2; figure 4",
        needs=("sed/figure4",),
        judge=_exponents(["a2d", "divdis"], QUADRATIC, 2.0),
        effect="exponent of the step time less 2, within 0.5 of 0",
    ),
)
