"""Figure 1: the trade-off in theory (b) and in trained networks (c).

Panel a is a diagram. Panel b is what Theorems 1 and 2 say of random quadratics, over
radii; SAM's published radii lie where it diverges. Panel c trains ResNet-18 on CIFAR-10
with SAM and with SharpBalance over the same radii; the color is the ensemble's
accuracy on corrupted data.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from tepui.papers.recipe import Numbers, Order, Recipe, Size
from tepui.papers.sharpbalance.protocol import LENGTHS, protocol_of, title_of
from tepui.papers.sharpbalance.radius_sweep import (
    GRIDS,
    Axes,
    Grid,
    clouds,
    sweep,
    sweep_numbers,
    sweep_settings,
)
from tepui.papers.sharpbalance.theory_curves import (
    FULL,
    QUICK,
    Resolution,
    figure1b_curves,
)
from tepui.report.scatter import Cloud, Scatter, scatter_panels
from tepui.studies import Record, Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = {"sam": "SAM", "sharpbalance": "SharpBalance"}
OWN_GRIDS: Mapping[Size, Grid] = {
    "paper": Grid((0.01, 0.02, 0.03, 0.04, 0.05, 0.1, 0.2, 0.3), 1),
    "small": Grid((0.05, 0.1, 0.2), 2),
    "smoke": GRIDS["smoke"]["cifar10"],
}
METRICS = ("variance", "ensemble_accuracy", "ensemble_improvement", "eir")


def numbers(order: Order) -> Iterator[Numbers]:
    """Return sharpness and diversity over radii, in theory and trained."""
    if "b" in order.panels:
        resolution = QUICK if order.size == "smoke" else FULL
        yield Numbers([], lambda store: _theory_records(resolution))
    if "c" in order.panels:
        protocol, grid = protocol_of(order, "cifar10"), OWN_GRIDS[order.size]
        names: dict[str, Any] = {
            "item": "sharpbalance/figure1c",
            "architecture": "resnet18",
        }
        for swept in (
            sweep(order, "cifar10", grid=grid),
            sweep(
                order,
                "cifar10",
                grid=grid,
                name="sharpbalance",
                method=lambda rho: protocol.balanced(rho=rho),
            ),
        ):
            yield sweep_numbers(swept, METRICS, diversities=(), **names)


def _theory_records(resolution: Resolution) -> Iterator[Record]:
    """Return the upper bound of sharpness and the diversity at each radius."""
    for curve in figure1b_curves(resolution):
        columns = (curve.rho, curve.stable, curve.sharpness_upper, curve.diversity)
        for rho, stable, *values in zip(*(c.tolist() for c in columns), strict=True):
            for metric, value in zip(("sharpness", "diversity"), values, strict=True):
                yield Record(
                    item="sharpbalance/figure1b",
                    dataset="random_quadratic",
                    architecture="linear",
                    method=curve.method.lower(),
                    metric=metric,
                    value=value,
                    unit="none",
                    n=1,
                    at={"rho": rho},
                    note="" if stable else "SAM diverges",
                )


def draw(results: Results) -> "Figure":
    """Return theory's curves and a cloud of ensembles for each method."""
    panels = {"b": _theory_panel, "c": _trained_panel}
    shown = results.settings["panels"]
    return scatter_panels([panels[name](results) for name in shown])


def _theory_panel(results: Results) -> Scatter:
    clouds = []
    for method, label in METHODS.items():
        x, y = (
            results.find(item="sharpbalance/figure1b", method=method, metric=metric)
            for metric in ("sharpness", "diversity")
        )
        diverges = ", divergent" if x[0].note else ""
        across, up = ([record.value for record in axis] for axis in (x, y))
        clouds.append(Cloud(f"{label}{diverges}", across, up, joined=True))
    return Scatter("(b) theory", "sharpness (upper bound)", "diversity", tuple(clouds))


def _trained_panel(results: Results) -> Scatter:
    axes = Axes("worst_case", "variance", "ensemble_accuracy")
    marks = clouds(results, "cifar10", axes, METHODS, item="sharpbalance/figure1c")
    panel = axes.scatter(f"(c) {title_of(results, 'cifar10')}", marks)
    return replace(panel, color=f"{panel.color}, corrupted")


def settings(order: Order) -> dict[str, Any]:
    """Return the settings of both panels."""
    theory = (QUICK if order.size == "smoke" else FULL).setting
    return {
        **sweep_settings(order, ["cifar10"], grid=OWN_GRIDS[order.size]),
        "theory": {**asdict(theory), "steps": 3, "step size": 0.01},
    }


RECIPE = Recipe(
    title="the trade-off in theory (b) and in trained networks (c); panel a is a "
    "diagram",
    numbers=numbers,
    settings=settings,
    draw=draw,
    panels=("b", "c"),
    overrides=LENGTHS,
)
