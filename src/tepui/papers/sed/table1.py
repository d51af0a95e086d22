"""Table 1: how many different classes the members of an ensemble predict."""

from collections.abc import Iterator

from tepui.metrics import unique_predictions
from tepui.papers.recipe import Order, Recipe
from tepui.papers.sed.protocol import (
    ARCHITECTURE,
    DETECTED,
    METHODS,
    answers,
    plan_of,
    settings,
    trials,
)
from tepui.papers.sed.scales import SCALES
from tepui.studies.results import Record, averaged
from tepui.studies.store import Store


def records(store: Store, order: Order) -> Iterator[Record]:
    """Return unique predictions by method and set; clean images are not printed."""
    scale = SCALES[order.size]
    for name in METHODS:
        runs = trials(scale, name)
        found = [
            {
                each: float(unique_predictions(logits))
                for each, (logits, _) in sets.items()
            }
            for sets in answers(store, scale, runs, scale.members)
        ]
        for dataset in (*DETECTED, "imagenet_val"):
            yield averaged(
                [sets[dataset] for sets in found],
                runs,
                item="sed/table1",
                dataset=dataset,
                architecture=ARCHITECTURE,
                method=name,
                metric="unique_predictions",
                unit="count",
                at={"ensemble_size": scale.members},
            )


RECIPE = Recipe(
    title="different classes that members predict",
    plan=lambda order: plan_of(SCALES[order.size], list(METHODS)),
    records=records,
    settings=lambda order: settings(order.size),
)
