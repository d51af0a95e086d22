"""Table 3: how well BMA and PDS tell unfamiliar images from those of the test.

Measured at small size, with stand-ins (n = 4; aarch64, torch 2.13.0+cpu): auroc on
imagenet_c1: single 0.5791 ± 0.0056.

Corrupted copies count as unfamiliar; over equally many copies of each type the pooled
AUROC is the mean of the types' own.
"""

from collections.abc import Iterator, Sequence
from itertools import product

from tepui.papers.recipe import Numbers, Order, Recipe
from tepui.papers.sed.protocol import (
    ARCHITECTURE,
    DETECTED,
    LENGTHS,
    METHODS,
    Answers,
    asked,
    aurocs,
    settings,
    study_of,
    trials,
)
from tepui.papers.sed.scales import HeadStudy
from tepui.studies import Record, Store, Trial, averaged


def numbers(order: Order) -> Iterator[Numbers]:
    """Return AUROCs by score, method and set; a single model has no PDS to speak of."""
    study = study_of(order)
    if order.methods is None:
        yield detection(study, "single", 1, trials(study, "deep_ensemble"))
    for name in order.choose(METHODS):
        yield detection(study, name, study.members, trials(study, name))


def detection(
    study: HeadStudy, name: str, members: int, runs: Sequence[Trial]
) -> Numbers:
    """Return the AUROCs of one method."""

    def records(store: Store, answers: list[Answers]) -> Iterator[Record]:
        found = [aurocs(sets) for sets in answers]
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

    return asked(study, runs, members, records)


RECIPE = Recipe(
    title="detection of unfamiliar images by BMA and PDS",
    numbers=numbers,
    settings=settings,
    overrides=(*LENGTHS, "methods"),
)
