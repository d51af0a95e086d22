"""Table 8: what the scoring of samples adds to the cost of training.

Times are those that the runs of figure 7 recorded, all members together, on whatever
machine trained them: several trials at a time share it.
"""

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from tepui.methods import SharpBalance
from tepui.papers.recipe import Order, Recipe
from tepui.papers.sharpbalance.protocol import SCALES, methods, settings, trials
from tepui.studies.jobs import Job
from tepui.studies.results import Record, averaged
from tepui.studies.specifications import Trial
from tepui.studies.store import Store
from tepui.training import EpochRecord

DATASET = "cifar10"
History = Sequence[EpochRecord]


def plan(order: Order) -> list[Job]:
    """Return figure 7's ensembles, without a test."""
    scale = SCALES[order.size][DATASET]
    return [
        Job(trial)
        for method in methods(scale).values()
        for trial in trials(scale, method)
    ]


def records(store: Store, order: Order) -> Iterator[Record]:
    """Return minutes of scoring and in all, and minutes per epoch of each method."""
    scale = SCALES[order.size][DATASET]
    for name, method in methods(scale).items():
        runs = trials(scale, method)
        histories = [store.run(trial).history for trial in runs]
        if isinstance(method, SharpBalance):
            yield from cost_records(histories, runs)
            switch = method.first_exchange(scale.epochs)
            phases = {
                "before_switch": slice(switch),
                "after_switch": slice(switch, None),
            }
        else:
            phases = {"whole_run": slice(None)}
        for phase, part in phases.items():
            yield averaged(
                [fmean(e.seconds for e in history[part]) / 60 for history in histories],
                runs,
                method=name,
                metric="epoch_minutes",
                unit="minutes",
                at={"phase": phase},
                **_names(),
            )


def cost_records(
    histories: Sequence[History], runs: Sequence[Trial]
) -> Iterator[Record]:
    """Return what scoring costs beside all the rest."""
    scoring = [_minutes([e.exchange_seconds for e in epochs]) for epochs in histories]
    training = [sum(e.seconds for e in epochs) / 60 for epochs in histories]
    pairs = [*zip(scoring, training, strict=True)]
    columns: dict[str, tuple[list[float | None], str]] = {
        "scoring_minutes": (scoring, "minutes"),
        "total_minutes": (
            [None if extra is None else extra + rest for extra, rest in pairs],
            "minutes",
        ),
        "scoring_overhead": (
            [None if extra is None else 100 * extra / rest for extra, rest in pairs],
            "percent",
        ),
    }
    for metric, (values, unit) in columns.items():
        yield averaged(
            values, runs, method="sharpbalance", metric=metric, unit=unit, **_names()
        )


def _minutes(seconds: Sequence[float | None]) -> float | None:
    known = [each for each in seconds if each is not None]
    return sum(known) / 60 if len(known) == len(seconds) else None


def _names() -> dict[str, Any]:
    return {
        "item": "sharpbalance/table8",
        "dataset": DATASET,
        "architecture": "resnet18",
    }


RECIPE = Recipe(
    title="what scoring adds to the cost of training",
    plan=plan,
    records=records,
    settings=lambda order: settings(order.size, [DATASET]),
)
