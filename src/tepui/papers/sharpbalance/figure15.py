"""Figure 15: calibration error and negative log-likelihood by ensemble size.

On the corrupted copies of CIFAR-100, with the ensembles of figure 8; lower is better.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tepui.papers.recipe import Order, Recipe
from tepui.papers.sharpbalance.growing import (
    growing_records,
    growing_settings,
    lines,
    work,
)
from tepui.papers.sharpbalance.protocol import title_of
from tepui.report.curves import Curves, curve_panels
from tepui.studies.jobs import Job
from tepui.studies.results import Record, Results
from tepui.studies.store import Store

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ITEM, DATASET = "sharpbalance/figure15", "cifar100"
METRICS = {"ece": "ECE", "nll": "NLL"}


def plan(order: Order) -> list[Job]:
    """Return the ensembles of all sizes."""
    return work(order.size, [DATASET])


def records(store: Store, order: Order) -> Iterator[Record]:
    """Return both metrics by method and size."""
    parts = {"shifted": list(METRICS)}
    yield from growing_records(
        store, order.size, DATASET, parts, item=ITEM, architecture="resnet18"
    )


def draw(found: Results) -> "Figure":
    """Return a panel per metric, a line per method."""
    title = title_of(found, DATASET, corrupted=True)
    return curve_panels(
        [
            Curves(title, "ensemble_size", label, lines(found, metric=metric))
            for metric, label in METRICS.items()
        ]
    )


RECIPE = Recipe(
    title="ECE and NLL by ensemble size on corrupted data",
    plan=plan,
    records=records,
    settings=lambda order: growing_settings(order.size, [DATASET]),
    draw=draw,
)
