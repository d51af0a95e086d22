"""Claims of the paper on scalable ensemble diversification (SED)."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise, product

from tepui.papers.claims.base import Claim, Finding
from tepui.papers.claims.comparisons import Region, combined, duels, trends
from tepui.papers.claims.evidence import Evidence, label

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


def unique(evidence: Evidence) -> Iterator[Finding]:
    """Members of SED give more different answers than those of any other method."""
    yield from duels(_shifted(evidence), ["sed/table1"], "unique_predictions", SED)


def scores(evidence: Evidence) -> Iterator[Finding]:
    """PDS detects better than BMA for SED."""
    names = {"metric": "auroc", "method": SED}
    for group, found in evidence.groups(["sed/table3"], ["score"], **names):
        if {"PDS", "BMA"} <= {*found}:
            pair = found["PDS"], found["BMA"]
            where = f"PDS against BMA: {label(group)}"
            yield combined(pair, lambda v: v[0] - v[1], where)


def best_detector(evidence: Evidence) -> Iterator[Finding]:
    """SED with PDS detects better than every other method with either score."""
    inside = ["method", "score"]
    for group, found in evidence.groups(["sed/table3"], inside, metric="auroc"):
        first = found.get((SED, "PDS"))
        for (method, score), other in found.items():
            if first is not None and other is not first:
                where = f"against {method} with {score}: {label(group)}"
                yield combined((first, other), lambda v: v[0] - v[1], where)


def aggregations(evidence: Evidence) -> Iterator[Finding]:
    """SED is more accurate than all others on shifted data, however it is joined."""
    yield from duels(_shifted(evidence), ["sed/table2"], "accuracy", SED)


def envelops(evidence: Evidence) -> Iterator[Finding]:
    """SED is at least as accurate as naive A2D everywhere."""
    region = -SHORT, math.inf
    items, metric = ["sed/table2"], "accuracy"
    yield from duels(evidence, items, metric, SED, ["a2d"], region=region)


def jump(evidence: Evidence) -> Iterator[Finding]:
    """Most of the change over lambda happens between 0.1 and 10."""
    for metric in ("pds", "auroc"):
        names = {"metric": metric}
        for group, found in evidence.groups(["sed/figure3"], ["lambda"], **names):
            places = sorted(found)
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
            yield combined([found[place] for place in places], excess, where)


def detection_size(evidence: Evidence) -> Iterator[Finding]:
    """Detection improves as SED gets more members."""
    items = ["sed/figure4"]
    yield from trends(evidence, items, "auroc", "ensemble_size", method=SED)


def constant_step(evidence: Evidence) -> Iterator[Finding]:
    """The exponent of SED's step time in the number of members is zero."""
    yield from _exponents(evidence, (SED,), CONSTANT, 0.0)


def quadratic_step(evidence: Evidence) -> Iterator[Finding]:
    """The exponent of the naive methods' step time is two."""
    yield from _exponents(evidence, ("a2d", "divdis"), QUADRATIC, 2.0)


def _shifted(evidence: Evidence) -> Evidence:
    return Evidence(tuple(d for d in evidence.data if d.record.dataset != CLEAN))


def _exponents(
    evidence: Evidence, methods: Sequence[str], region: Region, target: float
) -> Iterator[Finding]:
    for metric, method in product(STEP_TIMES, methods):
        yield from trends(
            evidence,
            ["sed/figure4"],
            metric,
            "ensemble_size",
            log_log=True,
            region=region,
            target=target,
            method=method,
        )


CLAIMS = (
    Claim(
        name="sed/unique",
        text="SED's members give more different answers than any other method's.",
        source="Section 4.2; table 1",
        needs=("sed/table1",),
        judge=unique,
        effect="different answers per sample",
    ),
    Claim(
        name="sed/pds-over-bma",
        text="For diverse ensembles (SED) PDS detects unfamiliar data better than BMA.",
        source="Section 4.4; table 3",
        needs=("sed/table3",),
        judge=scores,
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
        judge=aggregations,
        effect="percentage points of accuracy",
    ),
    Claim(
        name="sed/envelops-a2d",
        text="SED envelops naive A2D: it is nowhere less accurate (by 0.5 points).",
        source="Section 4.3; table 2",
        needs=("sed/table2",),
        judge=envelops,
        effect="percentage points of accuracy",
    ),
    Claim(
        name="sed/lambda-jump",
        text="Diversity and detection jump in lambda between 0.1 and 10.",
        source="Section 4.4; figure 3",
        needs=("sed/figure3",),
        judge=jump,
        effect="PDS or AUROC, rise within less change outside",
    ),
    Claim(
        name="sed/auroc-size",
        text="SED's AUROC grows with the number of members.",
        source="Section 4.4; figure 4",
        needs=("sed/figure4",),
        judge=detection_size,
        effect="AUROC per member",
    ),
    Claim(
        name="sed/step-constant",
        text="The cost of SED's step does not depend on the number of members.",
        source="Section 4.4; figure 4",
        needs=("sed/figure4",),
        judge=constant_step,
        effect="exponent of the step time, within 0.25 of 0",
    ),
    Claim(
        name="sed/naive-quadratic",
        text="The cost of the naive methods' step is quadratic in their members.",
        source="Section 3.2; figure 4",
        needs=("sed/figure4",),
        judge=quadratic_step,
        effect="exponent of the step time less 2, within 0.5 of 0",
    ),
)
