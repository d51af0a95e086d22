"""Table 2: accuracy on shifted images, for three ways to join the members.

Measured at small size, with stand-ins (n = 4; aarch64, torch 2.13.0+cpu): accuracy on
imagenet_val: single 75.88 ± 0.54 percent.

Oracle selection is the member that is best on the very labels of the test, prediction
ensemble the mean of the logits, uniform soup the mean of the weights.
"""

from collections.abc import Iterator, Sequence
from itertools import product

from tepui.ensembles.ensemble import Ensemble
from tepui.evaluation.combining import oracle_selection
from tepui.evaluation.dataset_logits import dataset_logits
from tepui.evaluation.soup import uniform_soup
from tepui.metrics import accuracy
from tepui.papers.recipe import Numbers, Order, Recipe
from tepui.papers.sed.protocol import (
    ARCHITECTURE,
    LABELED,
    LARGE,
    LENGTHS,
    METHODS,
    Answers,
    asked,
    features,
    of_its_classes,
    settings,
    study_of,
    trials,
)
from tepui.papers.sed.scales import HeadStudy
from tepui.studies import Record, Store, Trial, averaged

AGGREGATIONS = ("oracle selection", "prediction ensemble", "uniform soup")


def numbers(order: Order) -> Iterator[Numbers]:
    """Return accuracies by method, ensemble size, aggregation and set."""
    study = study_of(order)
    yield table_rows(study, "single", 1, trials(study, "deep_ensemble"))
    for name in METHODS:
        yield table_rows(study, name, study.members, trials(study, name))
    for name in LARGE:
        runs = trials(study, name, study.large)
        yield table_rows(study, name, study.large, runs)


def table_rows(
    study: HeadStudy, name: str, members: int, runs: Sequence[Trial]
) -> Numbers:
    """Return the accuracies of one method at one ensemble size."""

    def records(store: Store, answers: list[Answers]) -> Iterator[Record]:
        found = accuracies(store, study, runs, members, answers)
        for aggregation, dataset in product(AGGREGATIONS, LABELED):
            yield averaged(
                [100 * each[aggregation, dataset] for each in found],
                runs,
                item="sed/table2",
                dataset=dataset,
                architecture=ARCHITECTURE,
                method=name,
                metric="accuracy",
                unit="percent",
                at={"ensemble_size": members, "aggregation": aggregation},
            )

    return asked(study, runs, members, records)


def accuracies(
    store: Store,
    study: HeadStudy,
    runs: Sequence[Trial],
    members: int,
    answers: Sequence[Answers],
) -> list[dict[tuple[str, str], float]]:
    """Return accuracies by aggregation and set, for each repetition."""
    rows = []
    for repetition, sets in enumerate(answers):
        soup = _soup(store, runs[repetition], members)
        row: dict[tuple[str, str], float] = {}
        for dataset in LABELED:
            logits, labels = sets[dataset]
            seen = store.dataset(features(study, repetition, dataset))
            joined = dataset_logits(soup, seen)[0].cpu()
            own = of_its_classes(study, dataset, logits, labels)
            of_soup = of_its_classes(study, dataset, joined, labels)
            values = (
                oracle_selection(*own).accuracy,
                float(accuracy(*own, rule="logit")),
                float(accuracy(*of_soup, rule="logit")),
            )
            for aggregation, value in zip(AGGREGATIONS, values, strict=True):
                row[aggregation, dataset] = value
        rows.append(row)
    return rows


def _soup(store: Store, trial: Trial, members: int) -> Ensemble:
    whole = store.run(trial).ensemble
    return uniform_soup(Ensemble(whole.members[:members], whole.seeds[:members]))


RECIPE = Recipe(
    title="accuracy on shifted images, for three ways to join members",
    numbers=numbers,
    settings=settings,
    overrides=LENGTHS,
)
