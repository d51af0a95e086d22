"""Figure 3: three measures of diversity against sharpness, over SAM's radius.

Measured at small size, with stand-ins (n = 8; aarch64, torch 2.13.0+cpu): beta on
cifar10: diversity=der -0.1044, diversity=kl -0.1292, diversity=variance 0.3138.

ResNet-18 on CIFAR-10; diversity on its corrupted copies.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tepui.papers.recipe import Numbers, Order, Recipe
from tepui.papers.sharpbalance.protocol import LENGTHS
from tepui.papers.sharpbalance.radius_sweep import (
    DIVERSITY,
    sweep,
    sweep_numbers,
    sweep_settings,
    trade_off,
)
from tepui.report.scatter import scatter_panels
from tepui.studies.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def numbers(order: Order) -> Iterator[Numbers]:
    """Return sharpness, diversity by three measures, and their slopes."""
    yield sweep_numbers(
        sweep(order, "cifar10"),
        [*DIVERSITY, "eir"],
        diversities=[*DIVERSITY],
        item="sharpbalance/figure3",
        architecture="resnet18",
    )


def draw(found: Results) -> "Figure":
    """Return a panel per measure of diversity, colored by what ensembles gain."""
    return scatter_panels(
        [trade_off(found, "cifar10", diversity=name) for name in DIVERSITY]
    )


RECIPE = Recipe(
    title="diversity by three measures against sharpness, over SAM's radius",
    numbers=numbers,
    settings=lambda order: sweep_settings(order, ["cifar10"]),
    draw=draw,
    overrides=LENGTHS,
)
