"""Figure 3: three measures of diversity against sharpness, over SAM's radius.

ResNet-18 on CIFAR-10; diversity on its corrupted copies.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tepui.papers.recipe import Order, Recipe
from tepui.papers.sharpbalance.protocol import title_of
from tepui.papers.sharpbalance.radius_sweep import (
    DIVERSITY,
    MEASURES,
    beta_record,
    clouds,
    color_label,
    point_records,
    sweep,
    sweep_settings,
)
from tepui.report.scatter import Scatter, scatter_panels
from tepui.studies.jobs import Job
from tepui.studies.results import Record, Results
from tepui.studies.store import Store

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES: dict[str, Any] = {"item": "sharpbalance/figure3", "architecture": "resnet18"}


def plan(order: Order) -> list[Job]:
    """Return the ensembles over radii."""
    return sweep(order.size, "cifar10").work("worst_case")


def records(store: Store, order: Order) -> Iterator[Record]:
    """Return sharpness, diversity by three measures, and their slopes."""
    swept = sweep(order.size, "cifar10")
    yield from point_records(store, swept, [*DIVERSITY, "eir"], **NAMES)
    for diversity in DIVERSITY:
        yield beta_record(store, swept, diversity=diversity, **NAMES)


def draw(found: Results) -> "Figure":
    """Return a panel per measure of diversity, colored by what ensembles gain."""
    return scatter_panels(
        [
            Scatter(
                title_of(found, "cifar10"),
                MEASURES["worst_case"],
                label,
                clouds(found, "cifar10", diversity=name),
                color_label("eir"),
                log=True,
            )
            for name, label in DIVERSITY.items()
        ]
    )


RECIPE = Recipe(
    title="diversity by three measures against sharpness, over SAM's radius",
    plan=plan,
    records=records,
    settings=lambda order: sweep_settings(order.size, ["cifar10"]),
    draw=draw,
)
