"""Is the ensemble better than one network: members, ensembles, and the gain."""

import math

from markupsafe import Markup

from tepui.evaluation.dead_members import dead_members
from tepui.report.comparison import Comparison, MethodResult
from tepui.report.contrasts import Contrast, contrasts_of, hints_of
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
    Mark,
    Panel,
    Plot,
    Row,
    Shape,
    grid_lines,
    look,
    whiskers,
)
from tepui.report.trust import hardest
from tepui.report.wording import number, opening
from tepui.tasks.base import Losses

HEIGHT = 36
GUESS = "always naming the most frequent class"
LEAST_SPAN = 4  # points that an axis of accuracies shows
ALONE = {ACCURACY.score: OWN_ACCURACY, RMSE.score: OWN_RMSE}


def gain_sentence(comparison: Comparison) -> str:
    """Return whether the first method's ensemble is better than one of its members."""
    whole, base = leading_measure(comparison), comparison.methods[0]
    alone, unit = ALONE.get(whole.score), " %" if whole.percent else ""
    data = hardest(kinds(comparison))
    score = number(whole.of(base, data).mean, whole.coarse)
    on = f"on {data_name(data)} data"
    if alone is None:
        return f"{base.label}'s {whole.name} is {score}{unit} {on}."
    mean = number(alone.of(base, data).mean, whole.coarse)
    said = f"{on} {base.label}'s {whole.name} is {score}{unit}, "
    said += f"one member's {mean}{unit}"
    known = {(each.label, each.data): each for each in contrasts_of(comparison, "gain")}
    if (each := known.get((base.label, data))) is None:
        return f"{opening(said)}."
    better = (each.found.low > 0) != (whole.better == "lower")
    answer = "Yes" if better else "No"
    if each.hint:
        answer = f"Probably {'not' * (not better)}" if each.apart else "Not shown"
    return f"{answer.strip()}: {said}: {each.size} ({each.interval})."


def failures(comparison: Comparison) -> list[str]:
    """Return which ensembles a guess could equal, and which members did not learn."""
    said = []
    for method in comparison.methods:
        found = [each.evaluation for each in method.ensembles]
        if all(e["clean"].get("accuracy", 1) <= e.get("majority", -1) for e in found):
            said.append(f"{method.label} is no better than {GUESS} on clean data.")
        for place, trained in enumerate(method.ensembles, 1):
            losses = trained.evaluation["clean"].get("member_nlls")
            if losses and None not in losses and "classes" in trained.evaluation:
                guess = math.log(trained.evaluation["classes"])
                for member in dead_members(Losses(losses, guess)):
                    who = f"Member {member} of {method.label}'s ensemble {place}"
                    said.append(f"{who} may not have learned.")
    return said


def scores_figure(comparison: Comparison) -> Markup:
    """Return a panel per kind of data with a row per method."""
    whole = leading_measure(comparison)
    panels = [_panel(comparison, whole, data) for data in kinds(comparison)]
    caption = (
        "From hollow to filled: from one member on its own to the ensemble. The line "
        "with ends is the 95 % interval of that change over seeds and test samples. "
        f"Each panel has its own axis.{hints_of(contrasts_of(comparison, 'gain'))}"
    )
    return figure(opening(whole.name), caption, row_panels(panels))


def _panel(comparison: Comparison, whole: Measure, data: str) -> Panel:
    alone = ALONE.get(whole.score)
    gains = {(each.label, each.data): each for each in contrasts_of(comparison, "gain")}
    every = []
    for method in comparison.methods:
        score = whole.of(method, data).mean
        every.append(score)
        if alone is not None:
            member = alone.of(method, data).mean
            every.append(member)
            if (gain := gains.get((method.label, data))) is not None:
                every += [member + gain.found.low, member + gain.found.high]
    numbers = [value for value in every if math.isfinite(value)]
    low, high = min(numbers, default=0), max(numbers, default=1)
    least = LEAST_SPAN if whole.percent else 0
    room = max(0.04 * (high - low), (least - (high - low)) / 2) or 0.5
    top = min(100, high + room) if whole.percent else high + room
    axis = Axis(max(0, low - room), top)
    rows = [
        _row(place, method, (whole, alone), gains.get((method.label, data)), data, axis)
        for place, method in enumerate(comparison.methods)
    ]
    unit = "accuracy, %" if whole is ACCURACY else whole.heading
    return Panel(data_title(data), rows, axis.plot(), unit)


def _row(
    place: int,
    method: MethodResult,
    measures: tuple[Measure, Measure | None],
    gain: Contrast | None,
    data: str,
    axis: Axis,
) -> Row:
    whole, alone = measures
    own, digits, unit = look(place), whole.coarse, " %" if whole.percent else ""
    score = whole.of(method, data).mean
    shapes: list[Shape] = [*grid_lines(axis, HEIGHT)]
    value, notes = number(score, digits), []
    if alone is not None:
        member = alone.of(method, data).mean
        if gain is not None:
            low, high = member + gain.found.low, member + gain.found.high
            if math.isfinite(low):
                low, high = max(low, axis.low), min(high, axis.high)
            shapes += whiskers(axis, low, high, 18, f"{own.kind} interval")
            notes = [" ".join([gain.size, *(f"({each})" for each in gain.notes)])]
        shapes.append(Line(axis(member), 18, axis(score), 18, f"{own.kind} gain"))
        shapes.append(Mark(own, axis(member), 18, "big", "hollow"))
        value = f"{number(member, digits)} → {value}"
    if math.isfinite(score):
        shapes.append(Mark(own, axis(score), 18))
    value += unit
    said = f"{method.label}, {data_name(data)} data: {', '.join([value, *notes])}."
    return Row(own, method.label, Plot(HEIGHT, shapes, said), value, notes)
