"""Bars of accuracy, members and ensemble, as figures 7 and 13 have them.

A panel is a data set, clean or corrupted; every method has a bar in it.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from tepui.papers.published import printed
from tepui.papers.recipe import Order, Recipe, Size
from tepui.papers.sharpbalance.protocol import (
    Scale,
    exam,
    methods,
    settings,
    title_of,
    trials,
)
from tepui.papers.sharpbalance.scores import score_records
from tepui.report.studies import Bar, bar_panels
from tepui.studies.jobs import Job
from tepui.studies.results import Record, Results
from tepui.studies.store import Store

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METRICS = ("individual_accuracy", "ensemble_accuracy", "ensemble_improvement", "eir")


class Panel(NamedTuple):
    """What a panel shows.

    Attributes:
        dataset: Name of the paper's data set.
        corrupted: Whether it is corrupted.
    """

    dataset: str
    corrupted: bool


class Bars(NamedTuple):
    """A figure of bars.

    Attributes:
        item: Its name.
        architecture: The paper's network.
        panels: By their letters.
        scales: How large the study is, by size and data set.
    """

    item: str
    architecture: str
    panels: Mapping[str, Panel]
    scales: Mapping[Size, Mapping[str, Scale]]

    def datasets(self, order: Order) -> list[str]:
        """Return the data sets that the panels of an order show, each once."""
        return list(dict.fromkeys(self.panels[each].dataset for each in order.panels))

    def plan(self, order: Order) -> list[Job]:
        """Return the ensembles of the data sets that the panels show."""
        scales = [self.scales[order.size][name] for name in self.datasets(order)]
        return [
            Job(trial, (exam(scale),))
            for scale in scales
            for method in methods(scale).values()
            for trial in trials(scale, method)
        ]

    def records(self, store: Store, order: Order) -> Iterator[Record]:
        """Return accuracy of members and ensembles, by panel and method."""
        for letter in order.panels:
            dataset, corrupted = self.panels[letter]
            scale = self.scales[order.size][dataset]
            part = "shifted" if corrupted else "clean"
            for name, method in methods(scale).items():
                runs = trials(scale, method)
                yield from score_records(
                    [store.evaluation(each, exam(scale))[part] for each in runs],
                    METRICS,
                    runs,
                    item=f"{self.item}{letter}",
                    dataset=f"{dataset}_c" if corrupted else dataset,
                    architecture=self.architecture,
                    method=name,
                    at={"ensemble_size": scale.members},
                )

    def draw(self, found: Results) -> "Figure":
        """Return bars of individual accuracy with the improvement on top."""
        panels = {}
        for letter in found.settings["panels"]:
            item = f"{self.item}{letter}"
            shown = found.find(item=item, metric="individual_accuracy")
            dataset, corrupted = self.panels[letter]
            title = title_of(found, dataset, corrupted=corrupted)
            panels[f"({letter}) {title}"] = [
                self._bar(found, record) for record in shown
            ]
        shown_sets = {self.panels[each].dataset for each in found.settings["panels"]}
        return bar_panels(panels, columns=len(shown_sets))

    def _bar(self, found: Results, members: Record) -> Bar:
        ensemble = found.one(
            item=members.item, method=members.method, metric="ensemble_accuracy"
        )
        row = printed(ensemble) if found.size == "paper" else None
        return Bar(
            members.method, members, ensemble, None if row is None else row["value"]
        )

    def recipe(self, title: str) -> Recipe:
        """Return the recipe of the figure."""
        return Recipe(
            title=title,
            plan=self.plan,
            records=self.records,
            settings=lambda order: settings(
                order.size,
                self.datasets(order),
                scales=self.scales,
                architecture=self.architecture,
            ),
            draw=self.draw,
            panels=tuple(self.panels),
        )
