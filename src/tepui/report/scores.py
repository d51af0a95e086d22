"""Members and ensembles in dots: every ensemble, the mean and its interval."""

import math
from collections.abc import Sequence

from markupsafe import Markup

from tepui.data.shifts import NATURAL
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
    axis_plot,
    grid_lines,
    look,
)
from tepui.report.wording import DASH, ends, listed, number, opening, role, span, word
from tepui.studies import Interval

LEAST_SPAN = 4  # points that an axis of accuracies shows
ALONE = {ACCURACY.score: OWN_ACCURACY, RMSE.score: OWN_RMSE}


def scores_lead(comparison: Comparison) -> str:
    """Return the gain from averaging members, with its intervals, in a sentence."""
    whole = leading_measure(comparison)
    alone = ALONE.get(whole.score)
    if alone is None:
        return f"Mean {whole.name} of the ensembles on each kind of data."
    said = []
    for data in kinds(comparison):
        gains = [_gain(method, whole, alone, data) for method in comparison.methods]
        words = gain_in_words([gain.mean for gain in gains], whole)
        said.append(f"{words} on {data_name(data)} data ({_reach(gains, whole)})")
    members = {m.ensembles[0].evaluation["members"] for m in comparison.methods}
    who = "members"
    if len(members) == 1:
        (count,) = members
        who = f"{word(count)} {'member' if count == 1 else 'members'}"
    return f"Averaging {who} {listed(said)}."


def _gain(method: MethodResult, whole: Measure, alone: Measure, data: str) -> Interval:
    """Return the gain of a method's ensembles over their members; above 0 is better."""
    sign = 1 if whole.better == "higher" else -1

    def gain(trained: Trained) -> float | None:
        together, single = (each.read(data)(trained) for each in (whole, alone))
        if together is None or single is None:
            return None
        return sign * (together - single)

    return interval_of(method, gain, whole.step(data, method))


def _reach(gains: Sequence[Interval], whole: Measure) -> str:
    """Return the ends of all methods' intervals."""
    lows = [gain.low for gain in gains if gain.count > 1]
    highs = [gain.high for gain in gains if gain.count > 1]
    if not lows:
        return "no interval from one ensemble"
    digits = 1 if whole.percent else whole.digits
    each = "95 % interval" if len(gains) == 1 else "95 % intervals within"
    return f"{each} {ends(min(lows), max(highs), digits, sign=True)}"


def gain_in_words(gains: Sequence[float], whole: Measure) -> str:
    """Return what averaging does to a measure, over all methods, as a verb says it.

    Example:
        >>> gain_in_words([0.41, 0.8], ACCURACY), gain_in_words([-0.7], ACCURACY)
        ('gains 0.4 to 0.8 points of accuracy', 'costs 0.7 points of accuracy')
        >>> gain_in_words([-0.02], RMSE), gain_in_words([0.0], RMSE)
        ('raises the error by 0.020', 'gains nothing')
    """
    digits = 1 if whole.percent else whole.digits
    known = [gain for gain in gains if math.isfinite(gain)]
    told = [gain for gain in known if float(f"{gain:.{digits}f}")]
    if not told:
        return "gains nothing" if known else "has an effect that is not known"
    gained, lost, unit = "gains", "costs", " points of accuracy"
    if not whole.percent:
        gained, lost, unit = "lowers the error by", "raises the error by", ""
    if min(told) < 0 < max(told):
        worst, best = (number(abs(end), digits) for end in (min(told), max(told)))
        return f"{lost} up to {worst} or {gained} up to {best}{unit}, by the method,"
    verb = gained if told[0] > 0 else lost
    return f"{verb} {span([*map(abs, known)], digits)}{unit}"


def scores_figure(comparison: Comparison) -> Markup:
    """Return a panel per kind of data with a row per method."""
    whole = leading_measure(comparison)
    panels = [_panel(comparison, whole, data) for data in kinds(comparison)]
    alone = whole.score in ALONE
    caption = (
        "Filled: the ensemble. Hollow: its members on their own. The line between them "
        "is what averaging changes. "
        if alone
        else ""
    )
    if any(len(method.ensembles) > 1 for method in comparison.methods):
        caption += (
            "Large marks are means over ensembles with their 95 % interval, which ends "
            "where the score does; small marks are single ensembles, in the same order "
            "of seeds for every method. "
        )
    caption += "The axes differ. " if len(panels) > 1 else ""
    caption += f"Tested on {_tested(comparison)}."
    title = f"{opening(whole.name)}, with members on their own" if alone else whole.name
    return figure(opening(title), caption, row_panels(panels))


