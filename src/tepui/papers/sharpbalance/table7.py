"""Table 7: GSAM in the place of SAM, alone and inside SharpBalance.

Measured at small size, with stand-ins (n = 2; aarch64, torch 2.13.0+cpu): ensemble
accuracy on cifar100: deep_ensemble 76 ± 1, sam 73.5 ± 0.17, sharpbalance 73.5 ± 0.5,
gsam 73 ± 0.33, sharpbalance_gsam 73 ± 0.33 percent.
"""

from collections.abc import Iterator

from tepui.methods import GSAM
from tepui.papers.recipe import OVERRIDES, Numbers, Order, Recipe
from tepui.papers.sharpbalance.accuracy_tables import accuracy_table, runs_of
from tepui.papers.sharpbalance.protocol import SIZES, few_ensembles, protocol_of
from tepui.papers.sharpbalance.settings import few_settings
from tepui.studies import Departure

DATASET = "cifar100"


def numbers(order: Order) -> Iterator[Numbers]:
    """Return accuracy on clean and on corrupted data."""
    protocol = protocol_of(order, DATASET)._replace(ensembles=few_ensembles(order))
    gsam = protocol.gsam()
    more = {"gsam": gsam, "sharpbalance_gsam": protocol.balanced(base=gsam)}
    usual = {**protocol.methods(), **more, **protocol.released(DATASET)}
    runs = runs_of(protocol, order.choose(usual))
    yield accuracy_table("sharpbalance/table7", protocol, DATASET, runs)


RECIPE = Recipe(
    title="GSAM in the place of SAM",
    numbers=numbers,
    settings=lambda order: few_settings(
        order,
        [DATASET],
        Departure(
            f"GSAM with alpha {GSAM().alpha:g} and SAM's radius",
            "the paper gives no values for GSAM",
        ),
        **{"alpha of GSAM": GSAM().alpha},
    ),
    overrides=OVERRIDES,
    sizes=SIZES,
)
