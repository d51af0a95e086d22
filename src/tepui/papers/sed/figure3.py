"""Figure 3: diversity and detection against the weight of SED's disagreement.

Measured at small size, with stand-ins (n = 4; aarch64, torch 2.13.0+cpu): auroc on
imagenet_c1: lambda=0.001 0.5572 ± 0.0037, lambda=0.01 0.5576 ± 0.0046, lambda=0.1
0.5557 ± 0.0029, lambda=1.0 0.5605 ± 0.011, lambda=10.0 0.5152 ± 0.0077.

Beside the paper's two curves stands the accuracy on clean images: what it costs.
"""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from tepui.methods import SED
from tepui.metrics import accuracy, pds
from tepui.papers.recipe import Numbers, Order, Recipe
from tepui.papers.sed.protocol import (
    ARCHITECTURE,
    DETECTED,
    LENGTHS,
    Answers,
    asked,
    aurocs,
    settings,
    study_of,
    trials,
)
from tepui.papers.sed.scales import HeadStudy
from tepui.report.curves import Curves, curve_panels
from tepui.studies import Record, Results, Store, averaged

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def numbers(order: Order) -> Iterator[Numbers]:
    """Return mean PDS, its AUROC and the accuracy on clean images, by weight."""
    study = study_of(order)
    for weight in study.lambdas:
        yield at_weight(study, weight)


def at_weight(study: HeadStudy, weight: float) -> Numbers:
    """Return what SED does at one weight of its disagreement."""
    runs = trials(study, "sed_a2d", method=SED(weight=weight))
    number = partial(
        averaged,
        trials=runs,
        item="sed/figure3",
        architecture=ARCHITECTURE,
        method="sed_a2d",
    )
    at: dict[str, Any] = {"lambda": weight, "ensemble_size": study.members}

    def records(store: Store, sets: list[Answers]) -> Iterator[Record]:
        detected = [aurocs(each) for each in sets]
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

    return asked(study, runs, study.members, records)


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
    numbers=numbers,
    settings=lambda order: settings(order, lambdas=list(study_of(order).lambdas)),
    draw=draw,
    overrides=LENGTHS,
)
