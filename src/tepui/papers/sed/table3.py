"""Table 3: how well BMA and PDS tell unfamiliar images from those of the test.

Measured at small size, with stand-ins (n = 4; x86_64, torch 2.11.0+cu130): auroc on
imagenet_c1: single 0.578 ± 0.005.

Corrupted copies count as unfamiliar; over equally many copies of each type the pooled
AUROC is the mean of the types' own.
"""

from collections.abc import Iterator

from tepui.papers.recipe import Numbers, Order, Recipe
from tepui.papers.sed import protocol
from tepui.papers.sed.protocol import Quantity, Tested, aurocs


def numbers(order: Order) -> Iterator[Numbers]:
    """Return AUROCs by score, method and set; PDS is undefined for one model."""
    study = protocol.study_of(order)
    rows = [(name, name, study.members) for name in order.choose(protocol.METHODS)]
    if order.methods is None:
        rows.insert(0, ("single", "deep_ensemble", 1))
    for name, trained, size in rows:
        runs = protocol.trials(study, trained)
        yield protocol.head_numbers(
            "sed/table3", study, name, runs, detection, size, at={}
        )


def detection(tested: Tested) -> dict[Quantity, float]:
    """Return the AUROCs of one ensemble."""
    size = tested.members
    values = aurocs(tested.sets, "bma", ensemble_size=size)
    return values | (aurocs(tested.sets, "pds", ensemble_size=size) if size > 1 else {})


RECIPE = Recipe(
    title="detection of unfamiliar images by BMA and PDS",
    numbers=numbers,
    settings=protocol.settings,
    overrides=(*protocol.LENGTHS, "methods"),
)
