"""How well each class is found, which one accuracy for all of them hides."""

import math
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from markupsafe import Markup

from tepui.evaluation.by_class import RATES, SETS, ByClass, by_recall
from tepui.report.comparison import Comparison
from tepui.report.markup import TableCell, grouped_table, note
from tepui.report.tables import mean_cell
from tepui.tasks.base import Nouns
from tepui.tasks.named import read_task

MOST = 12  # classes of a table
# Headings, scales and digits.
COLUMNS = {
    "recall": ("recall %", 100, 1),
    "precision": ("precision %", 100, 1),
    "f1": ("F1 %", 100, 1),
    "coverage": ("coverage %", 100, 1),
    "size": ("set size", 1, 2),
}
MEANING = (
    "Recall: the share of a class that is found. Precision: the share right of what is "
    "given its name. F1: their harmonic mean."
)


class Method(NamedTuple):
    """What the ensembles of a method say of each class."""

    label: str
    ensembles: Sequence[ByClass]

    def values(self, name: str, place: int) -> list[float]:
        """Return a score of a class, of all ensembles; none where one lacks it."""
        columns = [getattr(own, name) for own in self.ensembles]
        values = [column[place] if column else math.nan for column in columns]
        return [] if any(map(math.isnan, values)) else values

    def recalls(self) -> list[float]:
        """Return the mean recall of each class over ensembles."""
        columns = zip(*(own.recall for own in self.ensembles), strict=True)
        return [fmean(values) for values in columns]


def class_parts(comparison: Comparison) -> list[Markup]:
    """Return a table of classes."""
    nouns, methods = _nouns(comparison), _methods(comparison)
    if not methods:
        return []
    shown = shown_places(methods)
    parts = [_table(methods, nouns, shown, len(comparison.methods) > 1), note(MEANING)]
    if (classes := len(methods[0].recalls())) > len(shown):
        said = f"{len(shown)} of {classes} {nouns.several}, of lowest recall."
        parts.append(note(said))
    return parts


def shown_places(methods: Sequence[Method]) -> list[int]:
    """Return which classes a table shows: all, of many those of lowest recall."""
    columns = zip(*(method.recalls() for method in methods), strict=True)
    recalls = [fmean(column) for column in columns]
    if len(recalls) <= MOST:
        return [*range(len(recalls))]
    return by_recall(recalls)[:MOST]


def _nouns(comparison: Comparison) -> Nouns:
    evaluation = next(comparison.ensembles()).evaluation
    return read_task(evaluation.get("task")).nouns(evaluation["clean"])


def _methods(comparison: Comparison) -> list[Method]:
    """Return the methods whose ensembles all have scores of the same classes."""
    methods: list[Method] = []
    for own in comparison.methods:
        found = [ByClass.of(each.evaluation) for each in own.ensembles]
        known = [each for each in found if each is not None and any(each.samples)]
        names = {each.names for each in known}
        names |= {each.names for method in methods for each in method.ensembles}
        if len(known) == len(found) and len(names) == 1:
            methods.append(Method(own.label, known))
    return methods


def _table(
    methods: Sequence[Method], nouns: Nouns, shown: Sequence[int], several: bool
) -> Markup:
    """Return the scores of the classes shown."""
    sets = any(own.coverage for method in methods for own in method.ensembles)
    scores = (*RATES, *(SETS if sets else ()))
    groups: dict[str, list[list[str | TableCell]]] = {}
    for method in methods:
        first = method.ensembles[0]
        groups[method.label if several else ""] = [
            [
                first.names[place],
                str(first.samples[place]),
                *(
                    mean_cell(method.values(name, place), *COLUMNS[name][1:])
                    for name in scores
                ),
            ]
            for place in shown
        ]
    headings = [nouns.one, nouns.samples, *(COLUMNS[name][0] for name in scores)]
    return grouped_table(f"By {nouns.one}", headings, groups)
