"""Where the wall-clock of training went: by activity, and epoch by epoch."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tepui.report.drawing import COLORS, grid, legend_below
from tepui.report.markup import Drawing, table
from tepui.report.tables import Column, cell
from tepui.studies import estimate
from tepui.studies.load_reports import Entry, Group
from tepui.training import Span
from tepui.training.timeline import ACTIVITIES, Activity, by_activity, in_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Timelines = Mapping[str, Sequence[Span]]

BLUE, ORANGE, GREEN, PINK, YELLOW, SKY, _ = COLORS
GRAY = "#999999"
SECONDS = Column("seconds", "seconds")
SMALLEST = 0.01  # share of a bar below which a part of it is not told apart
# Told apart by their hatching as well.
LOOKS: dict[Activity, tuple[str, str]] = {
    "preparing": (YELLOW, ""),
    "restoring": (YELLOW, "//"),
    "scoring": (ORANGE, ""),
    "exchanging": (ORANGE, "//"),
    "capturing": (GREEN, "\\\\"),
    "stepping": (BLUE, ""),
    "validating": (SKY, ".."),
    "saving": (PINK, "xx"),
    "finishing": (YELLOW, "\\\\"),
    "other": (GRAY, ""),
}


def timeline_parts(group: Group) -> list[str | Drawing]:
    """Return pictures and a table of where time went; nothing where it is unknown."""
    timelines = {entry.result.label: mean_timeline(entry) for entry in group.entries}
    known = {label: timeline for label, timeline in timelines.items() if timeline}
    if not known:
        return []
    shares = "; ".join(f"{label}: {in_words(known[label])}" for label in known)
    epochs = "; ".join(f"{label}: {switch_in_words(known[label])}" for label in known)
    return [
        Drawing(
            "timeline",
            f"Bars of the seconds that training took. {shares}.",
            "Where the time of training one ensemble went, from its beginning to its "
            "end, mean over ensembles.",
            activity_bars(known),
        ),
        Drawing(
            "timeline-epochs",
            f"Seconds of every epoch. {epochs}.",
            "Seconds of each epoch; a dashed line marks where members score data for "
            "each other and their sets change. What goes before the first epoch and "
            "after the last is not drawn.",
            epoch_strips(known),
        ),
        seconds_table(group),
    ]


def mean_timeline(entry: Entry) -> tuple[Span, ...]:
    """Return the mean timeline of a method's ensembles that have one."""
    timelines = [timeline for timeline in entry.timelines if timeline]
    spent: dict[tuple[Activity, int | None], float] = {}
    for timeline in timelines:
        for span in timeline:
            key = (span.activity, span.epoch)
            spent[key] = spent.get(key, 0.0) + span.seconds / len(timelines)
    return tuple(Span(*key, seconds) for key, seconds in spent.items())


def activity_bars(timelines: Timelines) -> "Figure":
    """Draw one bar per method, in parts as long as its activities took."""
    figure, (axis,) = grid(1, size=(9.0, 1.2 + 0.65 * len(timelines)))
    spent = [by_activity(timeline) for timeline in timelines.values()]
    longest = max(sum(parts.values()) for parts in spent)
    left = [0.0] * len(spent)
    for activity, seconds in told_apart(spent, longest).items():
        axis.barh(range(len(spent)), seconds, 0.4, left, **_look(activity))
        left = _sums(left, seconds)
    for place, timeline in enumerate(timelines.values()):
        axis.annotate(in_words(timeline), (0, place - 0.24), va="bottom", fontsize=9)
    axis.set_yticks(range(len(timelines)), list(timelines))
    axis.set_ylim(len(timelines) - 0.7, -0.7)
    axis.set_xlabel("seconds")
    axis.grid(axis="y", visible=False)
    legend_below(figure, [axis])
    return figure


def epoch_strips(timelines: Timelines) -> "Figure":
    """Draw the seconds of every epoch in a panel per method, all at one scale."""
    figure, axes = grid(len(timelines), 1, size=(9.0, 2.2))
    spent = {label: by_epoch(timeline) for label, timeline in timelines.items()}
    longest = max(sum(parts.values()) for epochs in spent.values() for parts in epochs)
    for axis, (label, timeline) in zip(axes, timelines.items(), strict=True):
        _draw_strip(axis, spent[label], longest)
        for epoch in exchanges(timeline):
            axis.axvline(epoch, color="#000000", linestyle="--", linewidth=1)
        axis.set_title(f"{label}: {switch_in_words(timeline)}", fontsize=11)
        axis.set_ylabel("seconds")
    for axis in axes:
        axis.set_ylim(0, 1.05 * longest)
        axis.set_xlim(0, max(map(len, spent.values())))
    axes[-1].set_xlabel("epoch")
    legend_below(figure, axes)
    return figure


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


def seconds_table(group: Group) -> str:
    """Return the seconds of every activity, means and standard errors."""
    found = {
        entry.result.label: [by_activity(line) for line in entry.timelines if line]
        for entry in group.entries
    }
    took_place = {name for spent in found.values() for line in spent for name in line}
    shown = [activity for activity in ACTIVITIES if activity in took_place]
    rows = []
    for label, spent in found.items():
        parts = [[line.get(activity, 0.0) for line in spent] for activity in shown]
        parts.append([sum(line.values()) for line in spent])
        rows.append([label, *(cell(estimate(part), SECONDS) for part in parts)])
    return table("Seconds of training one ensemble", ["method", *shown, "all"], rows)


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


def _draw_strip(
    axis: "Axes", epochs: Sequence[Mapping[Activity, float]], longest: float
) -> None:
    """Stack the activities of each epoch, steps first."""
    parts = told_apart(epochs, longest)
    edges, below = [*range(len(epochs) + 1)], [0.0] * len(epochs)
    for activity in sorted(parts, key=lambda activity: activity != "stepping"):
        above = _sums(below, parts[activity])
        sides = [*below, below[-1]], [*above, above[-1]]
        axis.fill_between(edges, *sides, step="post", **_look(activity))
        below = above


def _sums(first: Sequence[float], second: Sequence[float]) -> list[float]:
    return [sum(pair) for pair in zip(first, second, strict=True)]


def _look(activity: Activity) -> dict[str, Any]:
    color, hatch = LOOKS[activity]
    look = {"facecolor": color, "hatch": hatch, "edgecolor": "#ffffff"}
    return {**look, "linewidth": 0, "label": activity}
