"""Where the wall-clock of training went: by activity, and epoch by epoch."""

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from tepui.report.loading import Entry, Group
from tepui.report.markup import (
    Multiple,
    TableCell,
    figure,
    multiples,
    part,
    row_panels,
    table,
)
from tepui.report.shapes import (
    Axis,
    Box,
    Line,
    Panel,
    Plot,
    Row,
    Shape,
    Trace,
    Words,
    axis_plot,
    grid_lines,
    look,
)
from tepui.report.tables import interval_cell
from tepui.report.wording import number
from tepui.studies import estimate, mean_interval
from tepui.training import Span
from tepui.training.timeline import ACTIVITIES, Activity, by_activity, in_words

Timelines = Mapping[str, Sequence[Span]]

SMALLEST = 0.01  # share of a bar below which a part of it is not told apart
HEIGHT, TOP, BOTTOM = 130, 8, 96  # of the strip of a method's epochs
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
    timelines = {entry.result.label: mean_timeline(entry) for entry in group.entries}
    known = {label: timeline for label, timeline in timelines.items() if timeline}
    if not known:
        return []
    return [
        activity_figure(known, [*timelines]),
        epoch_figure(known),
        seconds_table(group),
    ]


def activity_figure(timelines: Timelines, labels: Sequence[str]) -> Markup:
    """Return one bar per method, in parts as long as its activities took."""
    spent = [by_activity(timeline) for timeline in timelines.values()]
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


def epoch_figure(timelines: Timelines) -> Markup:
    """Return the seconds of every epoch, a picture per method, all at one scale."""
    spent = {label: by_epoch(timeline) for label, timeline in timelines.items()}
    longest = max(sum(parts.values()) for epochs in spent.values() for parts in epochs)
    most = max(map(len, spent.values()))
    found: dict[Activity, None] = {}
    items = []
    for label, timeline in timelines.items():
        parts = told_apart(spent[label], longest)
        found |= dict.fromkeys(parts)
        items.append(Multiple(label, _strip(label, timeline, parts, longest, most)))
    caption = (
        "Seconds of each epoch; a dashed line marks where members score data for each "
        "other and their sets change. What goes before the first epoch and after the "
        "last is not drawn."
    )
    return figure("Time by epoch", caption, _legend(found), multiples(items, "two"))


def _strip(
    label: str,
    timeline: Sequence[Span],
    parts: Mapping[Activity, list[float]],
    longest: float,
    most: int,
) -> Plot:
    """Return the activities of each epoch, stacked, steps first."""
    across, up = Axis(0, most, 12, 100), Axis(0, 1.05 * longest or 1, BOTTOM, TOP)
    shapes: list[Shape] = []
    for tick, said in up.ticks(3).items():
        shapes.append(Line(12, up(tick), 100, up(tick), "grid"))
        shapes.append(Words(0, up(tick) + 4, said, anchor="start"))
    epochs = max(map(len, parts.values()), default=0)
    below = [0.0] * epochs
    for activity in sorted(parts, key=lambda activity: activity != "stepping"):
        above = _sums(below, parts[activity])
        points = [*_steps(above, across, up), *reversed(_steps(below, across, up))]
        shapes.append(Trace(points, LOOKS[activity], closed=True))
        below = above
    for epoch in exchanges(timeline):
        shapes.append(Line(across(epoch), TOP, across(epoch), BOTTOM, "switch"))
    ticks = across.ticks(min(5, most)).items()
    shapes += [Words(across(t), 112, said) for t, said in ticks]
    shapes.append(Words(12, 127, "epoch; seconds upwards", anchor="start"))
    said = f"Seconds of every epoch of {label}: {switch_in_words(timeline)}."
    return Plot(HEIGHT, shapes, said)


def _steps(
    heights: Sequence[float], across: Axis, up: Axis
) -> list[tuple[float, float]]:
    return [
        (across(epoch + side), up(height))
        for epoch, height in enumerate(heights)
        for side in (0, 1)
    ]


def _legend(activities: Mapping[Activity, object]) -> Markup:
    return part(
        "legend", [(look, each) for each, look in LOOKS.items() if each in activities]
    )


def mean_timeline(entry: Entry) -> tuple[Span, ...]:
    """Return the mean timeline of a method's ensembles that have one."""
    timelines = [timeline for timeline in entry.timelines if timeline]
    spent: dict[tuple[Activity, int | None], float] = {}
    for timeline in timelines:
        for span in timeline:
            key = (span.activity, span.epoch)
            spent[key] = spent.get(key, 0.0) + span.seconds / len(timelines)
    return tuple(Span(*key, seconds) for key, seconds in spent.items())


def exchanges(timeline: Sequence[Span]) -> list[int]:
    """Return the epochs before which members scored data for each other."""
    scored = {span.epoch for span in timeline if span.activity == "scoring"}
    return sorted(epoch for epoch in scored if epoch is not None)


def switch_in_words(timeline: Sequence[Span]) -> str:
    """Return when members scored data for each other, and what that cost.

    Example:
        >>> switch_in_words([Span("scoring", 5, 2.0), Span("capturing", 5, 1.0)])
        'exchange before epoch 5 (scoring 2.0 s, capturing 1.0 s)'
    """
    epochs = exchanges(timeline)
    if not epochs:
        return "no exchange"
    counted: tuple[Activity, ...] = ("scoring", "exchanging", "capturing")
    spent = by_activity(s for s in timeline if s.epoch in epochs)
    costs = [f"{name} {spent[name]:.1f} s" for name in counted if spent.get(name)]
    first, *others = epochs
    more = f" and {len(others)} more" if others else ""
    return f"exchange before epoch {first}{more} ({', '.join(costs)})"


def seconds_table(group: Group) -> Markup:
    """Return the seconds of every activity."""
    found = {
        entry.result.label: [by_activity(line) for line in entry.timelines if line]
        for entry in group.entries
    }
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


def by_epoch(timeline: Sequence[Span]) -> list[dict[Activity, float]]:
    """Return the seconds of each activity for every epoch."""
    last = max((span.epoch for span in timeline if span.epoch is not None), default=0)
    spans: list[list[Span]] = [[] for _ in range(last + 1)]
    for span in timeline:
        if span.epoch is not None:
            spans[span.epoch].append(span)
    return [by_activity(of_epoch) for of_epoch in spans]


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
