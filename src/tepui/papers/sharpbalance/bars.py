"""Figures 7 and 13: bars of accuracy, of members and ensemble.

A panel is a data set, clean or corrupted; every method has a bar in it. Figure 7 has
ResNet-18: panels a to c are the corrupted copies of CIFAR-10, CIFAR-100 and
TinyImageNet, d to f their clean test sets. Figure 13 has WRN-40-2: a and b are the
corrupted copies of CIFAR-10 and CIFAR-100, c and d their clean test sets; below the
paper's size a perceptron stands in for the network.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from tepui.evaluation.stored_logits import StoredLogits
from tepui.methods import ExchangingMethod, Method
from tepui.metrics import Rule, ensemble_predictions, individual_accuracy
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
    settings,
    title_of,
)
from tepui.papers.sharpbalance.scores import score_records
from tepui.report.bars import Bar, bar_panels
from tepui.studies import Job, Record, Results, Store
from tepui.studies.jackknife import group_pseudo_values

if TYPE_CHECKING:
    from matplotlib.figure import Figure


METRICS = ("individual_accuracy", "ensemble_accuracy", "ensemble_improvement", "eir")


class Shown(NamedTuple):
    """What a panel shows."""

    dataset: str  # name of the paper's data set
    corrupted: bool  # whether it is corrupted


class Bars(NamedTuple):
    """A figure of bars."""

    item: str
    architecture: str
    panels: Mapping[str, Shown]
    protocols: Protocols  # how ensembles are trained, by size and data set

    def numbers(self, order: Order) -> Iterator[Numbers]:
        """Return accuracy of members and ensembles, by panel and method."""
        for letter in order.panels:
            dataset = self.panels[letter].dataset
            protocol = protocol_of(order, dataset, self.protocols)
            for name, method in compared(order, protocol, dataset).items():
                yield self.bar(letter, protocol, name, method)

    def bar(
        self, letter: str, protocol: Protocol, name: str, method: Method
    ) -> Numbers:
        """Return one method's accuracy in one panel."""
        dataset, corrupted = self.panels[letter]
        runs, test = protocol.trials(method), protocol.evaluation_spec()

        def records(store: Store) -> Iterator[Record]:
            part = "shifted" if corrupted else "clean"
            # Members that exchange data depend on each other and are no pairs.
            alone = not isinstance(method, ExchangingMethod)
            stored = [store.logits(trial, test) for trial in runs] if alone else []
            return score_records(
                [store.evaluation(trial, test)[part] for trial in runs],
                METRICS,
                runs,
                member_values(stored, part) if alone else None,
                item=f"{self.item}{letter}",
                dataset=f"{dataset}_c" if corrupted else dataset,
                architecture=self.architecture,
                method=name,
                at={"ensemble_size": protocol.members},
            )

        return Numbers([Job(trial, (test,)) for trial in runs], records)

    def draw(self, results: Results) -> "Figure":
        """Return bars of individual accuracy with the improvement on top."""
        panels = {}
        for letter in results.settings["panels"]:
            dataset, corrupted = self.panels[letter]
            title = title_of(results, dataset, corrupted=corrupted)
            panels[f"({letter}) {title}"] = [
                self._bar(results, record)
                for record in results.find(
                    item=f"{self.item}{letter}", metric="individual_accuracy"
                )
            ]
        return bar_panels(
            panels, columns=len(self._datasets(results.settings["panels"]))
        )

    def _bar(self, results: Results, members: Record) -> Bar:
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

    def _datasets(self, letters: Iterable[str]) -> list[str]:
        return [*dict.fromkeys(self.panels[letter].dataset for letter in letters)]

    def recipe(self, title: str) -> Recipe:
        """Return the recipe of the figure."""
        return Recipe(
            title=title,
            numbers=self.numbers,
            settings=lambda order: settings(
                order,
                self._datasets(order.panels),
                protocols=self.protocols,
            ),
            draw=self.draw,
            panels=tuple(self.panels),
            overrides=OVERRIDES,
            sizes=tuple(size for size in SIZES if size in self.protocols),
            without={size: self._without(size) for size in self.protocols},
        )

    def _without(self, size: Size) -> tuple[str, ...]:
        """Return the panels whose data set a size does not have."""
        there = self.protocols[size]
        return tuple(
            x for x, shown in self.panels.items() if shown.dataset not in there
        )


Answered = tuple[Tensor, Tensor]  # logits of all members, and labels
AT_A_TIME = 32  # groups whose answers are joined at once


def member_values(
    stored: Sequence[StoredLogits], part: str
) -> dict[str, tuple[float, ...]]:
    """Return individual accuracy in percent and improvement rate, by member.

    The rate is left out where there is one ensemble, or a group without errors.
    """
    sets = _joined(stored, part)
    alone = _means([individual_accuracy(*one).tolist() for one in sets])
    found = {"individual_accuracy": tuple(100 * value for value in alone)}
    size = len(stored[0].clean[0])
    if len(stored) > 1 and size > 1 and max(alone) < 1:
        rates = improvement_rates(sets, alone, size, stored[0].rule)
        found["eir"] = tuple(group_pseudo_values(rates))
    return found


def improvement_rates(
    sets: Sequence[Answered], alone: Sequence[float], size: int, rule: Rule
) -> dict[tuple[int, ...], float]:
    """Return the share of its members' error that each group of some size removes."""
    groups = [*combinations(range(len(alone)), size)]
    together = _means([_group_accuracies(*one, groups, rule) for one in sets])
    members = [fmean(alone[member] for member in group) for group in groups]
    return {
        group: (joined - single) / (1 - single)
        for group, joined, single in zip(groups, together, members, strict=True)
    }


def _group_accuracies(
    logits: Tensor, labels: Tensor, groups: Sequence[tuple[int, ...]], rule: Rule
) -> list[float]:
    """Return the accuracy of each group, some groups at a time."""
    found: list[float] = []
    for chosen in torch.tensor(groups).split(AT_A_TIME):
        beside = logits[chosen.T].flatten(1, 2)  # groups as further samples
        predicted = ensemble_predictions(beside, rule=rule)
        right = predicted.view(len(chosen), -1) == labels
        found += right.double().mean(1).tolist()
    return found


def _joined(stored: Sequence[StoredLogits], part: str) -> list[Answered]:
    """Return the answers of the members of all repetitions, by data set."""
    first = stored[0]
    if part == "clean":
        return [(torch.cat([each.clean[0] for each in stored]), first.clean[1])]
    return [
        (torch.cat([each.shifted[copy][0] for each in stored]), labels)
        for copy, (_, labels) in first.shifted.items()
    ]


def _means(rows: Sequence[Sequence[float]]) -> list[float]:
    return [fmean(column) for column in zip(*rows, strict=True)]


TESTED = [Shown(name, corrupted) for corrupted in (True, False) for name in DATASETS]
OF_FIGURE7 = dict(zip("abcdef", TESTED, strict=True))
FIGURE7 = Bars("sharpbalance/figure7", "resnet18", OF_FIGURE7, PROTOCOLS).recipe(
    "accuracy of members and ensembles, corrupted and clean"
)


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
OF_FIGURE13 = {
    "a": Shown("cifar10", True),
    "b": Shown("cifar100", True),
    "c": Shown("cifar10", False),
    "d": Shown("cifar100", False),
}
FIGURE13 = Bars("sharpbalance/figure13", "wrn_40_2", OF_FIGURE13, OWN_PROTOCOLS).recipe(
    "accuracy of members and ensembles of WRN-40-2, corrupted and clean"
)
RECIPES = {"figure7": FIGURE7, "figure13": FIGURE13}
