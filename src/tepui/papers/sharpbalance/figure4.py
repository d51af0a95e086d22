"""Figure 4: diversity against sharpness on three data sets, over SAM's radius.

Panels a to c are CIFAR-10, CIFAR-100 and TinyImageNet. Each is drawn twice: colored by
what the ensemble gains (EIR), and by the members' accuracy on corrupted data.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tepui.papers.recipe import Order, Recipe
from tepui.papers.sharpbalance.protocol import DATASETS, title_of
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

PANELS = dict(zip("abc", DATASETS, strict=True))
COLORS = ("eir", "individual_accuracy")


def plan(order: Order) -> list[Job]:
    """Return the ensembles over radii, for the data set of each panel."""
    return [
        work
        for panel in order.panels
        for work in sweep(order.size, PANELS[panel]).work("worst_case")
    ]


def records(store: Store, order: Order) -> Iterator[Record]:
    """Return sharpness, diversity, both colors and the slope, by panel."""
    for panel in order.panels:
        swept = sweep(order.size, PANELS[panel])
        names: dict[str, Any] = {
            "item": f"sharpbalance/figure4{panel}",
            "architecture": "resnet18",
        }
        yield from point_records(store, swept, ["der", *COLORS], **names)
        yield beta_record(store, swept, **names)


def draw(found: Results) -> "Figure":
    """Return a column per data set and a row per color."""
    letters = found.settings["panels"]
    return scatter_panels(
        [
            Scatter(
                f"({letter}) {title_of(found, PANELS[letter])}",
                MEASURES["worst_case"],
                DIVERSITY["der"],
                clouds(found, PANELS[letter], color=color),
                color_label(color),
                log=True,
            )
            for color in COLORS
            for letter in letters
        ],
        columns=len(letters),
    )


RECIPE = Recipe(
    title="diversity against sharpness on three data sets, over SAM's radius",
    plan=plan,
    records=records,
    settings=lambda order: sweep_settings(
        order.size, [PANELS[panel] for panel in order.panels]
    ),
    draw=draw,
    panels=tuple(PANELS),
)
