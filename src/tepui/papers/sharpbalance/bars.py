"""Bars of accuracy, members and ensemble, as figures 7 and 13 have them.

A panel is a data set, clean or corrupted; every method has a bar in it.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from tepui.methods import ExchangingMethod, Method
from tepui.papers.published import printed
from tepui.papers.recipe import OVERRIDES, Numbers, Order, Recipe, Size
from tepui.papers.sharpbalance.members import member_values
from tepui.papers.sharpbalance.protocol import (
    SIZES,
    Protocol,
    Protocols,
    compared,
    protocol_of,
    title_of,
)
from tepui.papers.sharpbalance.scores import score_records
from tepui.papers.sharpbalance.settings import settings
from tepui.report.bars import Bar, bar_panels
from tepui.studies import Job, Record, Results, Store

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
                architecture=self.architecture,
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
