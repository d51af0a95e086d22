"""Table 1: how many different classes the members of an ensemble predict.

Measured at small size, with stand-ins (n = 4; x86_64, torch 2.11.0+cu130): unique
predictions on imagenet_c1: deep_ensemble 1.15 ± 0.013, deep_ensemble_varied 1.28 ±
0.012, divdis 1.056 ± 0.013, a2d 1.015 ± 0.0053, sed_a2d 2.882 ± 0.14.
"""

from collections.abc import Iterator

from tepui.metrics import Collection, UniquePredictions
from tepui.papers.recipe import Numbers, Order, Recipe
from tepui.papers.sed import protocol
from tepui.papers.sed.protocol import DETECTED, Quantity, Tested, streamed


def numbers(order: Order) -> Iterator[Numbers]:
    """Return unique predictions by method and set; clean images are not printed."""
    study = protocol.study_of(order)
    for name in order.choose(protocol.METHODS):
        runs = protocol.trials(study, name)
        yield protocol.head_numbers("sed/table1", study, name, runs, unique)


def unique(tested: Tested) -> dict[Quantity, float]:
    """Return the number of different classes that members predict."""
    name = "unique_predictions"
    return {
        Quantity(dataset, name, "count"): streamed(
            Collection(**{name: UniquePredictions()}), tested.sets[dataset].read()
        )[name]
        for dataset in (*DETECTED, "imagenet_val")
    }


RECIPE = Recipe(
    title="different classes that members predict",
    numbers=numbers,
    settings=protocol.settings,
    overrides=(*protocol.LENGTHS, "methods"),
)
