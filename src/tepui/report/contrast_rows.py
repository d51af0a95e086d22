"""Paired differences to the first method, with their intervals about one zero line."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from tepui.report.chance import firm
from tepui.report.comparison import Comparison, MethodResult
from tepui.report.contrasts import gaps
from tepui.report.failures import failures
from tepui.report.loading import Group
from tepui.report.markup import blocks, figure, row_panels
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
    Words,
    look,
)
from tepui.report.wording import ends, number, opening, some
from tepui.studies import Difference

HEIGHT = 28
MOST = 3  # differences of a sentence; more stand below it
LONG = 60  # rows past which only the first data stand open


@dataclass(frozen=True)
class Contrast:
    """One method less the first, by one measure on some data."""

    method: MethodResult
    base: MethodResult
    measure: Measure
    data: str
    found: Difference

    @property
    def size(self) -> str:
        """How far apart the means are."""
        digits = 1 if self.measure.percent else self.measure.digits
        unit = f" {self.measure.unit}" if self.measure.unit else ""
        return number(self.found.mean, digits, sign=True) + unit

    @property
    def interval(self) -> str:
        """Both ends of the interval."""
        digits = 1 if self.measure.percent else self.measure.digits
        return ends(self.found.low, self.found.high, digits, sign=True)


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
    """Return the differences in the leading measure, with their intervals."""
    comparison = group.comparison
    data, main = kinds(comparison), leading_measure(comparison)
    every = contrasts_of(comparison, measures_of(comparison), data)
    sure = firm([each.found for each in every])
    said = [
        f"{each.method.label} {each.size} on {data_name(each.data)} data "
        f"({each.interval}{_standing(each, clear)})"
        for each, clear in zip(every, sure, strict=True)
        if each.measure.score == main.score
    ]
    base, *others = comparison.methods
    if not said and not others:
        means = [
            f"{number(main.of(base, kind).mean, main.digits)}"
            f"{' %' if main.percent else ''} on {data_name(kind)} data"
            for kind in data
        ]
        said = [f"{base.label}'s {main.name} is {some(means, MOST)}."]
    elif not said:
        said = [
            "No two methods share the seeds of two ensembles: no interval is known."
        ]
    else:
        said = [f"{opening(main.name)} less {base.label}'s: {some(said, MOST)}."]
    return " ".join([*filter(None, [failures(comparison)]), *said])


def _standing(each: Contrast, sure: bool) -> str:
    if not each.found.apart:
        return "; not apart"
    return "" if sure else "; a hint"


def summary_figure(comparison: Comparison, leading: Sequence[Contrast]) -> Markup:
    """Return the differences that the claim speaks of, all at one scale."""
    axis = _axis(leading)
    by_data: dict[str, list[Contrast]] = {}
    for each in leading:
        by_data.setdefault(each.data, []).append(each)
    panels = [
        Panel(data_title(data), [_row(comparison, each, axis) for each in found])
        for data, found in by_data.items()
    ]
    measure, base = leading[0].measure, leading[0].base.label
    last = panels[-1]
    unit = measure.unit or measure.title
    panels[-1] = Panel(last.title, last.rows, _ticks(axis), unit)
    caption = (
        f"Each method less {base}, ensemble by ensemble with the same seeds. Large "
        "mark and line: mean and 95 % interval; small marks: every pair. An interval "
        "that crosses the zero line leaves open which method is ahead; a thick line "
        f"and a bold number do not cross it{_better(measure)}."
    )
    title = f"{opening(measure.name)}: difference to {base}"
    return figure(title, caption, row_panels(panels))


def contrast_figure(comparison: Comparison, found: Sequence[Contrast]) -> Markup:
    """Return the differences in all measures, each at a scale of its own."""
    by_data: dict[str, dict[str, list[Contrast]]] = {}
    for each in found:
        measures = by_data.setdefault(each.data, {})
        measures.setdefault(each.measure.score, []).append(each)
    body = [
        blocks(
            data_title(data),
            [_panel(comparison, group) for group in measures.values()],
            place == 0 or len(found) <= LONG,
        )
        for place, (data, measures) in enumerate(by_data.items())
    ]
    base = found[0].base.label
    caption = (
        f"Each method less {base}, paired by shared seeds: mean (large), every pair of "
        "ensembles (small), 95 % interval. Bold numbers and thick lines do not cross "
        "zero. Each measure has its own scale, and zero is in one line for all."
    )
    return figure(f"Differences to {base}", caption, *body, kind="diffs")


def _panel(comparison: Comparison, found: Sequence[Contrast]) -> Panel:
    measure, axis = found[0].measure, _axis(found)
    better = f"{measure.better} is better" if measure.better else ""
    rows = [_row(comparison, each, axis) for each in found]
    small = ", ".join(filter(None, [measure.unit, better]))
    return Panel(opening(measure.name), rows, _ticks(axis), small=small)


def _row(comparison: Comparison, each: Contrast, axis: Axis) -> Row:
    place = [m.label for m in comparison.methods].index(each.method.label)
    own, found, measure = look(place), each.found, each.measure
    digits = 1 if measure.percent else measure.digits
    kind = f"{own.kind} interval{' apart' if found.apart else ''}"
    shapes: list[Shape] = [
        Line(axis(0), 0, axis(0), HEIGHT, "zero"),
        Line(axis(found.low), 9, axis(found.high), 9, kind),
        *(
            Line(axis(end), 5, axis(end), 13, f"{own.kind} interval")
            for end in (found.low, found.high)
        ),
    ]
    pairs = gaps(each.method, each.base, measure.read(each.data))
    shapes += [Mark(own, axis(gap), 22, "small") for gap in pairs]
    shapes.append(Mark(own, axis(found.mean), 9))
    both = ends(found.low, found.high, digits, sign=True)
    mean = number(found.mean, digits, sign=True)
    said = (
        f"{opening(measure.name)} on {data_name(each.data)} data, {each.method.label} "
        f"less {each.base.label}: {mean} {measure.unit}".rstrip()
    )
    said += f", 95 % interval {both}, {'apart from' if found.apart else 'across'} zero."
    plot = Plot(HEIGHT, shapes, said)
    return Row(own, each.method.label, plot, mean, [f"({both})"], bold=found.apart)


def _axis(found: Sequence[Contrast]) -> Axis:
    edge = 1.08 * max(max(abs(c.found.low), abs(c.found.high)) for c in found)
    return Axis(-edge or -1.0, edge or 1.0)


def _ticks(axis: Axis) -> Plot:
    shapes: list[Shape] = [Line(axis(0), 0, axis(0), 4, "zero")]
    ticks = axis.ticks(5, sign=True).items()
    return Plot(20, [*shapes, *(Words(axis(t), 15, said) for t, said in ticks)])


def _better(measure: Measure) -> str:
    sides = {"higher": "right", "lower": "left"}
    return f". Better lies to the {sides[measure.better]}" if measure.better else ""
