"""Table 6: SharpBalance beside members of different radii and averaged members."""

from collections.abc import Iterator
from typing import Any

from tepui.methods import SAM, DeepEnsemble
from tepui.papers.recipe import Order, Recipe, Size
from tepui.papers.sharpbalance.accuracy_tables import (
    Runs,
    accuracy_records,
    best_other,
    clean_and_corrupted,
    gain_record,
)
from tepui.papers.sharpbalance.protocol import SCALES, exam, methods, settings, trials
from tepui.studies.jobs import Job
from tepui.studies.results import Record
from tepui.studies.store import Store

DATASETS = ("cifar10", "cifar100")
ITEM = "sharpbalance/table6"
# SAM+ trains every member with a radius of its own.
RADII = (0.05, 0.1, 0.2)
# EoA averages the weights of plain members over the last part of the run.
AVERAGED = 0.25
ENSEMBLES: dict[Size, int] = {"paper": 3, "small": 2, "smoke": 2}


def runs_of(size: Size, dataset: str) -> Runs:
    """Return the trials of each method."""
    scale = SCALES[size][dataset]
    compared = {
        "sam_plus": trials(scale, SAM(rho=RADII[: scale.members])),
        "eoa": trials(scale, DeepEnsemble(), average=AVERAGED),
        "sharpbalance": trials(scale, methods(scale)["sharpbalance"]),
    }
    return {name: runs[: ENSEMBLES[size]] for name, runs in compared.items()}


def plan(order: Order) -> list[Job]:
    """Return all ensembles; those of SharpBalance are figure 7's."""
    return [
        Job(trial, (exam(SCALES[order.size][dataset]),))
        for dataset in DATASETS
        for own in runs_of(order.size, dataset).values()
        for trial in own
    ]


def records(store: Store, order: Order) -> Iterator[Record]:
    """Return accuracy, and SharpBalance's gain over the better of the two others."""
    for dataset in DATASETS:
        runs = runs_of(order.size, dataset)
        asked = exam(SCALES[order.size][dataset])
        found = clean_and_corrupted(store, runs, asked, dataset)
        for tested, values in found.items():
            names: dict[str, Any] = {
                "item": ITEM,
                "dataset": tested,
                "architecture": "resnet18",
            }
            yield from accuracy_records(values, runs, **names)
            other = best_other(values)
            note = f"over {other}"
            metric = "gain_over_best_other"
            yield gain_record(values, runs, other, metric=metric, note=note, **names)


def described(order: Order) -> dict[str, Any]:
    """Return how the ensembles are made, and what differs from the paper."""
    document = settings(order.size, DATASETS)
    count = ENSEMBLES[order.size]
    notes = [document.get("differs", ""), "the paper gives no values for EoA"]
    if order.size != "paper":
        notes.append(f"{count} ensembles for 3")
    return {
        **document,
        "radii of SAM+": list(RADII),
        "ensembles of each method": count,
        "differs": "; ".join(note for note in notes if note),
    }


RECIPE = Recipe(
    title="SharpBalance beside SAM+ and EoA",
    plan=plan,
    records=records,
    settings=described,
)
