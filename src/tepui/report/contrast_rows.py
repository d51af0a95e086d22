"""Paired differences to the first method, in a sentence, a picture and a table."""

from collections.abc import Iterable, Sequence
from math import log
from typing import NamedTuple

from markupsafe import Markup

from tepui.evaluation.by_class import guess_on
from tepui.evaluation.dead_members import dead_members
from tepui.report.comparison import Comparison, MethodResult
from tepui.report.contrasts import firm, gaps
from tepui.report.loading import Group
from tepui.report.markup import TableCell, figure, grouped_table, row_panels
from tepui.report.measures import (
    Measure,
    data_name,
    data_title,
    kinds,
    leading_measure,
    measures_of,
)
from tepui.report.scores import gain_sentence
from tepui.report.shapes import (
    Axis,
    Line,
    Mark,
    Panel,
    Plot,
    Row,
    Shape,
    look,
    whiskers,
)
from tepui.report.wording import ends, number, opening
from tepui.studies import Difference
from tepui.tasks.base import Losses

HEIGHT = 28
MOST = 3  # differences of a sentence; more stand in the table
GUESS = "always naming the most frequent class"


class Contrast(NamedTuple):
    """One method less the first, by one measure on some data."""

    method: MethodResult
    base: MethodResult
    measure: Measure
    data: str
    found: Difference

    @property
    def size(self) -> str:
        """How far apart the means are."""
        unit = f" {self.measure.unit}" if self.measure.unit else ""
        return number(self.found.mean, self.measure.coarse, sign=True) + unit

    @property
    def interval(self) -> str:
        """Both ends of the interval."""
        return ends(self.found.low, self.found.high, self.measure.coarse, sign=True)


def contrasts_of(
    comparison: Comparison, measures: Iterable[Measure], data: Iterable[str]
) -> list[Contrast]:
    """Return all differences to the first method that are known."""
    base, *others = comparison.methods
    wanted = [(kind, m, method) for kind in data for m in measures for method in others]
    found = [(*each, each[1].less(each[2], base, each[0])) for each in wanted]
    return [
        Contrast(method, base, measure, kind, difference)
        for kind, measure, method, difference in found
        if difference is not None
    ]


def claim(group: Group) -> str:
    """Return what averaging changes, and how methods differ in the leading measure."""
    comparison = group.comparison
    data, main = kinds(comparison), leading_measure(comparison)
    every = contrasts_of(comparison, measures_of(comparison), data)
    sure = firm([each.found for each in every])
    said = []
    for each, clear in zip(every, sure, strict=True):
        if each.measure.score == main.score:
            hint = "; a hint" if each.found.apart else "; not apart"
            standing = "" if clear else hint
            where = f"on {data_name(each.data)} data ({each.interval}{standing})"
            said.append(f"{each.method.label} {each.size} {where}")
    base = comparison.methods[0].label
    told = f"{opening(main.name)} less {base}'s: {', '.join(said[:MOST])}."
    if not said:
        told = "No two methods share the seeds of two ensembles: no interval is known."
    if len(comparison.methods) == 1:
        told = ""
    parts = [*failures(comparison), gain_sentence(comparison), told]
    return " ".join(filter(None, parts))


def failures(comparison: Comparison) -> list[str]:
    """Return which ensembles a guess could equal, and which members did not learn."""
    said = []
    for method in comparison.methods:
        for shift in (None, *comparison.natural_shifts):
            found = [guess_on(each.evaluation, shift) for each in method.ensembles]
            on = f"on {'clean' if shift is None else shift} data"
            if all(guess is not None and guess.wins for guess in found):
                said.append(f"{method.label} is worse than {GUESS} {on}.")
            elif shift is None and all(g is not None and g.ties for g in found):
                said.append(f"{method.label} cannot be told from {GUESS} {on}.")
        for place, trained in enumerate(method.ensembles, 1):
            losses = trained.evaluation["clean"].get("member_nlls")
            if losses and None not in losses and "classes" in trained.evaluation:
                guess = log(trained.evaluation["classes"])
                for member in dead_members(Losses(losses, guess)):
                    who = f"Member {member} of {method.label}'s ensemble {place}"
                    said.append(f"{who} may not have learned.")
    return said


def summary_figure(comparison: Comparison, leading: Sequence[Contrast]) -> Markup:
    """Return the differences that the claim speaks of, all at one scale."""
    edge = 1.08 * max(max(abs(c.found.low), abs(c.found.high)) for c in leading)
    axis = Axis(-edge or -1.0, edge or 1.0)
    measure, base = leading[0].measure, leading[0].base.label
    panels = [
        Panel(
            data_title(data),
            [_row(comparison, each, axis) for each in leading if each.data == data],
        )
        for data in dict.fromkeys(each.data for each in leading)
    ]
    unit = measure.unit or measure.title
    panels[-1] = panels[-1]._replace(axis=axis.plot(sign=True), unit=unit)
    better = f" {opening(measure.better)} is better." if measure.better else ""
    caption = (
        f"Each method less {base}, ensemble by ensemble with the same seeds. Large: "
        "mean and 95 % interval, thick if it leaves out zero. Small: every pair."
    )
    title = f"{opening(measure.name)}: difference to {base}"
    return figure(title, caption + better, row_panels(panels))


def _row(comparison: Comparison, each: Contrast, axis: Axis) -> Row:
    place = [m.label for m in comparison.methods].index(each.method.label)
    own, found = look(place), each.found
    kind = f"{own.kind} interval{' apart' if found.apart else ''}"
    pairs = gaps(each.method, each.base, each.measure.read(each.data))
    shapes: list[Shape] = [
        Line(axis(0), 0, axis(0), HEIGHT, "zero"),
        *whiskers(axis, found.low, found.high, 9, kind),
        *(Mark(own, axis(gap), 22, "small") for gap in pairs),
        Mark(own, axis(found.mean), 9),
    ]
    said = (
        f"{each.method.label} less {each.base.label}, {data_name(each.data)} data: "
        f"{each.size}, 95 % interval {each.interval}."
    )
    plot, notes = Plot(HEIGHT, shapes, said), [f"({each.interval})"]
    return Row(own, each.method.label, plot, each.size, notes, bold=found.apart)


def contrast_table(comparison: Comparison, found: Sequence[Contrast]) -> Markup:
    """Return the differences in all measures; bold leaves out zero."""
    base, *others = comparison.methods
    cells = {
        (each.data, each.measure, each.method.label): TableCell(
            number(each.found.mean, each.measure.digits, sign=True),
            each.found.apart,
            ends(each.found.low, each.found.high, each.measure.digits, sign=True),
        )
        for each in found
    }
    groups: dict[str, list[list[str | TableCell]]] = {
        data_title(data): [
            [
                f"{opening(measure.name)}{f', {measure.unit}' if measure.unit else ''}",
                *(cells.get((data, measure, m.label), TableCell("")) for m in others),
            ]
            for measure in measures_of(comparison)
            if any(key[:2] == (data, measure) for key in cells)
        ]
        for data in kinds(comparison)
    }
    headings = ["measure", *(method.label for method in others)]
    return grouped_table(f"Differences to {base.label}", headings, groups)
