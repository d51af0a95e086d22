"""Table 3: how well BMA and PDS tell unfamiliar images from those of the test.

Corrupted copies count as unfamiliar; over equally many copies of each type the pooled
AUROC is the mean of the types' own.
"""

from collections.abc import Iterator

from tepui.experiments.results import Record, averaged
from tepui.experiments.store import Store
from tepui.recipes.base import Order, Recipe
from tepui.recipes.sed.protocol import (
    ARCHITECTURE,
    DETECTED,
    METHODS,
    aurocs,
    plan_of,
    settings,
    trials,
)
from tepui.recipes.sed.scales import SCALES


def records(store: Store, order: Order) -> Iterator[Record]:
    """Return AUROCs by score, method and set; a single model has no PDS to speak of."""
    scale = SCALES[order.size]
    rows = [("single", 1, "bma", trials(scale, "deep_ensemble"))]
    for score in ("bma", "pds"):
        rows += [(each, scale.members, score, trials(scale, each)) for each in METHODS]
    for name, members, score, runs in rows:
        found = list(aurocs(store, scale, runs, members))
        for dataset in DETECTED:
            yield averaged(
                [each[score, dataset] for each in found],
                runs,
                item="sed/table3",
                dataset=dataset,
                architecture=ARCHITECTURE,
                method=name,
                metric="auroc",
                unit="fraction",
                at={"score": score.upper(), "ensemble_size": members},
            )


RECIPE = Recipe(
    title="detection of unfamiliar images by BMA and PDS",
    plan=lambda order: plan_of(SCALES[order.size], list(METHODS)),
    records=records,
    settings=lambda order: settings(order.size),
)
