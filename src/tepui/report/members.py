"""What a page says of members one by one."""

from collections.abc import Iterator, Sequence
from statistics import median

from markupsafe import Markup

from tepui.report.comparison import MethodResult
from tepui.report.loading import Group
from tepui.report.markup import figure, folded, lead, row_panels, table
from tepui.report.shapes import (
    Axis,
    Mark,
    Panel,
    Plot,
    Row,
    Shape,
    axis_plot,
    grid_lines,
    look,
)
from tepui.report.wording import DASH, number

# What there is of each member, and how its column is headed.
TITLES = {
    "member_accuracies": "accuracy %",
    "member_nlls": "NLL",
    "member_rmses": "RMSE",
    "member_distances": "distance from the others",
}


def members_parts(group: Group) -> list[Markup]:
    """Return every member's first score in dots, and all of them in a table."""
    first = group.entries[0].result.ensembles[0].evaluation["clean"]
    names = [name for name in TITLES if name in first]
    lines = [*_lines(group, names)]
    if not names or not lines:
        return []
    titles = ["method", "ensemble", "member", *(TITLES[name] for name in names)]
    text = (
        "A mean over members hides one that did not learn: here is each of them, on "
        "clean data."
    )
    caption = (
        f"A hollow mark per member, {TITLES[names[0]]}; a line of marks per ensemble. "
        "A mark far from the others is a member to look at."
    )
    return [
        lead(text),
        figure("Members one by one", caption, _rows(group, names[0])),
        folded("All members in numbers", table("Members", titles, lines, words=3)),
    ]


def _rows(group: Group, name: str) -> Markup:
    methods = [entry.result for entry in group.entries]
    values = [v for method in methods for own in _values(method, name) for v in own]
    low, high = min(values, default=0.0), max(values, default=1.0)
    room = 0.06 * (high - low) or 0.5
    top = min(100.0, high + room) if name == "member_accuracies" else high + room
    axis = Axis(max(0.0, low - room), top)
    rows = []
    for place, method in enumerate(methods):
        own = _values(method, name)
        flat = [value for row in own for value in row]
        if not flat:
            continue
        height = 14 + 14 * len(own)
        shapes: list[Shape] = [*grid_lines(axis, axis.ticks(), height)]
        for line, row in enumerate(own):
            shapes += [
                Mark(look(place), axis(v), 14 + 14 * line, "mid", "hollow") for v in row
            ]
        digits = 1 if name == "member_accuracies" else 3
        both = f"{number(min(flat), digits)} to {number(max(flat), digits)}"
        said = f"{method.label}: members from {both}, half of them below "
        said += f"{number(median(flat), digits)}."
        rows.append(Row(look(place), method.label, Plot(height, shapes, said), both))
    return row_panels([Panel("", rows, axis_plot(axis), TITLES[name])])


def _values(method: MethodResult, name: str) -> list[list[float]]:
    scale = 100 if name == "member_accuracies" else 1
    rows: list[Sequence[float | None]] = [
        trained.evaluation["clean"].get(name) or () for trained in method.ensembles
    ]
    return [[scale * value for value in row if value is not None] for row in rows]


def _lines(group: Group, names: list[str]) -> Iterator[list[str]]:
    for entry in group.entries:
        for place, trained in enumerate(entry.result.ensembles):
            clean = trained.evaluation["clean"]
            columns = [clean[name] for name in names if name in clean]
            for member, values in enumerate(zip(*columns, strict=True)):
                cells = [_cell(*pair) for pair in zip(names, values, strict=False)]
                who = [f"ensemble {place + 1}", f"member {member}"]
                yield [entry.result.label, *who, *cells]


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return DASH
    return f"{100 * value:.2f}" if name == "member_accuracies" else f"{value:.3f}"
