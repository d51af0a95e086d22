"""Figure 12: the trade-off by other measures of sharpness and diversity.

Measured at small size, with stand-ins (n = 8; aarch64, torch 2.13.0+cpu): beta on
cifar10: sam_rho_sweep -0.2393.

Panels a and d take the worst case within a cube, b and e the average case, c and f the
KL divergence; all axes are logarithmic. The paper's text does not say in what its two
rows differ: here a to c are colored by what ensembles gain and d to f by the members'
accuracy, as in figure 4.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from tepui.papers.recipe import Numbers, Order, Recipe
from tepui.papers.sharpbalance.protocol import LENGTHS
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


class Axes(NamedTuple):
    """What a panel shows."""

    measure: str
    diversity: str
    color: str  # metric that colors the marks


PAIRS = (
    ("worst_case_linf", "der"),
    ("average_case", "der"),
    ("worst_case", "kl"),
)
PANELS = dict(
    zip(
        "abcdef",
        [Axes(*pair, c) for c in ("eir", "individual_accuracy") for pair in PAIRS],
        strict=True,
    )
)


def numbers(order: Order) -> Iterator[Numbers]:
    """Return sharpness, diversity, color and slope, by panel."""
    for letter in order.panels:
        measure, diversity, color = PANELS[letter]
        names = {"item": f"sharpbalance/figure12{letter}", "architecture": "resnet18"}
        swept, metrics = sweep(order, "cifar10"), [diversity, color]
        yield sweep_numbers(swept, metrics, [measure], [diversity], **names)


def draw(found: Results) -> "Figure":
    """Return all panels, colored by what ensembles gain or by members' accuracy."""
    item = "sharpbalance/figure12"
    return scatter_panels(
        [
            trade_off(
                found, "cifar10", letter, item=item + letter, **PANELS[letter]._asdict()
            )
            for letter in found.settings["panels"]
        ]
    )


RECIPE = Recipe(
    title="the trade-off by other measures of sharpness and diversity",
    numbers=numbers,
    settings=lambda order: sweep_settings(order, ["cifar10"]),
    draw=draw,
    panels=tuple(PANELS),
    overrides=LENGTHS,
)
