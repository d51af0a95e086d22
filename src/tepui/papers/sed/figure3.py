"""Figure 3: diversity and detection against the weight of SED's disagreement.

Beside the paper's two curves stands the accuracy on clean images: what it costs.
"""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from tepui.methods import SED
from tepui.metrics import accuracy, pds
from tepui.papers.recipe import Order, Recipe
from tepui.papers.sed.protocol import (
    ARCHITECTURE,
    DETECTED,
    answers,
    aurocs,
    examined,
    extractors,
    settings,
    trials,
)
from tepui.papers.sed.scales import SCALES, Scale
from tepui.report.curves import Curves, curve_panels
from tepui.studies.jobs import Job
from tepui.studies.results import Record, Results, averaged
from tepui.studies.specifications import Trial
from tepui.studies.store import Store

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def by_weight(scale: Scale) -> dict[float, list[Trial]]:
    """Return an ensemble per repetition for every weight."""
    return {
        weight: trials(scale, "sed_a2d", method=SED(weight=weight))
        for weight in scale.lambdas
    }


def plan(order: Order) -> list[Job]:
    """Return the ensembles of all weights."""
    scale = SCALES[order.size]
    work = extractors(scale)
    for runs in by_weight(scale).values():
        work += examined(scale, runs)
    return work


def records(store: Store, order: Order) -> Iterator[Record]:
    """Return mean PDS, its AUROC and the accuracy on clean images, by weight."""
    scale = SCALES[order.size]
    for weight, runs in by_weight(scale).items():
        sets = list(answers(store, scale, runs, scale.members))
        detected = [aurocs(each) for each in sets]
        number = partial(
            averaged,
            trials=runs,
            item="sed/figure3",
            architecture=ARCHITECTURE,
            method="sed_a2d",
        )
        at: dict[str, Any] = {"lambda": weight, "ensemble_size": scale.members}
        for name in DETECTED:
            yield number(
                [float(pds(each[name][0]).mean()) for each in sets],
                dataset=name,
                metric="pds",
                unit="none",
                at=at,
            )
            yield number(
                [each["pds", name] for each in detected],
                dataset=name,
                metric="auroc",
                unit="fraction",
                at={**at, "score": "PDS"},
            )
        yield number(
            [
                100 * float(accuracy(*each["imagenet_val"], rule="logit"))
                for each in sets
            ],
            dataset="imagenet_val",
            metric="accuracy",
            unit="percent",
            at=at,
        )


def draw(found: Results) -> "Figure":
    """Return a panel for diversity, one for detection and one for the cost."""

    def lines(metric: str) -> dict[str, list[Record]]:
        shown = found.find(metric=metric)
        names = dict.fromkeys(record.dataset for record in shown)
        return {name: [r for r in shown if r.dataset == name] for name in names}

    return curve_panels(
        [
            Curves("diversity", "lambda", "mean PDS", lines("pds"), log=True),
            Curves("detection", "lambda", "AUROC of PDS", lines("auroc"), log=True),
            Curves("cost", "lambda", "accuracy in %", lines("accuracy"), log=True),
        ]
    )


RECIPE = Recipe(
    title="diversity and detection against the weight of the disagreement",
    plan=plan,
    records=records,
    settings=lambda order: settings(
        order.size, lambdas=list(SCALES[order.size].lambdas)
    ),
    draw=draw,
)
