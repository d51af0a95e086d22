"""Figures 8 and 15: ensembles of one to five members.

Figure 8 is accuracy on CIFAR-10, CIFAR-100 and their corrupted copies (a to d) and the
ensemble improvement rate on the same (e to h); figure 15 is calibration error and
negative log-likelihood on the corrupted copies of CIFAR-100, where lower is better.

Independent members do not know of each other, so that an ensemble of two is the first
two members of one of five, and one of five is that of figure 7 with two members more:
their stored logits are joined. SharpBalance's members know of each other, so that each
size is trained; a single one trains with SAM.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, product
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tepui.methods import ExchangingMethod
from tepui.papers.recipe import Numbers, Order, Recipe, Size
from tepui.papers.sharpbalance.protocol import (
    FEW,
    SIZES,
    Scored,
    compared,
    protocol_of,
    score_records,
    settings,
    title_of,
)
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


Shown = Mapping[tuple[str, str], str]  # the panel of a metric on a data set


def groups(
    order: Order, dataset: str, name: str, members: int
) -> list[tuple[Trial, ...]]:
    """Return what to train for an ensemble of some size, for each repetition.

    The first members of these trials, one after the other, are those of the ensemble.
    """
    protocol = protocol_of(order, dataset, FEW)
    largest = max(MEMBERS[order.size][dataset])
    method = (protocol.methods() | protocol.released(dataset))[name]
    if isinstance(method, ExchangingMethod):
        if members > 1:
            return [(trial,) for trial in protocol.trials(method, members=members)]
        method = protocol.methods()["sam"]
    usual = protocol.trials(method)
    if members <= protocol.members:
        return [(trial,) for trial in usual]
    return [
        (trial, replace(trial, seeds=seeds(n, largest)[protocol.members :]))
        for n, trial in enumerate(usual)
    ]


def group_scores(
    store: Store, trials: Sequence[Trial], members: int, test: EvaluationSpec
) -> dict[str, Scored]:
    """Return the scores of the first members of some trials, clean and corrupted."""
    stored = [store.logits(trial, test) for trial in trials]

    def joined(parts: Iterable[tuple[Tensor, Tensor]]) -> Any:
        logits, labels = zip(*parts, strict=True)
        return Scores.of(torch.cat(logits)[:members], labels[0], stored[0].rule)

    copies = stored[0].shifted
    shifted = [joined(trial.shifted[copy] for trial in stored) for copy in copies]
    return {
        "clean": joined(trial.clean for trial in stored).document(),
        "shifted": mean_scores(shifted).document(),
    }


def growing_numbers(order: Order, shown: Shown) -> Iterator[Numbers]:
    """Return metrics of every method by ensemble size."""
    for dataset in datasets(shown):
        protocol = protocol_of(order, dataset)
        test = replace(protocol.evaluation_spec(), logits_read=True)
        sizes = MEMBERS[order.size][dataset]
        for name, members in product(compared(order, protocol, dataset), sizes):
            several = groups(order, dataset, name, members)
            named = {"method": name, "at": {"ensemble_size": members}}
            yield Numbers(
                [Job(trial, (test,)) for trials in several for trial in trials],
                partial(_records, several, members, test, dataset, shown, named),
            )


def _records(
    several: Sequence[tuple[Trial, ...]],
    members: int,
    test: EvaluationSpec,
    dataset: str,
    shown: Shown,
    names: Mapping[str, Any],
    store: Store,
) -> Iterator[Record]:
    scores = [group_scores(store, trials, members, test) for trials in several]
    runs = [*chain.from_iterable(several)]
    for (metric, data), item in shown.items():
        if data.removesuffix("_c") == dataset:
            part = "clean" if data == dataset else "shifted"
            named = {"item": item, "dataset": data, "architecture": "resnet18", **names}
            yield from score_records([x[part] for x in scores], [metric], runs, **named)


def datasets(shown: Shown) -> list[str]:
    """Return the data sets of panels, each once."""
    return [*dict.fromkeys(data.removesuffix("_c") for _, data in shown)]


def growing_settings(order: Order, shown: Shown) -> dict[str, Any]:
    """Return the settings of the study, with its ensemble sizes."""
    document = settings(order, datasets(shown), protocols=FEW)
    for name in datasets(shown):
        document[name]["members"] = list(MEMBERS[order.size][name])
    return document


def growing_recipe(
    title: str,
    shown_in: Callable[[Sequence[str]], Shown],
    labels: Mapping[str, str],
    panels: tuple[str, ...] = (),
) -> Recipe:
    """Return the recipe of a figure with a panel per data set and metric."""

    def draw(results: Results) -> "Figure":
        shown = shown_in(results.settings["panels"])
        drawn = []
        for (metric, data), item in shown.items():
            name = data.removesuffix("_c")
            said = title_of(results, name, corrupted=name != data)
            letter = f"({item[-1]}) " if panels else ""
            lines = results.by("method", item=item, metric=metric)
            drawn.append(
                Curves(f"{letter}{said}", "ensemble_size", labels[metric], lines)
            )
        return curve_panels(drawn, columns=4)

    return Recipe(
        title=title,
        numbers=lambda order: growing_numbers(order, shown_in(order.panels)),
        settings=lambda order: growing_settings(order, shown_in(order.panels)),
        draw=draw,
        panels=panels,
        overrides=("epochs", "ensembles", "rho", "methods"),
        sizes=SIZES,
    )


SETS = ("cifar10", "cifar100", "cifar10_c", "cifar100_c")
GROWTH = {"ensemble_accuracy": "accuracy in %", "eir": "improvement rate"}
UNCERTAINTY = {"ece": "ECE", "nll": "NLL"}
PANELS = dict(zip("abcdefgh", product(GROWTH, SETS), strict=True))
RECIPES = {
    "figure8": growing_recipe(
        "accuracy and improvement rate by ensemble size",
        lambda letters: {PANELS[x]: f"sharpbalance/figure8{x}" for x in letters},
        GROWTH,
        tuple(PANELS),
    ),
    "figure15": growing_recipe(
        "ECE and NLL by ensemble size on corrupted data",
        lambda _: dict.fromkeys(
            product(UNCERTAINTY, ["cifar100_c"]), "sharpbalance/figure15"
        ),
        UNCERTAINTY,
    ),
}
