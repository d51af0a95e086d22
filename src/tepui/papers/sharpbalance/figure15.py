"""Figure 15: calibration error and negative log-likelihood by ensemble size.

Measured at small size, with stand-ins (n = 2; aarch64, torch 2.13.0+cpu): ece on
cifar100_c: deep_ensemble 0.1185 ± 0.006, sam 0.1217 ± 0.0026, sharpbalance 0.1217 ±
0.0026, sharpbalance_released 0.1217 ± 0.0026.

On the corrupted copies of CIFAR-100, with the ensembles of figure 8; lower is better.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tepui.papers.recipe import Numbers, Order, Recipe
from tepui.papers.sharpbalance.growing import growing_numbers, growing_settings
from tepui.papers.sharpbalance.protocol import SIZES, title_of
from tepui.report.curves import Curves, curve_panels
from tepui.studies.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DATASET = "cifar100"
METRICS = {"ece": "ECE", "nll": "NLL"}


def numbers(order: Order) -> Iterator[Numbers]:
    """Return both metrics by method and size."""
    names = {"item": "sharpbalance/figure15", "architecture": "resnet18"}
    return growing_numbers(order, DATASET, {"shifted": list(METRICS)}, **names)


def draw(results: Results) -> "Figure":
    """Return a panel per metric, a line per method."""
    title = title_of(results, DATASET, corrupted=True)
    return curve_panels(
        [
            Curves(title, "ensemble_size", label, results.by("method", metric=metric))
            for metric, label in METRICS.items()
        ]
    )


RECIPE = Recipe(
    title="ECE and NLL by ensemble size on corrupted data",
    numbers=numbers,
    settings=lambda order: growing_settings(order, [DATASET]),
    draw=draw,
    overrides=("epochs", "ensembles", "rho", "methods"),
    sizes=SIZES,
)
