"""Table 7: GSAM in the place of SAM, alone and inside SharpBalance.

Measured at small size, with stand-ins (n = 2; aarch64, torch 2.13.0+cpu): ensemble
accuracy on cifar100: deep_ensemble 76 ± 1, sam 76.5 ± 0.83, sharpbalance 77 ± 1.3, gsam
76 ± 0.67, sharpbalance_gsam 76 ± 0.67 percent.
"""

from collections.abc import Iterator
from typing import Any

from tepui.methods import GSAM
from tepui.papers.recipe import OVERRIDES, Numbers, Order, Recipe
from tepui.papers.sharpbalance.accuracy_tables import accuracy_table, runs_of
from tepui.papers.sharpbalance.protocol import FEW, SIZES, protocol_of
from tepui.papers.sharpbalance.settings import settings
from tepui.studies import Departure

DATASET = "cifar100"
VALUES: dict[str, Any] = {"alpha of GSAM": GSAM().alpha}


def numbers(order: Order) -> Iterator[Numbers]:
    """Return accuracy on clean and on corrupted data."""
    protocol = protocol_of(order, DATASET, FEW)
    gsam = protocol.gsam()
    more = {"gsam": gsam, "sharpbalance_gsam": protocol.balanced(base=gsam)}
    usual = {**protocol.methods(), **more, **protocol.released(DATASET)}
    runs = runs_of(protocol, order.choose(usual))
    yield accuracy_table("sharpbalance/table7", protocol, DATASET, runs)


RECIPE = Recipe(
    title="GSAM in the place of SAM",
    numbers=numbers,
    settings=lambda order: settings(
        order,
        [DATASET],
        Departure(
            f"GSAM with alpha {GSAM().alpha:g} and SAM's radius",
            "the paper gives no values for GSAM",
        ),
        protocols=FEW,
        **VALUES,
    ),
    overrides=OVERRIDES,
    sizes=SIZES,
)
