"""Which method is better: each less the first, by the records of a comparison.

Intervals are over seeds and test samples. What chance could bring, or what has no known
interval, is a hint.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from tepui.report.comparison import Comparison, MethodResult
from tepui.report.markup import TableCell, figure, grouped_table, row_panels
from tepui.report.measures import (
    Measure,
    data_name,
    data_title,
    kinds,
    leading_measure,
    measures_of,
)
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
from tepui.studies import Interval
from tepui.studies.results import Record
from tepui.studies.significance import paired_difference

HEIGHT = 28
MOST = 3  # differences of a sentence; more stand in the picture
HINT = "hint"  # the note of a record


class Contrast(NamedTuple):
    """A difference in the leading score, as its record has it."""

    place: int  # of the method
    label: str
    data: str
    measure: Measure
    record: Record

    @property
    def found(self) -> Interval:
        """The difference with its interval, which may not be known, as it is shown."""
        low, high = self.record.interval or (math.nan, math.nan)
        mean, scale = self.record.value or 0.0, self.measure.scale
        return Interval(scale * mean, scale * low, scale * high, self.record.n)

    @property
    def hint(self) -> bool:
        """Whether chance could well bring it."""
        return self.record.note == HINT

    @property
    def apart(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.found.low > 0 or self.found.high < 0

    @property
    def size(self) -> str:
        """How far apart the means are."""
        unit = f" {self.measure.unit}" if self.measure.unit else ""
        return number(self.found.mean, self.measure.coarse, sign=True) + unit

    @property
    def values(self) -> list[float]:
        """The difference under each seed."""
        return [self.measure.scale * v for v in self.record.values if v is not None]

    @property
    def notes(self) -> list[str]:
        """The interval for the side of a picture; nothing if it is not known."""
        known = self.record.interval is not None
        return [self.interval.removeprefix("95 % interval ")] if known else []

    @property
    def interval(self) -> str:
        """Both ends of the interval."""
        if math.isnan(self.found.low):
            return "no interval: that takes 3 seeds and 300 test samples"
        both = ends(self.found.low, self.found.high, self.measure.coarse, sign=True)
        return f"95 % interval {both}"


def contrasts_of(comparison: Comparison, kind: str) -> list[Contrast]:
    """Return what records say of the leading score.

    Args:
        comparison: The comparison.
        kind: ``"gain"`` of an ensemble over its members, or ``"difference"`` of a
            method from the first one.
    """
    measure, data = leading_measure(comparison), kinds(comparison)
    places = {method.label: n for n, method in enumerate(comparison.methods)}
    found = [
        Contrast(places[record.method], record.method, record.dataset, measure, record)
        for record in comparison.records
        if record.metric == f"{measure.score}_{kind}" and record.method in places
    ]
    return sorted(found, key=lambda each: (data.index(each.data), each.place))


def hints_of(found: Sequence[Contrast]) -> str:
    """Return which are hints though their intervals leave out zero, if any are."""
    names = [
        f"{each.label} on {data_name(each.data)} data"
        for each in found
        if each.hint and each.apart
    ]
    return f" Only hints, by Holm's correction: {', '.join(names)}." if names else ""


def method_sentence(comparison: Comparison) -> str:
    """Return which methods differ from the first in the leading score."""
    if len(comparison.methods) == 1:
        return ""
    equal = comparison.methods[0].training.get("equal")
    price = f"at equal {equal}" if equal else "at their own prices"
    base, found = comparison.methods[0].label, contrasts_of(comparison, "difference")
    if not found:
        return "No two methods share the seeds of two ensembles: no interval is known."
    sure = [each for each in found if not each.hint]
    hints = [each for each in found if each.apart]
    widest = max(found, key=lambda each: abs(each.found.mean))
    listed = ", ".join(
        f"{each.label} {each.size} on {data_name(each.data)} data ({each.interval})"
        for each in (sure or hints or [widest])[:MOST]
    )
    name = leading_measure(comparison).name
    if sure:
        return f"{opening(name)} less {base}'s, {price}: {listed}."
    if hints:
        return f"A hint only, {price}: {name} less {base}'s: {listed}."
    return f"None can be told from {base}, {price}. Widest apart: {listed}."


def difference_figure(comparison: Comparison) -> list[Markup]:
    """Return the differences that the sentence speaks of, all at one scale."""
    found = contrasts_of(comparison, "difference")
    if not found:
        return []
    ends_of = [
        abs(end)
        for each in found
        for end in (each.found.low, each.found.high, *each.values)
        if math.isfinite(end)
    ]
    edge = 1.08 * max(ends_of) or 1.0
    axis, measure = Axis(-edge, edge), found[0].measure
    base = comparison.methods[0].label
    panels = [
        Panel(
            data_title(data), [_row(each, axis) for each in found if each.data == data]
        )
        for data in dict.fromkeys(each.data for each in found)
    ]
    unit = measure.unit or measure.title
    panels[-1] = panels[-1]._replace(axis=axis.plot(sign=True), unit=unit)
    better = f" {opening(measure.better)} is better." if measure.better else ""
    caption = (
        f"Each method less {base}, ensemble by ensemble with the same seeds. Large: "
        "mean and 95 % interval over seeds and test samples. Small: every pair."
    )
    title = f"{opening(measure.name)}: difference to {base}"
    return [figure(title, f"{caption}{better}{hints_of(found)}", row_panels(panels))]


def _row(each: Contrast, axis: Axis) -> Row:
    own, found = look(each.place), each.found
    kind = f"{own.kind} interval{' apart' if each.apart else ''}"
    shapes: list[Shape] = [
        Line(axis(0), 0, axis(0), HEIGHT, "zero"),
        *whiskers(axis, found.low, found.high, 9, kind),
        *(Mark(own, axis(gap), 22, "small") for gap in each.values),
        Mark(own, axis(found.mean), 9),
    ]
    said = f"{each.label}, {data_name(each.data)} data: {each.size}, {each.interval}."
    plot = Plot(HEIGHT, shapes, said)
    return Row(own, each.label, plot, each.size, each.notes, bold=not each.hint)


def other_differences(comparison: Comparison) -> list[Markup]:
    """Return the differences in all other measures, over seeds only."""
    base, *others = comparison.methods
    shown = [m for m in measures_of(comparison) if m != leading_measure(comparison)]
    groups: dict[str, list[list[str | TableCell]]] = {}
    for data in kinds(comparison):
        for measure in shown:
            cells = [_difference(measure, method, base, data) for method in others]
            if any(cell.text for cell in cells):
                unit = f", {measure.unit}" if measure.unit else ""
                row: list[str | TableCell]
                row = [f"{opening(measure.name)}{unit}", *cells]
                groups.setdefault(data_title(data), []).append(row)
    headings = ["measure", *(method.label for method in others)]
    caption = f"Other differences to {base.label}, 95 % interval over seeds only"
    return [grouped_table(caption, headings, groups)] if groups else []


def _difference(
    measure: Measure, method: MethodResult, base: MethodResult, data: str
) -> TableCell:
    """Return a method less another over shared seeds; empty for fewer than two."""
    read = measure.read(data)
    known = {trained.seeds: read(trained) for trained in base.ensembles}
    pairs = [
        (own, other)
        for trained in method.ensembles
        if (own := read(trained)) is not None
        and (other := known.get(trained.seeds)) is not None
        and math.isfinite(own - other)
    ]
    if len(pairs) < 2:
        return TableCell("")
    first, second = zip(*pairs, strict=True)
    found = paired_difference(first, second)
    both = ends(found.low, found.high, measure.digits, sign=True) if found.reach else ""
    return TableCell(number(found.mean, measure.digits, sign=True), small=both)
