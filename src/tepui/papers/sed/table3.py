"""Table 3: how well BMA and PDS tell unfamiliar images from those of the test.

Corrupted copies count as unfamiliar; over equally many copies of each type the pooled
AUROC is the mean of the types' own.
"""

from collections.abc import Iterator
from itertools import product

from tepui.papers.recipe import Order, Recipe
from tepui.papers.sed.protocol import (
    ARCHITECTURE,
    DETECTED,
    METHODS,
    answers,
    aurocs,
    plan_of,
    settings,
    trials,
)
from tepui.papers.sed.scales import SCALES
from tepui.studies.results import Record, averaged
from tepui.studies.store import Store


def records(store: Store, order: Order) -> Iterator[Record]:
    """Return AUROCs by score, method and set; a single model has no PDS to speak of."""
    scale = SCALES[order.size]
    rows = [("single", 1, trials(scale, "deep_ensemble"))]
    rows += [(name, scale.members, trials(scale, name)) for name in METHODS]
    for name, members, runs in rows:
        found = [aurocs(sets) for sets in answers(store, scale, runs, members)]
        scores = ("bma", "pds") if members > 1 else ("bma",)
        for score, dataset in product(scores, DETECTED):
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
