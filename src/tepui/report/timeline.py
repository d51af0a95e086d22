"""Where the wall-clock of training went."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from markupsafe import Markup

from tepui.report.loading import Group
from tepui.report.markup import (
    TableCell,
    figure,
    part,
    row_panels,
    table,
)
from tepui.report.shapes import (
    Axis,
    Box,
    Panel,
    Plot,
    Row,
    Shape,
    axis_plot,
    grid_lines,
    look,
)
from tepui.report.tables import interval_cell
from tepui.report.wording import number
from tepui.studies import estimate, mean_interval
from tepui.training.timeline import ACTIVITIES, Activity, Timeline, in_words

Timelines = Mapping[str, Timeline]

SMALLEST = 0.01  # share of a bar below which a part of it is not told apart
# Colors of the style sheet, full or pale: no two activities share both.
LOOKS: dict[Activity, str] = {
    "preparing": "solid k4",
    "restoring": "pale k3",
    "scoring": "solid k1",
    "exchanging": "pale k1",
    "capturing": "solid k2",
    "stepping": "solid k0",
    "validating": "pale k0",
    "saving": "solid k5",
    "finishing": "pale k4",
    "other": "rest",
}


def timeline_parts(group: Group) -> list[Markup]:
    """Return pictures and a table of where time went; nothing where it is unknown."""
    found = {
        entry.result.label: [each.timeline for each in entry.outcomes if each.timeline]
        for entry in group.entries
    }
    known = {label: mean_timeline(own) for label, own in found.items() if own}
    if not known:
        return []
    return [activity_figure(known, [*found]), seconds_table(found)]


def mean_timeline(timelines: Sequence[Timeline]) -> Timeline:
    """Return the mean seconds of each activity.

    Example:
        >>> mean_timeline([{"stepping": 3.0}, {"stepping": 1.0, "saving": 1.0}])
        {'stepping': 2.0, 'saving': 0.5}
    """
    took_place = [a for a in ACTIVITIES if any(a in each for each in timelines)]
    return {a: fmean(each.get(a, 0.0) for each in timelines) for a in took_place}


def activity_figure(timelines: Timelines, labels: Sequence[str]) -> Markup:
    """Return one bar per method, in parts as long as its activities took."""
    spent = [*timelines.values()]
    longest = max(sum(parts.values()) for parts in spent)
    apart, axis = told_apart(spent, longest), Axis(0, longest)
    rows = []
    for place, (label, timeline) in enumerate(timelines.items()):
        shapes: list[Shape] = [*grid_lines(axis, axis.ticks(), 36)]
        left = 0.0
        for activity, seconds in apart.items():
            width = axis(seconds[place])
            shapes += [Box(axis(left), 8, width, 20, LOOKS[activity])] if width else []
            left += seconds[place]
        words = in_words(timeline)
        own = look(labels.index(label))
        total, _, _ = words.partition(":")
        rows.append(Row(own, label, Plot(36, shapes, f"{label}: {words}."), total))
    caption = (
        "Where the time of training one ensemble went, from its beginning to its end, "
        "mean over ensembles."
    )
    panel = Panel("", rows, axis_plot(axis), "seconds")
    return figure("Time by activity", caption, _legend(apart), row_panels([panel]))


def _legend(activities: Mapping[Activity, object]) -> Markup:
    return part(
        "legend", [(look, each) for each, look in LOOKS.items() if each in activities]
    )


def seconds_table(found: Mapping[str, Sequence[Timeline]]) -> Markup:
    """Return the seconds of every activity."""
    took_place = {name for spent in found.values() for line in spent for name in line}
    shown = [activity for activity in ACTIVITIES if activity in took_place]
    rows: list[list[str | TableCell]] = []
    for label, spent in found.items():
        parts = [[line.get(activity, 0.0) for line in spent] for activity in shown]
        means = [number(estimate(part).mean, 3) for part in parts]
        whole = mean_interval(sum(line.values()) for line in spent).within()
        rows.append([label, *means, interval_cell(whole, 3)])
    caption = "Seconds of training one ensemble, means; of all with a 95 % interval"
    return table(caption, ["method", *shown, "all"], rows)


def told_apart(
    spent: Sequence[Mapping[Activity, float]], longest: float
) -> dict[Activity, list[float]]:
    """Return the seconds of each activity, small ones joined to the others.

    Example:
        >>> told_apart([{"saving": 0.1, "stepping": 99.9}, {"stepping": 50.0}], 100.0)
        {'stepping': [99.9, 50.0], 'other': [0.1, 0.0]}
    """
    parts = {name: [part.get(name, 0.0) for part in spent] for name in ACTIVITIES}
    found: dict[Activity, list[float]] = {}
    other = parts.pop("other")
    for name, seconds in parts.items():
        if max(seconds) >= SMALLEST * longest:
            found[name] = seconds
        else:
            other = _sums(other, seconds)
    return found | ({"other": other} if any(other) else {})


def _sums(first: Sequence[float], second: Sequence[float]) -> list[float]:
    return [sum(pair) for pair in zip(first, second, strict=True)]
