"""Tables 2 to 4, 6 and 7: accuracy of ensembles, and what one method gains.

Tables 2 to 4 are accuracy at each severity of corruption, table 6 SharpBalance beside
members of different radii (SAM+) and averaged members (EoA), table 7 GSAM in the place
of SAM, by itself and inside SharpBalance.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import sub
from statistics import fmean
from typing import Any

from tepui.methods import GSAM, DeepEnsemble, Method
from tepui.papers.recipe import OVERRIDES, Numbers, Order, Recipe
from tepui.papers.sharpbalance.protocol import (
    FEW,
    PROTOCOLS,
    SIZES,
    Protocol,
    compared,
    protocol_of,
    settings,
)
from tepui.studies import Departure, Job, Record, Store, Trial, averaged

SEVERITIES = (1, 2, 3, 4, 5)
Runs = Mapping[str, Sequence[Trial]]
# In percent, for each method one per repetition.
Accuracies = Mapping[str, Sequence[float]]
Further = Callable[..., Iterable[Record]]


def accuracy_table(
    item: str,
    protocol: Protocol,
    dataset: str,
    runs: Runs,
    further: Further = lambda accuracies, runs, **names: (),
    *,
    architecture: str = "resnet18",
    by_severity: bool = False,
) -> Numbers:
    """Return methods' accuracy on clean and corrupted data, and what follows."""
    test = protocol.evaluation_spec()

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
            name: [[*parts(store.evaluation(trial, test))] for trial in trials]
            for name, trials in runs.items()
        }
        for part, (_, where) in enumerate(next(iter(scores.values()))[0]):
            names = {"item": item, "architecture": architecture, **where}
            accuracies = {
                name: [
                    100 * evaluated[part][0]["accuracy"] for evaluated in repetitions
                ]
                for name, repetitions in scores.items()
            }
            yield from accuracy_records(accuracies, runs, **names)
            yield from further(accuracies, runs, **names)

    jobs = [Job(trial, (test,)) for trials in runs.values() for trial in trials]
    return Numbers(jobs, records)


def accuracy_records(
    accuracies: Accuracies,
    runs: Runs,
    *,
    at: Mapping[str, Any] | None = None,
    **names: Any,
) -> Iterator[Record]:
    """Return the mean of each method."""
    for method, values in accuracies.items():
        yield averaged(
            values,
            runs[method],
            method=method,
            metric="ensemble_accuracy",
            unit="percent",
            at={**(at or {}), "ensemble_size": len(runs[method][0].seeds)},
            **names,
        )


def gain_over(
    other: str | None, accuracies: Accuracies, runs: Runs, **names: Any
) -> Iterator[Record]:
    """Return SharpBalance's gain over a method, or over the best of the others.

    It is the mean of differences between equal seeds; none where one is not there.
    """
    rival = other or best_other(accuracies)
    if not {"sharpbalance", rival} <= {*accuracies}:
        return
    yield averaged(
        map(sub, accuracies["sharpbalance"], accuracies[rival]),
        (*runs["sharpbalance"], *runs[rival]),
        method="sharpbalance",
        metric=f"gain_over_{other or 'best_other'}",
        unit="percentage points",
        note="" if other else f"over {rival}",
        **names,
    )


def best_other(accuracies: Accuracies) -> str:
    """Return the method with the highest mean, SharpBalance aside.

    Example:
        >>> best_other({"eoa": [95.0], "sharpbalance": [97.0], "sam_plus": [96.0]})
        'sam_plus'
    """
    others = [name for name in accuracies if not name.startswith("sharpbalance")]
    return max(others, key=lambda method: fmean(accuracies[method]), default="")


def severity_table(item: str, dataset: str) -> Recipe:
    """Return the recipe of accuracy at each severity, from figure 7's ensembles."""

    def numbers(order: Order) -> Iterator[Numbers]:
        protocol = protocol_of(order, dataset)
        runs = runs_of(protocol, compared(order, protocol, dataset))
        gain = partial(gain_over, "sam")
        yield accuracy_table(item, protocol, dataset, runs, gain, by_severity=True)

    return Recipe(
        title=f"accuracy on corrupted {dataset} at each severity",
        numbers=numbers,
        settings=lambda order: settings(order, [dataset]),
        overrides=OVERRIDES,
        sizes=tuple(size for size in SIZES if dataset in PROTOCOLS[size]),
    )


def runs_of(protocol: Protocol, methods: Mapping[str, Method]) -> Runs:
    """Return the ensembles of each method."""
    return {name: protocol.trials(method) for name, method in methods.items()}


OF_TABLE6 = ("cifar10", "cifar100")
RADII = (0.05, 0.1, 0.2)  # SAM+ trains every member with a radius of its own
RADII_TOLD: dict[str, Any] = {"radii of SAM+": list(RADII)}
ALPHA_TOLD: dict[str, Any] = {"alpha of GSAM": GSAM().alpha}
AVERAGED = 0.25  # EoA averages plain members over this share, at the end of a run


def against_others(order: Order) -> Iterator[Numbers]:
    """Return accuracy, and SharpBalance's gain over the better of the two others."""
    for dataset in OF_TABLE6:
        protocol = protocol_of(order, dataset, FEW)
        usual = {
            "sam_plus": protocol.trials(protocol.sam(RADII[: protocol.members])),
            "eoa": protocol.trials(DeepEnsemble(), average=AVERAGED),
            "sharpbalance": protocol.trials(protocol.balanced()),
            **runs_of(protocol, protocol.released(dataset)),
        }
        runs = order.choose(usual)
        gain = partial(gain_over, None)
        yield accuracy_table("sharpbalance/table6", protocol, dataset, runs, gain)


AGAINST_OTHERS = Recipe(
    title="SharpBalance beside SAM+ and EoA",
    numbers=against_others,
    settings=lambda order: settings(
        order,
        OF_TABLE6,
        Departure(
            "EoA averages plain members, trained from nothing, over the last quarter",
            "the paper gives no values for EoA",
        ),
        protocols=FEW,
        **RADII_TOLD,
    ),
    overrides=("epochs", "ensembles", "rho", "methods"),
    sizes=SIZES,
)


def with_gsam(order: Order) -> Iterator[Numbers]:
    """Return accuracy on clean and on corrupted data."""
    protocol = protocol_of(order, "cifar100", FEW)
    gsam = protocol.gsam()
    more = {"gsam": gsam, "sharpbalance_gsam": protocol.balanced(base=gsam)}
    usual = {**protocol.methods(), **more, **protocol.released("cifar100")}
    runs = runs_of(protocol, order.choose(usual))
    yield accuracy_table("sharpbalance/table7", protocol, "cifar100", runs)


WITH_GSAM = Recipe(
    title="GSAM in the place of SAM",
    numbers=with_gsam,
    settings=lambda order: settings(
        order,
        ["cifar100"],
        Departure(
            f"GSAM with alpha {GSAM().alpha:g} and SAM's radius",
            "the paper gives no values for GSAM",
        ),
        protocols=FEW,
        **ALPHA_TOLD,
    ),
    overrides=OVERRIDES,
    sizes=SIZES,
)
RECIPES = {
    "table2": severity_table("sharpbalance/table2", "cifar10"),
    "table3": severity_table("sharpbalance/table3", "cifar100"),
    "table4": severity_table("sharpbalance/table4", "tiny_imagenet"),
    "table6": AGAINST_OTHERS,
    "table7": WITH_GSAM,
}
