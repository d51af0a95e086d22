"""Table 8: what the scoring of samples adds to the cost of training.

Times are those that the runs of figure 7 recorded, all members together, on whatever
machine trained them: several trials at a time share it.
"""

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from tepui.methods import Method, SharpBalance
from tepui.papers.recipe import OVERRIDES, Numbers, Order, Recipe
from tepui.papers.sharpbalance.protocol import SIZES, compared, protocol_of, settings
from tepui.studies import Job, Record, Store, Trial, averaged
from tepui.training import EpochRecord

NAMES: dict[str, Any] = {
    "item": "sharpbalance/table8",
    "dataset": "cifar10",
    "architecture": "resnet18",
}
History = Sequence[EpochRecord]


def numbers(order: Order) -> Iterator[Numbers]:
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


RECIPE = Recipe(
    title="what scoring adds to the cost of training",
    numbers=numbers,
    settings=lambda order: settings(order, [NAMES["dataset"]]),
    overrides=OVERRIDES,
    sizes=SIZES,
)
