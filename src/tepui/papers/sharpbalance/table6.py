"""Table 6: SharpBalance beside members of different radii and averaged members.

Measured at small size, with stand-ins (n = 2; aarch64, torch 2.13.0+cpu): ensemble
accuracy on cifar10: sam_plus 99.31 ± 0.14, eoa 99.31 ± 0.14, sharpbalance 99.31 ± 0.14
percent.
"""

from collections.abc import Iterator
from typing import Any

from tepui.methods import SAM, DeepEnsemble
from tepui.papers.recipe import Numbers, Order, Recipe
from tepui.papers.sharpbalance.accuracy_tables import (
    Accuracies,
    Runs,
    accuracy_table,
    best_other,
    gain_record,
)
from tepui.papers.sharpbalance.protocol import (
    balanced,
    few_ensembles,
    protocol_of,
    settings,
    trials,
)
from tepui.studies.results import Record

DATASETS = ("cifar10", "cifar100")
RADII = (0.05, 0.1, 0.2)  # SAM+ trains every member with a radius of its own
AVERAGED = 0.25  # EoA averages plain members over this share, at the end of a run


def numbers(order: Order) -> Iterator[Numbers]:
    """Return accuracy, and SharpBalance's gain over the better of the two others."""
    for dataset in DATASETS:
        protocol = protocol_of(order, dataset)._replace(ensembles=few_ensembles(order))
        runs = {
            "sam_plus": trials(protocol, SAM(rho=RADII[: protocol.members])),
            "eoa": trials(protocol, DeepEnsemble(), average=AVERAGED),
            "sharpbalance": trials(protocol, balanced(protocol)),
        }
        names: dict[str, Any] = {
            "item": "sharpbalance/table6",
            "architecture": "resnet18",
        }
        yield accuracy_table(protocol, dataset, runs, gain, **names)


def gain(found: Accuracies, runs: Runs, **names: Any) -> Iterator[Record]:
    """Return SharpBalance's gain over the better of the two others."""
    other = best_other(found)
    names |= {"metric": "gain_over_best_other", "note": f"over {other}"}
    yield gain_record(found, runs, other, **names)


def described(order: Order) -> dict[str, Any]:
    """Return how the ensembles are made, and what differs from the paper."""
    count = few_ensembles(order)
    notes = ["the paper gives no values for EoA"]
    notes += [] if order.size == "paper" else [f"{count} ensembles for 3"]
    further: dict[str, Any] = {
        "radii of SAM+": list(RADII),
        "ensembles of each method": count,
    }
    return settings(order, DATASETS, *notes, **further)


RECIPE = Recipe(
    title="SharpBalance beside SAM+ and EoA",
    numbers=numbers,
    settings=described,
    overrides=("epochs", "ensembles"),
)
