"""Table 2: accuracy on shifted images, for three ways to join the members.

Oracle selection is the member that is best on the very labels of the test, prediction
ensemble the mean of the logits, uniform soup the mean of the weights.
"""

from collections.abc import Iterator, Sequence

from torch import Tensor

from tepui.ensembles.ensemble import Ensemble
from tepui.evaluation.combining import oracle_selection
from tepui.evaluation.dataset_logits import dataset_logits
from tepui.evaluation.soup import uniform_soup
from tepui.metrics import accuracy
from tepui.papers.recipe import Order, Recipe
from tepui.papers.sed.protocol import (
    ARCHITECTURE,
    LABELED,
    LARGE,
    METHODS,
    answers,
    features,
    of_its_classes,
    plan_of,
    settings,
    trials,
)
from tepui.papers.sed.scales import SCALES, Scale
from tepui.studies.results import Record, averaged
from tepui.studies.specifications import Trial
from tepui.studies.store import Store

AGGREGATIONS = ("oracle selection", "prediction ensemble", "uniform soup")


def records(store: Store, order: Order) -> Iterator[Record]:
    """Return accuracies by method, ensemble size, aggregation and set."""
    scale = SCALES[order.size]
    rows: list[tuple[str, int, list[Trial]]] = [
        ("single", 1, trials(scale, "deep_ensemble")),
        *((name, scale.members, trials(scale, name)) for name in METHODS),
        *((name, scale.large, trials(scale, name, scale.large)) for name in LARGE),
    ]
    for name, members, runs in rows:
        found = accuracies(store, scale, runs, members)
        for aggregation in AGGREGATIONS:
            for dataset in LABELED:
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


def accuracies(
    store: Store, scale: Scale, runs: Sequence[Trial], members: int
) -> list[dict[tuple[str, str], float]]:
    """Return accuracies by aggregation and set, for each repetition."""
    rows = []
    for repetition, sets in enumerate(answers(store, scale, runs, members)):
        soup = _soup(store, runs[repetition], members)
        row: dict[tuple[str, str], float] = {}
        for dataset in LABELED:
            logits, labels = sets[dataset]
            seen = store.dataset(features(scale, repetition, dataset))
            joined = dataset_logits(soup, seen)[0].cpu()
            values = (
                oracle_selection(
                    *of_its_classes(scale, dataset, logits, labels)
                ).accuracy,
                _accuracy(scale, dataset, logits, labels),
                _accuracy(scale, dataset, joined, labels),
            )
            for aggregation, value in zip(AGGREGATIONS, values, strict=True):
                row[aggregation, dataset] = value
        rows.append(row)
    return rows


def _soup(store: Store, trial: Trial, members: int) -> Ensemble:
    whole = store.run(trial).ensemble
    return uniform_soup(Ensemble(whole.members[:members], whole.seeds[:members]))


def _accuracy(scale: Scale, dataset: str, logits: Tensor, labels: Tensor) -> float:
    inside, numbered = of_its_classes(scale, dataset, logits, labels)
    return float(accuracy(inside, numbered, rule="logit"))


RECIPE = Recipe(
    title="accuracy on shifted images, for three ways to join members",
    plan=lambda order: plan_of(SCALES[order.size], list(METHODS), large=True),
    records=records,
    settings=lambda order: settings(order.size),
)
