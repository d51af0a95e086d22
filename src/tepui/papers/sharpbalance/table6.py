"""Table 6: SharpBalance beside members of different radii and averaged members.

Measured at small size, with stand-ins (n = 2; aarch64, torch 2.13.0+cpu): ensemble
accuracy on cifar10: sam_plus 99.31 ± 0.14, eoa 99.31 ± 0.14, sharpbalance 99.17 ± 0,
sharpbalance_released 99.17 ± 0 percent.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

from tepui.methods import DeepEnsemble
from tepui.papers.recipe import Numbers, Order, Recipe
from tepui.papers.sharpbalance.accuracy_tables import accuracy_table, gain_over, runs_of
from tepui.papers.sharpbalance.protocol import FEW, SIZES, protocol_of
from tepui.papers.sharpbalance.settings import settings
from tepui.studies import Departure

DATASETS = ("cifar10", "cifar100")
RADII = (0.05, 0.1, 0.2)  # SAM+ trains every member with a radius of its own
VALUES: dict[str, Any] = {"radii of SAM+": list(RADII)}
AVERAGED = 0.25  # EoA averages plain members over this share, at the end of a run


def numbers(order: Order) -> Iterator[Numbers]:
    """Return accuracy, and SharpBalance's gain over the better of the two others."""
    for dataset in DATASETS:
        protocol = protocol_of(order, dataset, FEW)
        usual = {
            "sam_plus": protocol.trials(protocol.sam(RADII[: protocol.members])),
            "eoa": protocol.trials(DeepEnsemble(), average=AVERAGED),
            "sharpbalance": protocol.trials(protocol.balanced()),
            **runs_of(protocol, protocol.released(dataset)),
        }
        runs = order.choose(usual)
        gain = partial(gain_over, None)
        yield accuracy_table("sharpbalance/table6", protocol, dataset, runs, gain)


RECIPE = Recipe(
    title="SharpBalance beside SAM+ and EoA",
    numbers=numbers,
    settings=lambda order: settings(
        order,
        DATASETS,
        Departure(
            "EoA averages plain members, trained from nothing, over the last quarter",
            "the paper gives no values for EoA",
        ),
        protocols=FEW,
        **VALUES,
    ),
    overrides=("epochs", "ensembles", "rho", "methods"),
    sizes=SIZES,
)
