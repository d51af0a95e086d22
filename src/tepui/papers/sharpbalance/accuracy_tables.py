"""Accuracy of ensembles in the tables of the paper, and what one method gains."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import sub
from statistics import fmean
from typing import Any

from tepui.methods import Method
from tepui.papers.recipe import Numbers, Order, Recipe
from tepui.papers.sharpbalance.protocol import (
    LENGTHS,
    Protocol,
    evaluation_spec,
    methods,
    protocol_of,
    settings,
    trials,
)
from tepui.studies import Job, Record, Store, Trial, averaged

SEVERITIES = (1, 2, 3, 4, 5)
Runs = Mapping[str, Sequence[Trial]]
# In percent, for each method one per repetition.
Accuracies = Mapping[str, Sequence[float]]
Further = Callable[..., Iterable[Record]]


def runs_of(protocol: Protocol, compared: Mapping[str, Method]) -> Runs:
    """Return the ensembles of each method."""
    return {name: trials(protocol, method) for name, method in compared.items()}


def accuracy_table(
    protocol: Protocol,
    dataset: str,
    runs: Runs,
    further: Further = lambda found, runs, **names: (),
    *,
    by_severity: bool = False,
    **names: Any,
) -> Numbers:
    """Return methods' accuracy on clean and corrupted data, and what follows."""
    test = evaluation_spec(protocol)

    def parts(evaluation: Mapping[str, Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Yield scores with the names of what they were found on."""
        if by_severity:
            for severity in SEVERITIES:
                at = {"dataset": f"{dataset}_c", "at": {"severity": severity}}
                yield evaluation["severities"][str(severity)], at
            return
        yield evaluation["clean"], {"dataset": dataset}
        if test.types:
            yield evaluation["shifted"], {"dataset": f"{dataset}_c"}

    def records(store: Store) -> Iterator[Record]:
        scores = {
            name: [[*parts(store.evaluation(trial, test))] for trial in own]
            for name, own in runs.items()
        }
        for part, (_, where) in enumerate(next(iter(scores.values()))[0]):
            found = {
                name: [100 * each[part][0]["accuracy"] for each in own]
                for name, own in scores.items()
            }
            yield from accuracy_records(found, runs, **where, **names)
            yield from further(found, runs, **where, **names)

    return Numbers(
        [Job(each, (test,)) for own in runs.values() for each in own], records
    )


def accuracy_records(found: Accuracies, runs: Runs, **names: Any) -> Iterator[Record]:
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


def gain_record(found: Accuracies, runs: Runs, other: str, **names: Any) -> Record:
    """Return SharpBalance's gain: the mean of differences between equal seeds."""
    both = (*runs["sharpbalance"], *runs[other])
    gains = map(sub, found["sharpbalance"], found[other])
    return averaged(
        gains, both, method="sharpbalance", unit="percentage points", **names
    )


def gain_over_sam(found: Accuracies, runs: Runs, **names: Any) -> Iterator[Record]:
    """Return SharpBalance's gain over SAM."""
    yield gain_record(found, runs, "sam", metric="gain_over_sam", **names)


def best_other(found: Accuracies) -> str:
    """Return the method with the highest mean, SharpBalance aside.

    Example:
        >>> best_other({"eoa": [95.0], "sharpbalance": [97.0], "sam_plus": [96.0]})
        'sam_plus'
    """
    others = [method for method in found if method != "sharpbalance"]
    return max(others, key=lambda method: fmean(found[method]))


def severity_table(item: str, dataset: str) -> Recipe:
    """Return the recipe of accuracy at each severity, from figure 7's ensembles."""
    names = {"item": item, "architecture": "resnet18"}

    def numbers(order: Order) -> Iterator[Numbers]:
        protocol = protocol_of(order, dataset)
        runs = runs_of(protocol, methods(protocol))
        yield accuracy_table(
            protocol, dataset, runs, gain_over_sam, by_severity=True, **names
        )

    return Recipe(
        title=f"accuracy on corrupted {dataset} at each severity",
        numbers=numbers,
        settings=lambda order: settings(order, [dataset]),
        overrides=LENGTHS,
    )
