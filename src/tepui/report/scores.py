"""Members and ensembles in dots: every ensemble, the mean and its interval."""

import math
from collections.abc import Sequence

from markupsafe import Markup

from tepui.report.comparison import Comparison, MethodResult, Trained
from tepui.report.contrasts import interval_of
from tepui.report.markup import figure, row_panels
from tepui.report.measures import (
    ACCURACY,
    OWN_ACCURACY,
    OWN_RMSE,
    RMSE,
    Measure,
    data_name,
    data_title,
    kinds,
    leading_measure,
)
from tepui.report.shapes import (
    Axis,
    Line,
    Look,
    Mark,
    Panel,
    Plot,
    Row,
    Shape,
    Size,
    grid_lines,
    look,
    whiskers,
)
from tepui.report.wording import ends, number, opening, role

LEAST_SPAN = 4  # points that an axis of accuracies shows
ALONE = {ACCURACY.score: OWN_ACCURACY, RMSE.score: OWN_RMSE}


def gain_sentence(comparison: Comparison) -> str:
    """Return the first method's leading score, and that against one of its members."""
    whole, base = leading_measure(comparison), comparison.methods[0]
    alone = ALONE.get(whole.score)
    score = number(whole.of(base, "clean").mean, whole.digits)
    unit = " %" if whole.percent else ""
    said = f"{base.label}'s {whole.name} is {score}{unit} on clean data"
    if alone is None:
        return f"{said}."

    def gain(trained: Trained) -> float | None:
        both = whole.read("clean")(trained), alone.read("clean")(trained)
        return None if both[0] is None or both[1] is None else both[0] - both[1]

    found = interval_of(base, gain, whole.step("clean", base))
    both = ends(found.low, found.high, whole.coarse, sign=True)
    known = f"95 % interval {both}" if found.count > 1 else "one ensemble, no interval"
    mean = number(found.mean, whole.coarse, sign=True)
    points = f" {whole.unit}" if whole.unit else ""
    return f"{said}, {mean}{points} against one member ({known})."


def scores_figure(comparison: Comparison) -> Markup:
    """Return a panel per kind of data with a row per method."""
    whole = leading_measure(comparison)
    panels = [_panel(comparison, whole, data) for data in kinds(comparison)]
    caption = (
        "Filled: the ensemble. Hollow: its members on their own. Large: means and 95 % "
        "intervals. Small: single ensembles. Each panel has its own axis."
    )
    return figure(opening(whole.name), caption, row_panels(panels))


def _panel(comparison: Comparison, whole: Measure, data: str) -> Panel:
    measures = [whole, *filter(None, [ALONE.get(whole.score)])]
    every = [
        value
        for method in comparison.methods
        for measure in measures
        for value in map(measure.read(data), method.ensembles)
    ]
    intervals = [whole.of(method, data) for method in comparison.methods]
    every += [end for each in intervals for end in (each.low, each.high)]
    numbers = [value for value in every if value is not None and math.isfinite(value)]
    low, high = min(numbers, default=0), max(numbers, default=1)
    least = LEAST_SPAN if whole.percent else 0
    room = max(0.04 * (high - low), (least - (high - low)) / 2) or 0.5
    top = min(100, high + room) if whole.percent else high + room
    axis = Axis(max(0, low - room), top)
    rows = [
        _row(place, method, measures, data, axis, role(place, len(comparison.methods)))
        for place, method in enumerate(comparison.methods)
    ]
    unit = "accuracy, %" if whole is ACCURACY else whole.heading
    return Panel(data_title(data), rows, axis.plot(), unit)


def _row(
    place: int,
    method: MethodResult,
    measures: Sequence[Measure],
    data: str,
    axis: Axis,
    under: str,
) -> Row:
    own, whole, several = look(place), measures[0], len(method.ensembles) > 1
    found = whole.of(method, data)
    height = 32 + (10 * len(method.ensembles) if several else 0)
    shapes: list[Shape] = [*grid_lines(axis, height)]
    shapes += whiskers(
        axis, found.low, found.high, 16, f"{own.kind} interval", whole.limits
    )
    members = measures[1].of(method, data).mean if measures[1:] else None
    shapes += _pair(own, axis, [found.mean, members], 16, "big")
    for line, trained in enumerate(method.ensembles if several else ()):
        values = [measure.read(data)(trained) for measure in measures]
        shapes += _pair(own, axis, values, 36 + 10 * line, "small")
    digits, unit = whole.coarse, " %" if whole.percent else ""
    value, notes = f"{number(found.mean, digits)}{unit}", []
    if not math.isnan(found.low):
        notes.append(ends(found.low, found.high, digits))
    if members is not None:
        gain = number(found.mean - members, digits, sign=True)
        notes.append(f"members {number(members, digits)}, change {gain}")
    said = f"{method.label}, {data_name(data)} data: {'; '.join([value, *notes])}."
    return Row(own, method.label, Plot(height, shapes, said), value, notes, under=under)


def _pair(
    own: Look, axis: Axis, values: Sequence[float | None], y: float, size: Size
) -> list[Shape]:
    """Return marks of an ensemble and its members, joined by what averaging changes."""
    known = [v for v in values if v is not None and math.isfinite(v)]
    shapes: list[Shape] = []
    if len(known) == 2:
        kind = f"{own.kind} {'gain' if size == 'big' else 'thin'}"
        shapes.append(Line(axis(known[1]), y, axis(known[0]), y, kind))
        shapes.append(Mark(own, axis(known[1]), y, size, "hollow"))
    return [*shapes, *(Mark(own, axis(value), y, size) for value in known[:1])]
