"""Table 7: GSAM in the place of SAM, alone and inside SharpBalance.

Measured at small size, with stand-ins (n = 2; aarch64, torch 2.13.0+cpu): ensemble
accuracy on cifar100: deep_ensemble 76 ± 1, sam 73.5 ± 0.17, sharpbalance 73.5 ± 0.5,
gsam 73 ± 0.33, sharpbalance_gsam 73 ± 0.33 percent.
"""

from collections.abc import Iterator
from typing import Any

from tepui.methods import GSAM
from tepui.papers.recipe import Numbers, Order, Recipe
from tepui.papers.sharpbalance.accuracy_tables import accuracy_table, runs_of
from tepui.papers.sharpbalance.protocol import (
    LENGTHS,
    balanced,
    few_ensembles,
    methods,
    protocol_of,
    settings,
)

DATASET = "cifar100"


def numbers(order: Order) -> Iterator[Numbers]:
    """Return accuracy on clean and on corrupted data."""
    protocol = protocol_of(order, DATASET)._replace(ensembles=few_ensembles(order))
    gsam = GSAM(rho=protocol.rho)
    compared = {
        **methods(protocol),
        "gsam": gsam,
        "sharpbalance_gsam": balanced(protocol, base=gsam),
    }
    names: dict[str, Any] = {"item": "sharpbalance/table7", "architecture": "resnet18"}
    yield accuracy_table(protocol, DATASET, runs_of(protocol, compared), **names)


def described(order: Order) -> dict[str, Any]:
    """Return how the ensembles are made, and what differs from the paper."""
    count = few_ensembles(order)
    notes = ["the paper gives no values for GSAM"]
    notes += [] if order.size == "paper" else [f"{count} ensembles for 3"]
    further: dict[str, Any] = {
        "alpha of GSAM": GSAM().alpha,
        "ensembles of each method": count,
    }
    return settings(order, [DATASET], *notes, **further)


RECIPE = Recipe(
    title="GSAM in the place of SAM",
    numbers=numbers,
    settings=described,
    overrides=LENGTHS,
)
