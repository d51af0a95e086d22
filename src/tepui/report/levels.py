"""A score from clean data to the most corrupted, a small picture per method."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from tepui.report.comparison import Comparison, Trained
from tepui.report.markup import Multiple, figure, multiples
from tepui.report.measures import Measure
from tepui.report.shapes import Axis, Line, Mark, Plot, Shape, Words, look, trend
from tepui.report.wording import number
from tepui.studies import estimate

HEIGHT, TOP, BOTTOM = 210, 28, 182


class Curve(NamedTuple):
    """A score of a method's ensembles at every level."""

    place: int  # of the method
    label: str
    rows: Sequence[Sequence[float]]  # by ensemble, then by level

    @property
    def means(self) -> list[float]:
        """The mean over ensembles at every level."""
        return [estimate(column).mean for column in zip(*self.rows, strict=True)]


def levels_of(comparison: Comparison) -> list[str]:
    """Return the severities, from clean data on."""
    return ["clean", *comparison.methods[0].ensembles[0].evaluation["severities"]]


def curves_of(comparison: Comparison, measure: Measure) -> list[Curve]:
    """Return a measure at every level; NaN where it is undefined."""

    def row(trained: Trained) -> list[float]:
        own = trained.evaluation
        scores = {"clean": own["clean"], **own["severities"]}
        found = (scores[level].get(measure.score) for level in levels_of(comparison))
        return [math.nan if v is None else measure.scale * v for v in found]

    return [
        Curve(place, method.label, [*map(row, method.ensembles)])
        for place, method in enumerate(comparison.methods)
    ]


def level_figure(
    title: str,
    levels: Sequence[str],
    found: Sequence[Curve],
    *,
    percent: bool,
    promised: float = math.nan,
) -> Markup:
    """Return a picture per method; what is promised is a dashed line."""
    every = [v for own in found for row in own.rows for v in [*row, promised]]
    known = [value for value in every if math.isfinite(value)] or [0.0]
    axis = Axis(0, 1.05 * max(known) or 1, BOTTOM, TOP)
    if percent:
        axis = Axis(max(0, 10 * math.floor(min(known) / 10) - 10), 100, BOTTOM, TOP)
    items = [
        Multiple(
            own.label, _plot(own, levels, axis, percent, promised), look(own.place)
        )
        for own in found
    ]
    caption = "Strong: mean. Thin: single ensembles. From clean data to high severity."
    if math.isfinite(promised):
        caption += f" Dashed: what was promised, {number(promised)} %."
    return figure(title, caption, multiples(items))


def _plot(
    own: Curve, levels: Sequence[str], axis: Axis, percent: bool, promised: float
) -> Plot:
    across, drawn = Axis(0, max(len(levels) - 1, 1), 18, 95), look(own.place)
    shapes: list[Shape] = []
    for tick, said in axis.ticks(4).items():
        shapes.append(Line(12, axis(tick), 100, axis(tick), "grid"))
        shapes.append(Words(0, axis(tick) + 4, said, anchor="start"))
    if math.isfinite(promised):
        shapes.append(Line(12, axis(promised), 100, axis(promised), "promise"))
    for row, kind in [*((row, "thin") for row in own.rows), (own.means, "strong")]:
        points = [(across(n), axis(v)) for n, v in enumerate(row) if math.isfinite(v)]
        shapes += trend(points, f"{kind} {drawn.kind}")
    for place, (level, value) in enumerate(zip(levels, own.means, strict=True)):
        shapes.append(Words(across(place), 202, level))
        if math.isfinite(value):
            text = f"{value:.0f}" if percent else f"{value:.2g}"
            shapes.append(Mark(drawn, across(place), axis(value), "mid"))
            shapes.append(Words(across(place), axis(value) - 12, text, "label halo"))
    pairs = zip(levels, own.means, strict=True)
    said = ", ".join(f"{level} {number(value, 3)}" for level, value in pairs)
    return Plot(HEIGHT, shapes, f"{own.label} by severity: {said}.")
