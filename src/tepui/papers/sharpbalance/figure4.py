"""Figure 4: diversity against sharpness on three data sets, over SAM's radius.

Measured at small size, with stand-ins (n = 8; aarch64, torch 2.13.0+cpu): beta on
cifar10: sam_rho_sweep -0.1044.

Panels a to c are CIFAR-10, CIFAR-100 and TinyImageNet. Each is drawn twice: colored by
what the ensemble gains (EIR), and by the members' accuracy on corrupted data.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tepui.papers.recipe import Numbers, Order, Recipe
from tepui.papers.sharpbalance.protocol import DATASETS, LENGTHS
from tepui.papers.sharpbalance.radius_sweep import (
    sweep,
    sweep_numbers,
    sweep_settings,
    trade_off,
)
from tepui.report.scatter import scatter_panels
from tepui.studies.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = dict(zip("abc", DATASETS, strict=True))
COLORS = ("eir", "individual_accuracy")


def numbers(order: Order) -> Iterator[Numbers]:
    """Return sharpness, diversity, both colors and the slope, by panel."""
    for panel in order.panels:
        names = {"item": f"sharpbalance/figure4{panel}", "architecture": "resnet18"}
        swept = sweep(order, PANELS[panel])
        yield sweep_numbers(swept, ["der", *COLORS], **names)


def draw(found: Results) -> "Figure":
    """Return a column per data set and a row per color."""
    letters = found.settings["panels"]
    panels = [
        trade_off(found, PANELS[letter], letter, color=color)
        for color in COLORS
        for letter in letters
    ]
    return scatter_panels(panels, columns=len(letters))


RECIPE = Recipe(
    title="diversity against sharpness on three data sets, over SAM's radius",
    numbers=numbers,
    settings=lambda order: sweep_settings(order, [PANELS[p] for p in order.panels]),
    draw=draw,
    panels=tuple(PANELS),
    overrides=LENGTHS,
)