def _panel(comparison: Comparison, whole: Measure, data: str) -> Panel:
    alone = ALONE.get(whole.score)
    found = [(m, whole.of(m, data)) for m in comparison.methods]
    every = [
        value
        for method in comparison.methods
        for measure in filter(None, (whole, alone))
        for value in _known(method, measure, data)
    ]
    every += [end for _, each in found for end in (each.low, each.high)]
    numbers = [value for value in every if not math.isnan(value)]
    low, high = min(numbers, default=0), max(numbers, default=1)
    least = LEAST_SPAN if whole.percent else 0
    room = max(0.04 * (high - low), (least - (high - low)) / 2) or 0.5
    top = min(100, high + room) if whole.percent else high + room
    axis = Axis(max(0, low - room), top)
    rows = [
        _row(place, method, each, whole, alone, data, axis, role(place, len(found)))
        for place, (method, each) in enumerate(found)
    ]
    unit = f"{whole.title}, %" if whole.percent else whole.title
    if whole is ACCURACY:
        unit = "accuracy, %"
    return Panel(data_title(data), rows, axis_plot(axis), unit)


def _row(
    place: int,
    method: MethodResult,
    found: Interval,
    whole: Measure,
    alone: Measure | None,
    data: str,
    axis: Axis,
    under: str,
) -> Row:
    own = look(place)
    digits = 1 if whole.percent else whole.digits
    unit = " %" if whole.percent else ""
    joint = [whole.read(data)(t) for t in method.ensembles]
    single = [alone.read(data)(t) if alone else None for t in method.ensembles]
    several = len(joint) > 1
    height = 32 + 10 * len(joint) if several else 32
    shapes: list[Shape] = [*grid_lines(axis, axis.ticks(), height)]
    shapes += _interval(own, found, whole, axis)
    members = alone.of(method, data).mean if alone else None
    shapes += _pair(own, axis, members, found.mean, 16, "big")
    for number_of, both in enumerate(
        zip(single, joint, strict=True) if several else ()
    ):
        shapes += _pair(own, axis, *both, 36 + 10 * number_of, "small")
    known = [number(value, digits) for value in joint if value is not None]
    said = f"{method.label}, {data_name(data)} data: {listed(known or [DASH])}{unit}"
    notes = []
    if not math.isnan(found.low):
        both_ends = ends(found.low, found.high, digits)
        said += f", mean {number(found.mean, digits)}{unit}"
        said += f", 95 % interval {both_ends}{unit}"
        notes.append(both_ends)
    if members is not None:
        said += f"; members {number(members, digits)}{unit}"
        gain = number(found.mean - members, digits, sign=True)
        notes.append(f"members {number(members, digits)}, change {gain}")
    value = f"{number(found.mean, digits)}{unit}"
    drawn = Plot(height, shapes, f"{said}.")
    return Row(own, method.label, drawn, value, notes, bold=False, under=under)


def _pair(
    own: Look,
    axis: Axis,
    single: float | None,
    joint: float | None,
    y: float,
    size: Size,
) -> list[Shape]:
    shapes: list[Shape] = []
    if joint is None or math.isnan(joint):
        return shapes
    if single is not None and not math.isnan(single):
        kind = f"{own.kind} {'gain' if size == 'big' else 'thin'}"
        shapes.append(Line(axis(single), y, axis(joint), y, kind))
        shapes.append(Mark(own, axis(single), y, size, "hollow"))
    return [*shapes, Mark(own, axis(joint), y, size)]


def _interval(own: Look, found: Interval, whole: Measure, axis: Axis) -> list[Shape]:
    if math.isnan(found.low):
        return []
    kind = f"{own.kind} interval"
    shapes: list[Shape] = [Line(axis(found.low), 16, axis(found.high), 16, kind)]
    shapes += [
        Line(axis(end), 11, axis(end), 21, kind)
        for end in (found.low, found.high)
        if end not in whole.limits  # an interval that is cut has no end
    ]
    return shapes


def _known(method: MethodResult, measure: Measure, data: str) -> Sequence[float]:
    values = (measure.read(data)(trained) for trained in method.ensembles)
    return [value for value in values if value is not None]


def _tested(comparison: Comparison) -> str:
    first = comparison.methods[0].ensembles[0].evaluation
    copies = sum(cell["severity"] != NATURAL for cell in first["cells"])
    more = f" and {copies} corrupted copies of them" if copies else ""
    return f"{first['samples']} samples{more}"
