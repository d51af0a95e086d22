"""Table 1: radius, share of sharp samples and time of the switch, chosen by search.

Every combination is trained without a share of the training data and scored on it. At
``paper`` size the search is the paper's, of eleven ensembles on each data set: over
SAM's radius, and over SharpBalance's share of sharp samples at the radius of SAM. Below
it SharpBalance's radius and the time of its switch are searched together with the rest.

Differs from the paper:

- at paper size SharpBalance's share of sharp samples is searched at radius 0.2,
  whatever radius the search of SAM finds (0.2 is what the paper found, and all searches
  can then be planned at once)
"""

from collections.abc import Iterator
from functools import partial
from statistics import fmean
from typing import Any, NamedTuple

from tepui.methods import SharpBalance
from tepui.papers.recipe import Numbers, Order, Recipe, Size, differing
from tepui.papers.sharpbalance.protocol import (
    DATASETS,
    Protocol,
    protocol_of,
    settings,
)
from tepui.studies import Record, Store
from tepui.studies.results import config_hash
from tepui.studies.sweep import Search, outcome_of, search


class Extent(NamedTuple):
    """How far the search goes."""

    rho: tuple[float, ...]
    balanced: dict[str, tuple[float, ...]]  # what is searched of SharpBalance
    held_out: float  # share of the training data to choose on
    # training samples, those held out included; None takes the protocol's
    samples: dict[str, int | None]
    shortened: int  # how much shorter than the protocol's runs are


ALL = dict.fromkeys(DATASETS)
EXTENTS: dict[Size, Extent] = {
    "paper": Extent(
        rho=(0.01, 0.02, 0.05, 0.1, 0.2, 0.5),
        balanced={"fraction": (0.2, 0.3, 0.4, 0.5, 0.6)},
        held_out=0.1,
        samples=ALL,
        shortened=1,
    ),
    "small": Extent(
        rho=(0.05, 0.2),
        balanced={"rho": (0.05, 0.2), "fraction": (0.2, 0.4), "switch_at": (0.25, 0.5)},
        held_out=0.25,
        samples={"cifar10": 480, "cifar100": 300, "tiny_imagenet": 300},
        shortened=2,
    ),
    "smoke": Extent(
        rho=(0.05, 0.2),
        balanced={"rho": (0.05, 0.2), "fraction": (0.4,), "switch_at": (0.5, 0.75)},
        held_out=0.25,
        samples=ALL,
        shortened=2,
    ),
}
# What a protocol calls what is searched of SharpBalance.
PROTOCOL_FIELDS = {"rho": "rho", "fraction": "fraction", "switch_at": "switch"}
# Field of the method, the paper's name of what was chosen, and its unit.
CHOSEN = {
    "rho": ("chosen_rho", "none"),
    "fraction": ("chosen_fraction", "fraction"),
    "switch_at": ("chosen_switch_epoch", "epochs"),
}


def search_protocol(order: Order, dataset: str) -> Protocol:
    """Return how the search trains: once, on less data, for less long."""
    protocol, extent = protocol_of(order, dataset), EXTENTS[order.size]
    return protocol._replace(
        train=extent.samples[dataset] or protocol.train,
        epochs=order.epochs or protocol.epochs // extent.shortened,
        ensembles=1,
        held_out=0.0,
    )


def numbers(order: Order) -> Iterator[Numbers]:
    """Return what was chosen, then how every combination did."""
    extent = EXTENTS[order.size]
    grids = {"sam": {"rho": extent.rho}, "sharpbalance": extent.balanced}
    for dataset in DATASETS:
        protocol = search_protocol(order, dataset)
        for method, grid in grids.items():
            runs = protocol.trials(protocol.methods()[method])
            planned = search(runs, grid, held_out=extent.held_out)
            yield Numbers(planned.work, partial(_records, planned, method, dataset))


def _records(
    planned: Search, method: str, dataset: str, store: Store
) -> Iterator[Record]:
    outcome = outcome_of(planned, store)
    assert outcome.chosen is not None
    names: dict[str, Any] = {
        "item": "sharpbalance/table1",
        "dataset": dataset,
        "architecture": "resnet18",
        "method": method,
    }
    trained = [
        trial for combination in planned.combinations for trial in combination.trials
    ]
    best = planned.combinations[outcome.rows.index(outcome.chosen)]
    chosen = dict(best.values)
    trial = best.trials[0]
    if isinstance(trial.training.method, SharpBalance):
        chosen["rho"] = trial.training.method.rho
        chosen["switch_at"] = trial.training.method.first_exchange(
            trial.training.epochs
        )
    for field, value in chosen.items():
        metric, unit = CHOSEN[field]
        yield Record(
            metric=metric,
            value=float(value),
            unit=unit,
            n=len(planned.combinations),
            config_hash=config_hash(trained),
            note="n counts the combinations that were tried",
            **names,
        )
    for tried, row in zip(planned.combinations, outcome.rows, strict=True):
        found = [value for value in row.scores["accuracy"] if value is not None]
        yield Record(
            metric="held_out_accuracy",
            value=100 * fmean(found),
            unit="percent",
            n=len(found),
            values=tuple(100 * value for value in found),
            at=dict(row.values),
            config_hash=config_hash(tried.trials),
            **names,
        )


def described(order: Order) -> dict[str, Any]:
    """Return what is searched and how, and what differs from the paper."""
    extent = EXTENTS[order.size]
    searched = {PROTOCOL_FIELDS[name] for name in extent.balanced}
    grid = {"rho": list(extent.rho), "SharpBalance": extent.balanced}
    further: dict[str, Any] = {"grid": grid, "held out": extent.held_out}
    plain = Order(order.size)
    used = {
        dataset: search_protocol(plain, dataset)._replace(test=None, types=())
        for dataset in DATASETS
    }
    notes, sizes = differing(__doc__), {order.size: used}
    settled = settings(order, DATASETS, *notes, protocols=sizes, **further)
    for name in DATASETS:
        settled[name] |= dict.fromkeys(sorted(searched), "searched")
        for other in ("held out", "test", "types"):  # of no search
            del settled[name][other]
    return settled


RECIPE = Recipe(
    title="hyperparameters chosen on held-out data",
    numbers=numbers,
    settings=described,
    overrides=("epochs", "members"),
)
