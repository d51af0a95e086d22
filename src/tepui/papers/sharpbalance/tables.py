"""Tables 2 to 4 and 6 to 8: accuracy of ensembles, what a method gains and costs.

Tables 2 to 4 are accuracy at each severity of corruption, table 6 SharpBalance beside
members of different radii (SAM+) and averaged members (EoA), table 7 GSAM in the place
of SAM, by itself and inside SharpBalance, table 8 what the scoring of samples adds to
the cost of training. Its times are those that the runs of figure 7 recorded, all
members together, on whatever machine trained them: several trials at a time share it.

Differs from the paper:

- EoA averages plain members, trained from nothing, over the last quarter of a run, and
  GSAM has alpha 0.4 and SAM's radius (the paper gives no values for either)
"""

from collections.abc import Iterator, Mapping, Sequence
from operator import sub
from statistics import fmean
from typing import Any

from tepui.methods import GSAM, EoA, Method, SharpBalance
from tepui.papers.recipe import OVERRIDES, Numbers, Order, Recipe, differing
from tepui.papers.sharpbalance.protocol import (
    FEW,
    PROTOCOLS,
    SIZES,
    Protocol,
    compared,
    protocol_of,
    settings,
)
from tepui.studies import Job, Record, Store, Trial, averaged
from tepui.training import EpochRecord

SEVERITIES = (1, 2, 3, 4, 5)
Runs = Mapping[str, Sequence[Trial]]
# In percent, for each method one per repetition.
Accuracies = Mapping[str, Sequence[float]]


def accuracy_table(
    item: str,
    protocol: Protocol,
    dataset: str,
    runs: Runs,
    over: str = "",
    *,
    architecture: str = "resnet18",
    by_severity: bool = False,
) -> Numbers:
    """Return methods' accuracy on clean and corrupted data.

    Over a method, or over the ``"best_other"``, SharpBalance has its gain beside it.
    """
    test, corrupted = protocol.evaluation_spec(), f"{dataset}_c"

    def parts(evaluation: Mapping[str, Any]) -> list[tuple[Any, str, dict[str, Any]]]:
        """Return scores with the names of what they were found on."""
        if by_severity:
            found = evaluation["severities"]
            return [(found[str(n)], corrupted, {"severity": n}) for n in SEVERITIES]
        both = [(evaluation["clean"], dataset, dict[str, Any]())]
        return [*both, (evaluation["shifted"], corrupted, {})] if test.types else both

    def records(store: Store) -> Iterator[Record]:
        scores = {
            name: [parts(store.evaluation(trial, test)) for trial in trials]
            for name, trials in runs.items()
        }
        for part, (_, data, at) in enumerate(next(iter(scores.values()))[0]):
            names = {"item": item, "architecture": architecture, "dataset": data}
            accuracies = {
                name: [100 * found[part][0]["accuracy"] for found in repetitions]
                for name, repetitions in scores.items()
            }
            for method, values in accuracies.items():
                yield averaged(
                    values,
                    runs[method],
                    method=method,
                    metric="ensemble_accuracy",
                    unit="percent",
                    at={**at, "ensemble_size": len(runs[method][0].seeds)},
                    **names,
                )
            if over:
                yield from gain_over(over, accuracies, runs, at=at, **names)

    jobs = [Job(trial, (test,)) for trials in runs.values() for trial in trials]
    return Numbers(jobs, records)


def gain_over(
    over: str, accuracies: Accuracies, runs: Runs, **names: Any
) -> Iterator[Record]:
    """Return SharpBalance's gain over a method, or over the best of the others.

    It is the mean of differences between equal seeds; none where one is not there.
    """
    others = {n: v for n, v in accuracies.items() if not n.startswith("sharpbalance")}
    best = over == "best_other"
    rival = max(others, key=lambda m: fmean(others[m]), default="") if best else over
    if not {"sharpbalance", rival} <= {*accuracies}:
        return
    yield averaged(
        map(sub, accuracies["sharpbalance"], accuracies[rival]),
        (*runs["sharpbalance"], *runs[rival]),
        method="sharpbalance",
        metric=f"gain_over_{over}",
        unit="percentage points",
        note=f"over {rival}" if best else "",
        **names,
    )


