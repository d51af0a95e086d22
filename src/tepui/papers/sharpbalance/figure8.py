"""Figure 8: accuracy and improvement rate as ensembles grow from one to five members.

Measured at small size, with stand-ins (n = 2; aarch64, torch 2.13.0+cpu): ensemble
accuracy on cifar10: deep_ensemble 99.03 ± 0.14, sam 98.89 ± 0, sharpbalance 98.89 ± 0,
sharpbalance_released 98.89 ± 0 percent.

Panels a to d are accuracy on CIFAR-10, CIFAR-100 and their corrupted copies, e to h the
ensemble improvement rate on the same.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tepui.papers.recipe import Numbers, Order, Recipe
from tepui.papers.sharpbalance.growing import growing_numbers, growing_settings
from tepui.papers.sharpbalance.protocol import SIZES, title_of
from tepui.report.curves import Curves, curve_panels
from tepui.studies import Record, Results, Store

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SETS = ("cifar10", "cifar100", "cifar10_c", "cifar100_c")
METRICS = {"ensemble_accuracy": "accuracy in %", "eir": "improvement rate"}
PANELS = dict(
    zip("abcdefgh", [(m, data) for m in METRICS for data in SETS], strict=True)
)


def datasets(order: Order) -> list[str]:
    """Return the data sets of the panels, each once."""
    shown = (PANELS[panel][1].removesuffix("_c") for panel in order.panels)
    return list(dict.fromkeys(shown))


def numbers(order: Order) -> Iterator[Numbers]:
    """Return accuracy and improvement rate, by panel, method and size."""
    parts = {"clean": list(METRICS), "shifted": list(METRICS)}
    for dataset in datasets(order):
        names = {"item": "", "architecture": "resnet18"}
        for numbers in growing_numbers(order, dataset, parts, **names):
            yield Numbers(numbers.jobs, partial(_lettered, numbers, order))


def _lettered(numbers: Numbers, order: Order, store: Store) -> Iterator[Record]:
    """Return the numbers of the chosen panels, each with its panel's name."""
    letters = {what: letter for letter, what in PANELS.items()}
    for record in numbers.records(store):
        letter = letters[record.metric, record.dataset]
        if letter in order.panels:
            yield replace(record, item=f"sharpbalance/figure8{letter}")


def draw(results: Results) -> "Figure":
    """Return a panel per data set and metric, a line per method."""
    return curve_panels(
        [
            Curves(
                f"({letter}) {_title(results, PANELS[letter][1])}",
                "ensemble_size",
                METRICS[PANELS[letter][0]],
                results.by("method", item=f"sharpbalance/figure8{letter}"),
            )
            for letter in results.settings["panels"]
        ],
        columns=4,
    )


def _title(results: Results, name: str) -> str:
    dataset = name.removesuffix("_c")
    return title_of(results, dataset, corrupted=name != dataset)


RECIPE = Recipe(
    title="accuracy and improvement rate by ensemble size",
    numbers=numbers,
    settings=lambda order: growing_settings(order, datasets(order)),
    draw=draw,
    panels=tuple(PANELS),
    overrides=("epochs", "ensembles", "rho", "methods"),
    sizes=SIZES,
)
