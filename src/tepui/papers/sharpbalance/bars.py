"""Figures 7 and 13: bars of accuracy, of members and ensemble.

A panel is a data set, clean or corrupted; every method has a bar in it. Figure 7 has
ResNet-18: panels a to c are the corrupted copies of CIFAR-10, CIFAR-100 and
TinyImageNet, d to f their clean test sets. Figure 13 has WRN-40-2: a and b are the
corrupted copies of CIFAR-10 and CIFAR-100, c and d their clean test sets; below the
paper's size a perceptron stands in for the network.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from tepui.methods import Method
from tepui.models import MLP, WideResNet40x2
from tepui.papers.published import printed
from tepui.papers.recipe import OVERRIDES, Numbers, Order, Recipe, Size
from tepui.papers.sharpbalance.protocol import (
    DATASETS,
    PROTOCOLS,
    SIZES,
    Protocol,
    Protocols,
    compared,
    protocol_of,
    score_records,
    settings,
    title_of,
)
from tepui.report.bars import Bar, bar_panels
from tepui.studies import Job, Record, Results, Store

if TYPE_CHECKING:
    from matplotlib.figure import Figure


METRICS = ("individual_accuracy", "ensemble_accuracy", "ensemble_improvement", "eir")


class Shown(NamedTuple):
    """What a panel shows."""

    dataset: str  # name of the paper's data set
    corrupted: bool  # whether it is corrupted


def bars_recipe(
    item: str,
    title: str,
    architecture: str,
    panels: Mapping[str, Shown],
    protocols: Protocols,
) -> Recipe:
    """Return the recipe of a figure of bars, by the letters of its panels."""

    def numbers(order: Order) -> Iterator[Numbers]:
        for letter in order.panels:
            shown = panels[letter]
            protocol = protocol_of(order, shown.dataset, protocols)
            for name, method in compared(order, protocol, shown.dataset).items():
                named = {"item": f"{item}{letter}", "architecture": architecture}
                yield of_method(shown, protocol, method, method=name, **named)

    def datasets(letters: Iterable[str]) -> list[str]:
        return [*dict.fromkeys(panels[letter].dataset for letter in letters)]

    def draw(results: Results) -> "Figure":
        letters, drawn = results.settings["panels"], {}
        for letter in letters:
            dataset, corrupted = panels[letter]
            named = f"({letter}) {title_of(results, dataset, corrupted=corrupted)}"
            of = {"item": f"{item}{letter}", "metric": "individual_accuracy"}
            drawn[named] = [_bar(results, record) for record in results.find(**of)]
        return bar_panels(drawn, columns=len(datasets(letters)))

    return Recipe(
        title=title,
        numbers=numbers,
        settings=lambda order: settings(
            order, datasets(order.panels), protocols=protocols
        ),
        draw=draw,
        panels=tuple(panels),
        overrides=OVERRIDES,
        sizes=tuple(size for size in SIZES if size in protocols),
        without={
            size: tuple(x for x, shown in panels.items() if shown.dataset not in there)
            for size, there in protocols.items()
        },
    )


def of_method(
    shown: Shown, protocol: Protocol, trained: Method, **names: Any
) -> Numbers:
    """Return one method's accuracy in one panel, of members and of ensembles."""
    dataset, corrupted = shown
    runs, test = protocol.trials(trained), protocol.evaluation_spec()

    def records(store: Store) -> Iterator[Record]:
        part = "shifted" if corrupted else "clean"
        scores = [store.evaluation(trial, test)[part] for trial in runs]
        return score_records(
            scores,
            METRICS,
            runs,
            [100 * one for each in scores for one in each["member_accuracies"]],
            dataset=f"{dataset}_c" if corrupted else dataset,
            at={"ensemble_size": protocol.members},
            **names,
        )

    return Numbers([Job(trial, (test,)) for trial in runs], records)


def _bar(results: Results, members: Record) -> Bar:
    """Return individual accuracy with the improvement on top."""
    names = {"item": members.item, "method": members.method}
    ensemble = results.one(metric="ensemble_accuracy", **names)
    row = printed(ensemble) if results.size.startswith("paper") else None
    return Bar(
        members.method.replace("_", "\n"),
        members.value or 0.0,
        ensemble.value or 0.0,
        ensemble.sem,
        None if row is None else row["value"],
    )


TESTED = [Shown(name, corrupted) for corrupted in (True, False) for name in DATASETS]
OF_FIGURE7 = dict(zip("abcdef", TESTED, strict=True))


def perceptron(width: int, in_features: int = 64) -> MLP:
    """Return a perceptron with two hidden layers."""
    return MLP(in_features=in_features, hidden=(width, width))


MODELS: Mapping[Size, Mapping[str, partial[Any]]] = {
    "paper": {
        "cifar10": partial(WideResNet40x2, num_classes=10, width=16),
        "cifar100": partial(WideResNet40x2, num_classes=100, width=16),
    },
    "small": {
        "cifar10": partial(perceptron, width=64),
        "cifar100": partial(perceptron, in_features=784, width=64),
    },
    "smoke": dict.fromkeys(("cifar10", "cifar100"), partial(perceptron, width=8)),
}
OWN_PROTOCOLS: Protocols = {
    size: {
        dataset: PROTOCOLS[size][dataset]._replace(model=model)
        for dataset, model in models.items()
    }
    for size, models in MODELS.items()
}
OF_FIGURE13 = dict(zip("abcd", TESTED[:2] + TESTED[3:5], strict=True))
TITLE = "accuracy of members and ensembles{}, corrupted and clean"
RECIPES = {
    "figure7": bars_recipe(
        "sharpbalance/figure7", TITLE.format(""), "resnet18", OF_FIGURE7, PROTOCOLS
    ),
    "figure13": bars_recipe(
        "sharpbalance/figure13",
        TITLE.format(" of WRN-40-2"),
        "wrn_40_2",
        OF_FIGURE13,
        OWN_PROTOCOLS,
    ),
}
