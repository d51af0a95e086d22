"""Figure 5: the trade-off's slope by width (a) and by sparsity (b) of the members.

ResNet-18 on CIFAR-10. A network that stands in for it has a thousandth of its weights,
so that its widths and sparsities are others, too: those of the paper name them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tepui.modules.pruning import Prune
from tepui.papers.recipe import Numbers, Order, Recipe, Size
from tepui.papers.sharpbalance.protocol import LENGTHS, protocol_of, title_of
from tepui.papers.sharpbalance.radius_sweep import (
    GRIDS,
    Axes,
    Grid,
    Sweep,
    clouds,
    sweep,
    sweep_numbers,
    sweep_settings,
)
from tepui.report.scatter import Cloud, scatter_panels
from tepui.studies import Departure, Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AXES = {"a": "width", "b": "sparsity"}
PRUNED = Departure(
    "weights are pruned at once, by magnitude over all layers, after half of the run",
    "the paper does not say how it prunes",
)
# What stands for each of the paper's levels.
LEVELS: Mapping[Size, Mapping[str, Mapping[float, Any]]] = {
    "paper": {
        "width": {8: 8, 16: 16, 64: 64, 128: 128},
        "sparsity": {0: 0.0, 0.8: 0.8, 0.95: 0.95, 0.99: 0.99},
    },
    "small": {
        "width": {8: 2, 16: 4, 64: 8, 128: 12},
        "sparsity": {0: 0.0, 0.8: 0.5, 0.95: 0.8, 0.99: 0.9},
    },
    "smoke": {
        "width": {8: 1, 64: 2},
        "sparsity": {0: 0.0, 0.8: 0.5},
    },
}


# Trained for less long where time is short, at fewer radii.
EPOCHS: Mapping[Size, int | None] = {"paper": None, "small": 10, "smoke": None}
OWN_GRIDS: Mapping[Size, Grid] = {
    "paper": GRIDS["paper"]["cifar10"],
    "small": Grid((0.01, 0.02, 0.05, 0.1, 0.15, 0.2), 1),
    "smoke": GRIDS["smoke"]["cifar10"],
}


def level(order: Order, axis: str, name: float) -> Sweep:
    """Return the ensembles of one width or sparsity."""
    value = LEVELS[order.size][axis][name]
    shortened = order._replace(epochs=order.epochs or EPOCHS[order.size])
    if axis == "width":
        model = protocol_of(order, "cifar10").model
        change: dict[str, Any] = {"model": partial(model, width=value)}
    else:
        change = {"prune": Prune(sparsity=value) if value else None}
    return sweep(shortened, "cifar10", grid=OWN_GRIDS[order.size], **change)


def numbers(order: Order) -> Iterator[Numbers]:
    """Return sharpness, diversity, color and slope, by panel and level."""
    for panel in order.panels:
        axis = AXES[panel]
        for name, value in LEVELS[order.size][axis].items():
            yield sweep_numbers(
                level(order, axis, name),
                ["der", "eir"],
                item=f"sharpbalance/figure5{panel}",
                architecture="resnet18",
                at={axis: name},
                note="" if value == name else f"{axis} {value:g} stands for {name}",
            )


def draw(results: Results) -> "Figure":
    """Return a panel for widths and one for sparsities, colored by EIR."""
    data = title_of(results, "cifar10")
    return scatter_panels(
        [
            Axes().scatter(f"({panel}) {AXES[panel]}, {data}", _clouds(results, panel))
            for panel in results.settings["panels"]
        ]
    )


def _clouds(results: Results, panel: str) -> tuple[Cloud, ...]:
    item, axis = f"sharpbalance/figure5{panel}", AXES[panel]
    levels = [beta.at[axis] for beta in results.find(item=item, metric="beta")]
    return tuple(
        replace(cloud, name=cloud.name.replace("SAM", f"{axis} {level:g}"))
        for level in levels
        for cloud in clouds(results, "cifar10", item=item, **{axis: level})
    )


def settings(order: Order) -> dict[str, Any]:
    """Return the settings of the study, with what stands for the paper's levels."""
    shown = {AXES[panel]: LEVELS[order.size][AXES[panel]] for panel in order.panels}
    notes = [PRUNED] if "b" in order.panels else []
    epochs = EPOCHS[order.size]
    grid = OWN_GRIDS[order.size]
    document = sweep_settings(order, ["cifar10"], *notes, grid=grid)
    if epochs and not order.epochs:
        document["cifar10"]["epochs"] = epochs
    document["levels"] = {
        axis: {f"{name:g}": value for name, value in levels.items()}
        for axis, levels in shown.items()
    }
    return document


RECIPE = Recipe(
    title="slope of the trade-off by width and sparsity",
    numbers=numbers,
    settings=settings,
    draw=draw,
    panels=tuple(AXES),
    overrides=LENGTHS,
)
