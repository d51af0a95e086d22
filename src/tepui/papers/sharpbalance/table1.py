"""Table 1: radius, share of sharp samples and time of the switch, chosen by search.

Every combination is trained without a share of the training data and scored on it. The
paper gives SharpBalance the radius that is best for SAM; here its radius is searched
together with the rest.
"""

from collections.abc import Iterator
from statistics import fmean
from typing import Any, NamedTuple

from tepui.methods import SharpBalance
from tepui.papers.recipe import Order, Recipe, Size
from tepui.papers.sharpbalance.protocol import (
    DATASETS,
    SCALES,
    Scale,
    methods,
    settings,
    trials,
)
from tepui.studies.jobs import Job
from tepui.studies.results import Record, config_hash
from tepui.studies.store import Store
from tepui.studies.sweep import Search, search, searches

ITEM = "sharpbalance/table1"


class Extent(NamedTuple):
    """How far the search goes.

    Attributes:
        rho: Radii.
        fraction: Shares of sharp samples.
        switch: When SharpBalance begins, as shares of the run.
        held_out: Share of the training data to choose on.
        samples: Training samples, those held out included; None takes the scale's.
        shortened: How much shorter than the scale's runs are.
    """

    rho: tuple[float, ...]
    fraction: tuple[float, ...]
    switch: tuple[float, ...]
    held_out: float
    samples: dict[str, int | None]
    shortened: int


ALL = dict.fromkeys(DATASETS)
EXTENTS: dict[Size, Extent] = {
    "paper": Extent(
        rho=(0.01, 0.02, 0.05, 0.1, 0.2, 0.5),
        fraction=(0.2, 0.3, 0.4, 0.5, 0.6),
        switch=(0.05, 0.5, 0.75),
        held_out=0.1,
        samples=ALL,
        shortened=1,
    ),
    "small": Extent(
        rho=(0.05, 0.2),
        fraction=(0.2, 0.4),
        switch=(0.25, 0.5),
        held_out=0.25,
        samples={"cifar10": 480, "cifar100": 300, "tiny_imagenet": 300},
        shortened=2,
    ),
    "smoke": Extent(
        rho=(0.05, 0.2),
        fraction=(0.4,),
        switch=(0.5, 1.0),
        held_out=0.25,
        samples=ALL,
        shortened=2,
    ),
}
# Field of the method, the paper's name of what was chosen, and its unit.
CHOSEN = {
    "rho": ("chosen_rho", "none"),
    "fraction": ("chosen_fraction", "fraction"),
    "switch_at": ("chosen_switch_epoch", "epochs"),
}


def scale_of(size: Size, dataset: str) -> Scale:
    """Return the scale of the search."""
    scale, extent = SCALES[size][dataset], EXTENTS[size]
    return scale._replace(
        train=extent.samples[dataset] or scale.train,
        epochs=scale.epochs // extent.shortened,
        ensembles=1,
    )


def searches_of(size: Size, dataset: str) -> dict[str, Search]:
    """Return the search of each method."""
    extent, scale = EXTENTS[size], scale_of(size, dataset)
    rho = {"rho": extent.rho}
    rest = {"fraction": extent.fraction, "switch_at": extent.switch}
    grids = {"sam": rho, "sharpbalance": rho | rest}
    found = {}
    for name, grid in grids.items():
        own = trials(scale, methods(scale)[name])
        (found[name],) = searches(own, grid, held_out=extent.held_out)
    return found


def plan(order: Order) -> list[Job]:
    """Return every combination of every method and data set."""
    return [
        work
        for dataset in DATASETS
        for each in searches_of(order.size, dataset).values()
        for work in each.work
    ]


def records(store: Store, order: Order) -> Iterator[Record]:
    """Return what was chosen, then how every combination did."""
    for dataset in DATASETS:
        for method, planned in searches_of(order.size, dataset).items():
            yield from _records(store, planned, method, dataset)


def _records(
    store: Store, planned: Search, method: str, dataset: str
) -> Iterator[Record]:
    outcome = search(planned, store)
    assert outcome.chosen is not None
    names: dict[str, Any] = {
        "item": ITEM,
        "dataset": dataset,
        "architecture": "resnet18",
        "method": method,
    }
    trained = [trial for cell in planned.cells for trial in cell.trials]
    best = planned.cells[outcome.rows.index(outcome.chosen)]
    chosen = dict(best.values)
    trial = best.trials[0]
    if isinstance(trial.training.method, SharpBalance):
        chosen["switch_at"] = trial.training.method.first_exchange(
            trial.training.epochs
        )
    for field, value in chosen.items():
        metric, unit = CHOSEN[field]
        yield Record(
            metric=metric,
            value=float(value),
            unit=unit,
            n=len(planned.cells),
            config_hash=config_hash(trained),
            note="n counts the combinations that were tried",
            **names,
        )
    for cell, row in zip(planned.cells, outcome.rows, strict=True):
        yield Record(
            metric="held_out_accuracy",
            value=100 * fmean(row.accuracy),
            unit="percent",
            n=len(row.accuracy),
            values=tuple(100 * value for value in row.accuracy),
            at=dict(row.values),
            config_hash=config_hash(cell.trials),
            **names,
        )


def described(order: Order) -> dict[str, Any]:
    """Return the grids, and what differs from the paper."""
    extent = EXTENTS[order.size]
    document = settings(order.size, DATASETS)
    notes = [
        document.get("differs", ""),
        "SharpBalance's radius is searched too, the paper takes SAM's",
        "the paper does not say how it chose the time of the switch",
    ]
    if order.size != "paper":
        scales = [scale_of(order.size, dataset) for dataset in DATASETS]
        sizes = ", ".join(
            f"{scale.train} samples, {scale.epochs} epochs" for scale in scales
        )
        notes.append(f"the search itself trains on less: {sizes}")
    return {
        **document,
        "grid": {
            "rho": list(extent.rho),
            "fraction": list(extent.fraction),
            "switch_at": list(extent.switch),
        },
        "held out": extent.held_out,
        "differs": "; ".join(note for note in notes if note),
    }


RECIPE = Recipe(
    title="hyperparameters chosen on held-out data",
    plan=plan,
    records=records,
    settings=described,
)
