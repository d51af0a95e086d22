"""Table 1: how many different classes the members of an ensemble predict.

Measured at small size, with stand-ins (n = 4; aarch64, torch 2.13.0+cpu): unique
predictions on imagenet_c1: deep_ensemble 1.152 ± 0.016, deep_ensemble_varied 1.287 ±
0.016, divdis 1.051 ± 0.014, a2d 1.018 ± 0.0063, sed_a2d 1.175 ± 0.017.
"""

from collections.abc import Iterator

from tepui.metrics import unique_predictions
from tepui.papers.recipe import Numbers, Order, Recipe
from tepui.papers.sed.protocol import (
    ARCHITECTURE,
    DETECTED,
    LENGTHS,
    METHODS,
    Answers,
    asked,
    settings,
    study_of,
    trials,
)
from tepui.papers.sed.scales import HeadStudy
from tepui.studies import Record, Store, averaged


def numbers(order: Order) -> Iterator[Numbers]:
    """Return unique predictions by method and set; clean images are not printed."""
    study = study_of(order)
    for name in order.choose(METHODS):
        yield of_method(study, name)


def of_method(study: HeadStudy, name: str) -> Numbers:
    """Return the unique predictions of one method."""
    runs = trials(study, name)

    def records(store: Store, found: list[Answers]) -> Iterator[Record]:
        for dataset in (*DETECTED, "imagenet_val"):
            yield averaged(
                [float(unique_predictions(sets[dataset][0])) for sets in found],
                runs,
                item="sed/table1",
                dataset=dataset,
                architecture=ARCHITECTURE,
                method=name,
                metric="unique_predictions",
                unit="count",
                at={"ensemble_size": study.members},
            )

    return asked(study, runs, study.members, records)


RECIPE = Recipe(
    title="different classes that members predict",
    numbers=numbers,
    settings=settings,
    overrides=(*LENGTHS, "methods"),
)
