"""Table 7: GSAM in the place of SAM, alone and inside SharpBalance."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tepui.methods import GSAM, SharpBalance
from tepui.papers.recipe import Order, Recipe, Size
from tepui.papers.sharpbalance.accuracy_tables import (
    Runs,
    accuracy_records,
    clean_and_corrupted,
)
from tepui.papers.sharpbalance.protocol import SCALES, exam, methods, settings, trials
from tepui.studies.jobs import Job
from tepui.studies.results import Record
from tepui.studies.store import Store

DATASET = "cifar100"
ENSEMBLES: dict[Size, int] = {"paper": 3, "small": 2, "smoke": 2}


def runs_of(size: Size) -> Runs:
    """Return the trials of each method."""
    scale = SCALES[size][DATASET]
    usual = methods(scale)
    balanced = usual["sharpbalance"]
    assert isinstance(balanced, SharpBalance)
    gsam = GSAM(rho=scale.rho)
    compared = {
        **usual,
        "gsam": gsam,
        "sharpbalance_gsam": replace(balanced, base=gsam),
    }
    return {
        name: trials(scale, method)[: ENSEMBLES[size]]
        for name, method in compared.items()
    }


def plan(order: Order) -> list[Job]:
    """Return all ensembles; those without GSAM are figure 7's."""
    asked = exam(SCALES[order.size][DATASET])
    own = runs_of(order.size).values()
    return [Job(trial, (asked,)) for runs in own for trial in runs]


def records(store: Store, order: Order) -> Iterator[Record]:
    """Return accuracy on clean and on corrupted data."""
    runs, asked = runs_of(order.size), exam(SCALES[order.size][DATASET])
    found = clean_and_corrupted(store, runs, asked, DATASET)
    for tested, values in found.items():
        yield from accuracy_records(
            values,
            runs,
            item="sharpbalance/table7",
            dataset=tested,
            architecture="resnet18",
        )


def described(order: Order) -> dict[str, Any]:
    """Return how the ensembles are made, and what differs from the paper."""
    document = settings(order.size, [DATASET])
    count = ENSEMBLES[order.size]
    notes = [document.get("differs", ""), "the paper gives no values for GSAM"]
    if order.size != "paper":
        notes.append(f"{count} ensembles for 3")
    return {
        **document,
        "alpha of GSAM": GSAM().alpha,
        "ensembles of each method": count,
        "differs": "; ".join(note for note in notes if note),
    }


RECIPE = Recipe(
    title="GSAM in the place of SAM",
    plan=plan,
    records=records,
    settings=described,
)
