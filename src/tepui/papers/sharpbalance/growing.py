"""Figures 8 and 15: ensembles of one to five members.

Figure 8 is accuracy on CIFAR-10, CIFAR-100 and their corrupted copies (a to d) and the
ensemble improvement rate on the same (e to h); figure 15 is calibration error and
negative log-likelihood on the corrupted copies of CIFAR-100, where lower is better.

Independent members do not know of each other, so that an ensemble of two is the first
two members of one of five, and one of five is that of figure 7 with two members more:
their stored logits are joined. SharpBalance's members know of each other, so that each
size is trained; a single one trains with SAM.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from tepui.methods import ExchangingMethod
from tepui.papers.recipe import Numbers, Order, Recipe, Size
from tepui.papers.sharpbalance.protocol import (
    FEW,
    SIZES,
    compared,
    protocol_of,
    settings,
    title_of,
)
from tepui.papers.sharpbalance.scores import Scored, score_records
from tepui.report.curves import Curves, curve_panels
from tepui.studies import EvaluationSpec, Job, Record, Results, Store, Trial, seeds
from tepui.tasks import Scores
from tepui.tasks.scores import mean_scores

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_ALL = (1, 2, 3, 4, 5)
# Numbers of members, by size of the study and data set.
MEMBERS: Mapping[Size, Mapping[str, tuple[int, ...]]] = {
    "paper": {"cifar10": _ALL, "cifar100": _ALL},
    "medium": {"cifar10": _ALL, "cifar100": _ALL},
    "small": {"cifar10": _ALL, "cifar100": (1, 3, 5)},
    "smoke": {"cifar10": (1, 2, 3), "cifar100": (1, 2, 3)},
}


class JoinedEnsemble(NamedTuple):
    """An ensemble of some size, in one repetition."""

    trials: tuple[Trial, ...]  # what to train; their members are joined in this order
    members: int  # how many of them count, from the first


def groups(order: Order, dataset: str, name: str, members: int) -> list[JoinedEnsemble]:
    """Return an ensemble of some number of members per repetition."""
    protocol = protocol_of(order, dataset, FEW)
    largest = max(MEMBERS[order.size][dataset])
    method = (protocol.methods() | protocol.released(dataset))[name]
    if isinstance(method, ExchangingMethod):
        if members > 1:
            whole = protocol.trials(method, members=members)
            return [JoinedEnsemble((trial,), members) for trial in whole]
        method = protocol.methods()["sam"]
    usual = protocol.trials(method)
    if members <= protocol.members:
        return [JoinedEnsemble((trial,), members) for trial in usual]
    return [
        JoinedEnsemble(
            (trial, replace(trial, seeds=seeds(n, largest)[protocol.members :])),
            members,
        )
        for n, trial in enumerate(usual)
    ]


def group_scores(
    store: Store, group: JoinedEnsemble, test: EvaluationSpec
) -> dict[str, Scored]:
    """Return the scores of an ensemble, clean and corrupted."""
    stored = [store.logits(trial, test) for trial in group.trials]

    def joined(parts: Iterable[tuple[Tensor, Tensor]]) -> Any:
        logits, labels = zip(*parts, strict=True)
        every = torch.cat(logits)[: group.members]
        return Scores.of(every, labels[0], stored[0].rule)

    copies = stored[0].shifted
    shifted = [joined(trial.shifted[copy] for trial in stored) for copy in copies]
    return {
        "clean": joined(trial.clean for trial in stored).document(),
        "shifted": mean_scores(shifted).document(),
    }


def growing_numbers(
    order: Order, dataset: str, metrics: Mapping[str, Sequence[str]], **names: Any
) -> Iterator[Numbers]:
    """Return metrics of every method by ensemble size."""
    protocol = protocol_of(order, dataset)
    test = replace(protocol.evaluation_spec(), logits_read=True)
    for name in compared(order, protocol, dataset):
        for members in MEMBERS[order.size][dataset]:
            several = groups(order, dataset, name, members)
            named = {"method": name, "at": {"ensemble_size": members}, **names}
            yield Numbers(
                [Job(trial, (test,)) for group in several for trial in group.trials],
                partial(_records, several, test, dataset, metrics, named),
            )


def _records(
    several: Sequence[JoinedEnsemble],
    test: EvaluationSpec,
    dataset: str,
    metrics: Mapping[str, Sequence[str]],
    names: Mapping[str, Any],
    store: Store,
) -> Iterator[Record]:
    evaluated = [group_scores(store, group, test) for group in several]
    runs = [trial for group in several for trial in group.trials]
    for part, wanted in metrics.items():
        data = dataset if part == "clean" else f"{dataset}_c"
        of_part = [parts[part] for parts in evaluated]
        yield from score_records(of_part, wanted, runs, dataset=data, **names)


def growing_settings(order: Order, datasets: Sequence[str]) -> dict[str, Any]:
    """Return the settings of the study, with its ensemble sizes."""
    document = settings(order, datasets, protocols=FEW)
    for name in datasets:
        sizes = list(MEMBERS[order.size][name])
        document[name]["members"] = sizes
    return document


SETS = ("cifar10", "cifar100", "cifar10_c", "cifar100_c")
GROWTH = {"ensemble_accuracy": "accuracy in %", "eir": "improvement rate"}
PANELS = dict(
    zip("abcdefgh", [(m, data) for m in GROWTH for data in SETS], strict=True)
)


def datasets(order: Order) -> list[str]:
    """Return the data sets of the panels, each once."""
    shown = (PANELS[panel][1].removesuffix("_c") for panel in order.panels)
    return list(dict.fromkeys(shown))


def growth(order: Order) -> Iterator[Numbers]:
    """Return accuracy and improvement rate, by panel, method and size."""
    parts = {"clean": list(GROWTH), "shifted": list(GROWTH)}
    for dataset in datasets(order):
        names = {"item": "", "architecture": "resnet18"}
        for part in growing_numbers(order, dataset, parts, **names):
            yield Numbers(part.jobs, partial(_lettered, part, order))


def _lettered(numbers: Numbers, order: Order, store: Store) -> Iterator[Record]:
    """Return the numbers of the chosen panels, each with its panel's name."""
    letters = {what: letter for letter, what in PANELS.items()}
    for record in numbers.records(store):
        letter = letters[record.metric, record.dataset]
        if letter in order.panels:
            yield replace(record, item=f"sharpbalance/figure8{letter}")


