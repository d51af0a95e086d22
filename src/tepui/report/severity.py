"""How a score changes as the corruption of the test data grows."""

import math

from markupsafe import Markup

from tepui.report.comparison import Comparison, MethodResult
from tepui.report.markup import Multiple, figure, multiples
from tepui.report.measures import Measure
from tepui.report.shapes import Axis, Line, Mark, Plot, Shape, Words, look, trend
from tepui.report.wording import number, opening, span
from tepui.studies import estimate

HEIGHT, TOP, BOTTOM = 210, 28, 182
CROWDED = 6  # methods past which others are not drawn behind each


def levels_of(comparison: Comparison) -> list[str]:
    """Return the severities, from clean data on."""
    return ["clean", *comparison.methods[0].ensembles[0].evaluation["severities"]]


def curves(
    method: MethodResult, measure: Measure, levels: list[str]
) -> list[list[float]]:
    """Return the measure of each ensemble at every level; NaN where it is undefined."""
    rows = []
    for trained in method.ensembles:
        scores = {
            "clean": trained.evaluation["clean"],
            **trained.evaluation["severities"],
        }
        found = (scores[level].get(measure.score) for level in levels)
        rows.append([math.nan if v is None else measure.scale * v for v in found])
    return rows


def mean_curve(
    method: MethodResult, measure: Measure, levels: list[str]
) -> list[float]:
    """Return the mean over ensembles at every level."""
    by_level = zip(*curves(method, measure, levels), strict=True)
    return [estimate(column).mean for column in by_level]


def severity_lead(comparison: Comparison, measure: Measure) -> str:
    """Return how much is lost, and how far methods and ensembles lie apart."""
    levels = levels_of(comparison)
    means = [mean_curve(m, measure, levels) for m in comparison.methods]
    changes = [abs(row[-1] - row[0]) for row in means]
    digits = 1 if measure.percent else measure.digits
    unit = " points" if measure.percent else ""
    text = f"From clean data to severity {levels[-1]} "
    amount = f"{span(changes, digits)}{unit}"
    text += (
        f"the ensembles lose {amount} of {measure.name}."
        if measure.better == "higher"
        else f"the ensembles' {measure.name} changes by {amount}."
    )
    if len(means) < 2:
        return text
    between = max(max(column) - min(column) for column in zip(*means, strict=True))
    text += f" The largest gap between methods is {number(between, digits)}{unit}"
    within = max(
        max(column) - min(column)
        for method in comparison.methods
        for column in zip(*curves(method, measure, levels), strict=True)
    )
    if all(len(method.ensembles) > 1 for method in comparison.methods):
        text += f", that between ensembles of one method {number(within, digits)}"
    return f"{text}."


def severity_figure(comparison: Comparison, measure: Measure) -> Markup:
    """Return a small picture per method, the others' means in gray behind it."""
    levels = levels_of(comparison)
    found = [curves(method, measure, levels) for method in comparison.methods]
    means = [mean_curve(method, measure, levels) for method in comparison.methods]
    every = [v for rows in found for row in rows for v in row if math.isfinite(v)]
    low, high = min(every, default=0.0), max(every, default=1.0)
    if measure.percent:
        axis = Axis(10 * math.floor(low / 10), 100, BOTTOM, TOP)
    else:
        axis = Axis(0, 1.05 * high or 1, BOTTOM, TOP)
    across = Axis(0, max(len(levels) - 1, 1), 18, 95)
    items = []
    for place, method in enumerate(comparison.methods):
        behind = [row for other, row in enumerate(means) if other != place]
        if len(means) > CROWDED:
            behind = means[:1] if place else []
        shapes = _scale(axis, across, levels)
        own = look(place)
        for rows, kind in ((behind, "context"), (found[place], f"thin {own.kind}")):
            shapes += [s for row in rows for s in _curve(row, axis, across, kind)]
        shapes += _curve(means[place], axis, across, f"strong {own.kind}")
        shapes += _marked(place, means[place], axis, across, measure)
        unit = " %" if measure.percent else ""
        said = ", ".join(
            f"{name if name == 'clean' else f'severity {name}'} "
            f"{number(value, 1 if measure.percent else measure.digits)}{unit}"
            for name, value in zip(levels, means[place], strict=True)
        )
        plot = Plot(
            HEIGHT, shapes, f"{opening(measure.name)} of {method.label}: {said}."
        )
        items.append(Multiple(method.label, plot, own))
    unit = " in %" if measure.percent else ""
    gray = (
        "the first method's mean"
        if len(means) > CROWDED
        else "the other methods' means"
    )
    behind_words = f" Gray: {gray}." if len(means) > 1 else ""
    caption = (
        f"{opening(measure.name)}{unit}, averaged over all types of corruption. "
        f"Strong: mean. Thin: single ensembles.{behind_words} From left to right: "
        f"clean data, then severity {levels[1]} to {levels[-1]}."
    )
    return figure(f"{opening(measure.name)} by severity", caption, multiples(items))


def _scale(axis: Axis, across: Axis, levels: list[str]) -> list[Shape]:
    shapes: list[Shape] = []
    for tick, said in axis.ticks(4).items():
        shapes.append(Line(12, axis(tick), 100, axis(tick), "grid"))
        shapes.append(Words(0, axis(tick) + 4, said, anchor="start"))
    shapes += [Words(across(i), 202, name) for i, name in enumerate(levels)]
    return shapes


def _curve(row: list[float], axis: Axis, across: Axis, kind: str) -> list[Line]:
    points = [(across(i), axis(v)) for i, v in enumerate(row) if math.isfinite(v)]
    return trend(points, kind)


def _marked(
    place: int, row: list[float], axis: Axis, across: Axis, measure: Measure
) -> list[Shape]:
    points = [(i, v) for i, v in enumerate(row) if math.isfinite(v)]
    shapes: list[Shape] = []
    for i, value in points:
        shapes.append(Mark(look(place), across(i), axis(value), "mid"))
        text = f"{value:.0f}" if measure.percent else f"{value:.2g}"
        shapes.append(Words(across(i), axis(value) - 12, text, "label halo"))
    return shapes