def severity_table(item: str, dataset: str) -> Recipe:
    """Return the recipe of accuracy at each severity, from figure 7's ensembles."""

    def numbers(order: Order) -> Iterator[Numbers]:
        protocol = protocol_of(order, dataset)
        runs = runs_of(protocol, compared(order, protocol, dataset))
        yield accuracy_table(item, protocol, dataset, runs, "sam", by_severity=True)

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
            "eoa": protocol.trials(EoA(average=AVERAGED)),
            "sharpbalance": protocol.trials(protocol.balanced()),
            **runs_of(protocol, protocol.released(dataset)),
        }
        runs = order.choose(usual)
        named = "sharpbalance/table6", protocol, dataset, runs, "best_other"
        yield accuracy_table(*named)


AGAINST_OTHERS = Recipe(
    title="SharpBalance beside SAM+ and EoA",
    numbers=against_others,
    settings=lambda order: settings(
        order,
        OF_TABLE6,
        *differing(__doc__),
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
        *differing(__doc__),
        protocols=FEW,
        **ALPHA_TOLD,
    ),
    overrides=OVERRIDES,
    sizes=SIZES,
)
NAMES: dict[str, Any] = {
    "item": "sharpbalance/table8",
    "dataset": "cifar10",
    "architecture": "resnet18",
}
History = Sequence[EpochRecord]


def costs(order: Order) -> Iterator[Numbers]:
    """Return minutes of scoring and in all, and minutes per epoch of each method."""
    protocol = protocol_of(order, NAMES["dataset"])
    for name, method in compared(order, protocol, NAMES["dataset"]).items():
        yield times(name, method, protocol.trials(method))


def times(name: str, method: Method, runs: Sequence[Trial]) -> Numbers:
    """Return what one method costs."""

    def records(store: Store) -> Iterator[Record]:
        histories = [store.run(trial).history for trial in runs]
        phases = {"whole_run": slice(None)}
        if isinstance(method, SharpBalance):
            yield from cost_records(name, histories, runs)
            switch = method.first_exchange(runs[0].training.epochs)
            phases = {
                "before_switch": slice(switch),
                "after_switch": slice(switch, None),
            }
        for phase, part in phases.items():
            yield averaged(
                [fmean(e.seconds for e in history[part]) / 60 for history in histories],
                runs,
                method=name,
                metric="epoch_minutes",
                unit="minutes",
                at={"phase": phase},
                **NAMES,
            )

    return Numbers([Job(trial) for trial in runs], records)


def cost_records(
    method: str, histories: Sequence[History], runs: Sequence[Trial]
) -> Iterator[Record]:
    """Return what scoring costs beside all the rest."""
    scoring = [sum(e.exchange_seconds for e in epochs) / 60 for epochs in histories]
    training = [sum(e.seconds for e in epochs) / 60 for epochs in histories]
    pairs = [*zip(scoring, training, strict=True)]
    columns = {
        "scoring_minutes": (scoring, "minutes"),
        "total_minutes": ([extra + rest for extra, rest in pairs], "minutes"),
        "scoring_overhead": ([100 * extra / rest for extra, rest in pairs], "percent"),
    }
    for metric, (values, unit) in columns.items():
        names = {"method": method, "metric": metric, "unit": unit}
        yield averaged(values, runs, **names, **NAMES)


COST = Recipe(
    title="what scoring adds to the cost of training",
    numbers=costs,
    settings=lambda order: settings(order, [NAMES["dataset"]]),
    overrides=OVERRIDES,
    sizes=SIZES,
)
RECIPES = {
    "table2": severity_table("sharpbalance/table2", "cifar10"),
    "table3": severity_table("sharpbalance/table3", "cifar100"),
    "table4": severity_table("sharpbalance/table4", "tiny_imagenet"),
    "table6": AGAINST_OTHERS,
    "table7": WITH_GSAM,
    "table8": COST,
}