def draw_growth(results: Results) -> "Figure":
    """Return a panel per data set and metric, a line per method."""
    return curve_panels(
        [
            Curves(
                f"({letter}) {_title(results, PANELS[letter][1])}",
                "ensemble_size",
                GROWTH[PANELS[letter][0]],
                results.by("method", item=f"sharpbalance/figure8{letter}"),
            )
            for letter in results.settings["panels"]
        ],
        columns=4,
    )


def _title(results: Results, name: str) -> str:
    dataset = name.removesuffix("_c")
    return title_of(results, dataset, corrupted=name != dataset)


FIGURE8 = Recipe(
    title="accuracy and improvement rate by ensemble size",
    numbers=growth,
    settings=lambda order: growing_settings(order, datasets(order)),
    draw=draw_growth,
    panels=tuple(PANELS),
    overrides=("epochs", "ensembles", "rho", "methods"),
    sizes=SIZES,
)


UNCERTAINTY = {"ece": "ECE", "nll": "NLL"}


def uncertainty(order: Order) -> Iterator[Numbers]:
    """Return both metrics by method and size."""
    names = {"item": "sharpbalance/figure15", "architecture": "resnet18"}
    return growing_numbers(order, "cifar100", {"shifted": list(UNCERTAINTY)}, **names)


def draw_uncertainty(results: Results) -> "Figure":
    """Return a panel per metric, a line per method."""
    title = title_of(results, "cifar100", corrupted=True)
    return curve_panels(
        [
            Curves(title, "ensemble_size", label, results.by("method", metric=metric))
            for metric, label in UNCERTAINTY.items()
        ]
    )


FIGURE15 = Recipe(
    title="ECE and NLL by ensemble size on corrupted data",
    numbers=uncertainty,
    settings=lambda order: growing_settings(order, ["cifar100"]),
    draw=draw_uncertainty,
    overrides=("epochs", "ensembles", "rho", "methods"),
    sizes=SIZES,
)
RECIPES = {"figure8": FIGURE8, "figure15": FIGURE15}
