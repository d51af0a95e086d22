"""Sharpness of the members against their diversity, a mark per ensemble."""

import math
from collections.abc import Mapping, Sequence

from markupsafe import Markup

from tepui.report.comparison import Comparison, MethodResult, Trained
from tepui.report.contrasts import seed_pairs
from tepui.report.markup import Multiple, figure, multiples, part
from tepui.report.measures import DER, SHARPNESS, data_name, kinds
from tepui.report.shapes import Anchor, Axis, Line, Mark, Plot, Shape, Words, look
from tepui.report.wording import number, opening, some
from tepui.studies import estimate

HEIGHT, TOP, BOTTOM = 260, 18, 218
MOST_NAMES, LONGEST_NAME = 5, 14
Point = tuple[float, float]


def points(method: MethodResult, data: str) -> list[Point]:
    """Return sharpness and diversity of every ensemble that has both."""
    found = (_point(trained, data) for trained in method.ensembles)
    return [point for point in found if point is not None]


def _point(trained: Trained, data: str) -> Point | None:
    x, y = SHARPNESS.read("clean")(trained), DER.read(data)(trained)
    return None if x is None or y is None else (x, y)


def sharpness_lead(comparison: Comparison) -> str:
    """Return the members' mean sharpness, and whether flat ones err alike."""
    found = [(m, SHARPNESS.of(m, "clean").mean) for m in comparison.methods]
    known = [(method, value) for method, value in found if not math.isnan(value)]
    words = some([f"{method.label} {number(value, 2)}" for method, value in known], 6)
    text = f"Mean sharpness of the members: {words}; lower is flatter."
    base, level = found[0]
    flatter = [method for method, value in known if value < level]
    alike = [
        m.label
        for m in flatter
        if all(DER.of(m, d).mean < DER.of(base, d).mean for d in kinds(comparison))
    ]
    if flatter and len(alike) == len(flatter):
        text += (
            f" On average flatter members also err more alike ({some(alike, 4)}), the "
            "trade-off that this map shows."
        )
    return text


def sharpness_figure(comparison: Comparison) -> Markup:
    """Return a picture per kind of data."""
    items = []
    for data in kinds(comparison):
        found = {m.label: points(m, data) for m in comparison.methods}
        if any(found.values()):
            plot = _plot(comparison, found, data)
            items.append(Multiple(f"{opening(data_name(data))} test data", plot))
    base = comparison.methods[0].label
    caption = (
        "Large marks: means. Small marks: single ensembles. A thin line joins "
        f"ensembles of the same seeds, from {base} to the method. Lower left: flat "
        "members that err alike; upper left: flat members that err differently."
    )
    body = [multiples(items, "two")]
    if not _named_directly(comparison):
        names = [(m.label, look(n), "") for n, m in enumerate(comparison.methods)]
        body.insert(0, part("keys", names))
    return figure("Sharpness and diversity", caption, *body)


def _named_directly(comparison: Comparison) -> bool:
    """Return whether names are few and short enough to stand beside their marks."""
    labels = [method.label for method in comparison.methods]
    return len(labels) <= MOST_NAMES and max(map(len, labels)) <= LONGEST_NAME


def _plot(comparison: Comparison, found: Mapping[str, list[Point]], data: str) -> Plot:
    every = [point for own in found.values() for point in own]
    across = _padded([x for x, _ in every], 0, 100)
    up = _padded([y for _, y in every], BOTTOM, TOP)
    shapes = _frame(across, up)
    base = comparison.methods[0]
    centers: list[tuple[str, float, float]] = []
    for place, method in enumerate(comparison.methods):
        own = look(place)
        pairs = seed_pairs(method, base) if place else []
        for pair in pairs:
            ends = [end for t in pair if (end := _point(t, data)) is not None]
            if len(ends) == 2:
                (x1, y1), (x2, y2) = ((across(x), up(y)) for x, y in ends)
                shapes.append(Line(x1, y1, x2, y2, f"pair {own.kind}"))
        shapes += [Mark(own, across(x), up(y), "small") for x, y in found[method.label]]
    for place, method in enumerate(comparison.methods):
        if found[method.label]:
            x, y = (
                estimate(side).mean for side in zip(*found[method.label], strict=True)
            )
            shapes.append(Mark(look(place), across(x), up(y), kind="edge"))
            centers.append((method.label, across(x), up(y)))
    if _named_directly(comparison):
        shapes += _labels(comparison, centers)
    said = "; ".join(
        f"{label}: sharpness {number(_mean(own, 0), 3)}, DER {number(_mean(own, 1), 3)}"
        for label, own in found.items()
        if own
    )
    return Plot(HEIGHT, shapes, f"{opening(data_name(data))} data. {said}.")


def _frame(across: Axis, up: Axis) -> list[Shape]:
    shapes: list[Shape] = []
    for tick, said in up.ticks(4).items():
        shapes.append(Line(0, up(tick), 100, up(tick), "grid"))
        shapes.append(Words(0, up(tick) - 4, said, anchor="start"))
    for tick, said in across.ticks(4).items():
        shapes.append(Line(across(tick), TOP, across(tick), BOTTOM, "grid"))
        shapes.append(Words(across(tick), 236, said))
    return [
        *shapes,
        Words(0, 256, "← flatter", anchor="start"),
        Words(50, 256, "sharpness"),
        Words(100, 256, "sharper →", anchor="end"),
        Words(0, 8, "↑ more diverse (DER)", anchor="start"),
    ]


def _labels(
    comparison: Comparison, centers: Sequence[tuple[str, float, float]]
) -> list[Shape]:
    """Return names above their marks, or below where that place is taken."""
    places = {method.label: n for n, method in enumerate(comparison.methods)}
    taken = [(x, y) for _, x, y in centers]
    shapes: list[Shape] = []
    for label, x, y in sorted(centers, key=lambda center: center[2]):
        anchor: Anchor = "start" if x < 25 else "end" if x > 75 else "middle"
        for height in (y - 12, y + 22, y - 28, y + 38):
            near = [t for t in taken if t != (x, y) and abs(t[0] - x) < 35]
            if all(abs(height - 4 - b) > 13 for _, b in near):
                break
        taken.append((x, height - 4))
        kind = f"direct halo {look(places[label]).kind}"
        shapes.append(Words(x, height, label, kind, anchor))
    return shapes


def _padded(values: Sequence[float], start: float, end: float) -> Axis:
    room = 0.14 * (max(values) - min(values)) or 0.1 * abs(max(values)) or 1.0
    return Axis(min(values) - room, max(values) + room, start, end)


def _mean(own: Sequence[Point], place: int) -> float:
    return estimate(point[place] for point in own).mean
