"""Accuracy of ensembles in the tables of the paper, and what one method gains."""

from collections.abc import Iterator, Mapping, Sequence
from operator import sub
from statistics import fmean
from typing import Any

from tepui.papers.recipe import Order, Recipe
from tepui.papers.sharpbalance.protocol import SCALES, exam, methods, settings, trials
from tepui.studies.jobs import Job
from tepui.studies.results import Record, averaged
from tepui.studies.specifications import EvaluationSpec, Trial
from tepui.studies.store import Store

SEVERITIES = (1, 2, 3, 4, 5)
Runs = Mapping[str, Sequence[Trial]]
# In percent, for each method one per repetition.
Found = Mapping[str, Sequence[float]]


def clean_and_corrupted(
    store: Store, runs: Runs, asked: EvaluationSpec, dataset: str
) -> dict[str, Found]:
    """Return the ensembles' accuracy on clean and, if asked for, on corrupted data."""
    parts = {dataset: "clean"} | ({f"{dataset}_c": "shifted"} if asked.types else {})
    scores = {
        method: [store.evaluation(trial, asked) for trial in own]
        for method, own in runs.items()
    }
    return {
        name: {
            method: [100 * each[part]["accuracy"] for each in own]
            for method, own in scores.items()
        }
        for name, part in parts.items()
    }


def accuracy_records(found: Found, runs: Runs, **names: Any) -> Iterator[Record]:
    """Return the mean of each method."""
    at = names.pop("at", {})
    for method, values in found.items():
        yield averaged(
            values,
            runs[method],
            method=method,
            metric="ensemble_accuracy",
            unit="percent",
            at={**at, "ensemble_size": len(runs[method][0].seeds)},
            **names,
        )


def gain_record(found: Found, runs: Runs, other: str, **names: Any) -> Record:
    """Return SharpBalance's gain: the mean of differences between equal seeds."""
    both = (*runs["sharpbalance"], *runs[other])
    gains = map(sub, found["sharpbalance"], found[other])
    return averaged(
        gains, both, method="sharpbalance", unit="percentage points", **names
    )


def best_other(found: Found) -> str:
    """Return the method with the highest mean, SharpBalance aside.

    Example:
        >>> best_other({"eoa": [95.0], "sharpbalance": [97.0], "sam_plus": [96.0]})
        'sam_plus'
    """
    others = [method for method in found if method != "sharpbalance"]
    return max(others, key=lambda method: fmean(found[method]))


def severity_table(item: str, dataset: str) -> Recipe:
    """Return the recipe of accuracy at each severity, from figure 7's ensembles."""

    def runs_of(order: Order) -> Runs:
        scale = SCALES[order.size][dataset]
        return {name: trials(scale, method) for name, method in methods(scale).items()}

    def plan(order: Order) -> list[Job]:
        asked = exam(SCALES[order.size][dataset])
        return [
            Job(trial, (asked,)) for own in runs_of(order).values() for trial in own
        ]

    def records(store: Store, order: Order) -> Iterator[Record]:
        asked, runs = exam(SCALES[order.size][dataset]), runs_of(order)
        names = {
            "item": item,
            "dataset": f"{dataset}_c",
            "architecture": "resnet18",
        }
        scores = {
            method: [store.evaluation(trial, asked)["severities"] for trial in own]
            for method, own in runs.items()
        }
        for severity in SEVERITIES:
            found = {
                method: [100 * each[str(severity)]["accuracy"] for each in own]
                for method, own in scores.items()
            }
            at = {"severity": severity}
            yield from accuracy_records(found, runs, at=at, **names)
            yield gain_record(
                found, runs, "sam", metric="gain_over_sam", at=at, **names
            )

    return Recipe(
        title=f"accuracy on corrupted {dataset} at each severity",
        plan=plan,
        records=records,
        settings=lambda order: settings(order.size, [dataset]),
    )
