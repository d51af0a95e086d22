"""Figure 7: accuracy of members and ensembles, in distribution and corrupted.

Panels a to c are the corrupted copies of CIFAR-10, CIFAR-100 and TinyImageNet, d to f
their clean test sets.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tepui.experiments.results import Record, Results, averaged
from tepui.experiments.store import Store
from tepui.experiments.work import Work
from tepui.recipes.base import Order, Recipe
from tepui.recipes.sharpbalance.protocol import (
    DATASETS,
    SCALES,
    exam,
    methods,
    settings,
    trials,
)
from tepui.report.studies import Bar, bar_panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = dict(zip("abcdef", [*DATASETS, *DATASETS], strict=True))
# Metric: field of the scores, unit, and what a fraction is multiplied by.
METRICS = {
    "individual_accuracy": ("individual_accuracy", "percent", 100),
    "ensemble_accuracy": ("accuracy", "percent", 100),
    "ensemble_improvement": ("improvement", "percentage points", 100),
    "eir": ("eir", "fraction", 1),
}


def plan(order: Order) -> list[Work]:
    """Return the ensembles of the data sets that the panels show."""
    work = []
    for dataset in dict.fromkeys(PANELS[panel] for panel in order.panels):
        scale = SCALES[order.size][dataset]
        for method in methods(scale).values():
            work += [Work(each, (exam(scale),)) for each in trials(scale, method)]
    return work


def records(store: Store, order: Order) -> Iterator[Record]:
    """Return accuracy of members and ensembles, by panel and method."""
    for panel in order.panels:
        dataset, corrupted = PANELS[panel], panel in "abc"
        scale = SCALES[order.size][dataset]
        for name, method in methods(scale).items():
            runs = trials(scale, method)
            scores = [
                store.evaluation(each, exam(scale))["shifted" if corrupted else "clean"]
                for each in runs
            ]
            for metric, (field, unit, factor) in METRICS.items():
                yield averaged(
                    [None if s[field] is None else factor * s[field] for s in scores],
                    runs,
                    item=f"sharpbalance/figure7{panel}",
                    dataset=f"{dataset}_c" if corrupted else dataset,
                    architecture="resnet18",
                    method=name,
                    metric=metric,
                    unit=unit,
                    at={"ensemble_size": scale.members},
                )


def draw(found: Results) -> "Figure":
    """Return bars of individual accuracy with the improvement on top."""
    panels = {}
    for panel in found.settings["panels"]:
        item = f"sharpbalance/figure7{panel}"
        shown = found.find(item=item, metric="individual_accuracy")
        panels[f"({panel}) {shown[0].dataset}"] = [
            Bar(
                record.method,
                record,
                found.one(item=item, method=record.method, metric="ensemble_accuracy"),
            )
            for record in shown
        ]
    return bar_panels(panels)


RECIPE = Recipe(
    title="accuracy of members and ensembles, corrupted and clean",
    plan=plan,
    records=records,
    settings=lambda order: settings(
        order.size, list(dict.fromkeys(PANELS[panel] for panel in order.panels))
    ),
    draw=draw,
    panels=tuple(PANELS),
)
