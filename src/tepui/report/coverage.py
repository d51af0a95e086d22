"""How often intervals or sets hold the truth, against what they promise."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from tepui.report.comparison import Comparison, Trained, scores_on
from tepui.report.markup import Multiple, figure, multiples
from tepui.report.measures import COVERAGE, data_name, kinds
from tepui.report.shapes import Axis, Line, Mark, Plot, Shape, Words, look, trend
from tepui.report.wording import number, span
from tepui.studies import estimate

HEIGHT, TOP, BOTTOM = 190, 24, 156


class Covered(NamedTuple):
    """The coverage of a method's ensembles, in percent."""

    place: int  # of the method
    label: str
    rows: Sequence[Sequence[float]]  # by ensemble, then by level

    @property
    def means(self) -> list[float]:
        """The mean over ensembles at every level."""
        return [estimate(column).mean for column in zip(*self.rows, strict=True)]


def promise_of(comparison: Comparison) -> float:
    """Return what intervals of predicted numbers promise, in percent."""
    clean = comparison.methods[0].ensembles[0].evaluation["clean"]
    return 100 * (clean.get("nominal_coverage") or math.nan)


def interval_coverage(comparison: Comparison) -> tuple[list[str], list[Covered]]:
    """Return how often intervals of predicted numbers hold, on all data."""
    first = comparison.methods[0].ensembles[0].evaluation
    severities = list(first["severities"]) if comparison.has_shift else []
    others = [kind for kind in kinds(comparison) if kind not in ("clean", "shifted")]
    levels = ["clean", *severities, *others]

    def row(trained: Trained) -> list[float]:
        own = trained.evaluation
        scores = [
            own["severities"][level] if level in severities else scores_on(level, own)
            for level in levels
        ]
        found = (each.get(COVERAGE.score) for each in scores)
        return [math.nan if value is None else 100 * value for value in found]

    return [data_name(level) for level in levels], [
        Covered(place, method.label, [row(t) for t in method.ensembles])
        for place, method in enumerate(comparison.methods)
    ]


def coverage_lead(
    levels: Sequence[str], found: Sequence[Covered], promised: float
) -> str:
    """Return whether the promise holds on clean data and on the hardest."""
    said = []
    for place in dict.fromkeys((0, len(levels) - 1)):
        values = [own.means[place] for own in found if not math.isnan(own.means[place])]
        if values:
            name = levels[place]
            where = f"at severity {name}" if name.isdigit() else f"on {name} data"
            said.append(f"{span(values)} % {where}")
    held = " and ".join(said)
    return f"They promise to hold {number(promised)} % of the truth and hold {held}."


def coverage_figure(
    title: str,
    what: str,
    levels: Sequence[str],
    found: Sequence[Covered],
    promised: float,
) -> Markup:
    """Return a picture per method, with the promise as a dashed line."""
    known = [v for own in found for row in own.rows for v in row if math.isfinite(v)]
    low = max(0, 10 * math.floor(min([*known, promised]) / 10) - 10)
    up, across = Axis(low, 100, BOTTOM, TOP), Axis(0, max(len(levels) - 1, 1), 20, 93)
    items = [
        Multiple(own.label, _plot(own, levels, up, across, promised), look(own.place))
        for own in found
    ]
    caption = (
        f"How often {what}, in %. Dashed: what was promised, {number(promised)} %. The "
        "promise is made for data like those at hand in training: where coverage falls "
        "far below it, the data have shifted. Large marks: means; thin: single "
        "ensembles."
    )
    return figure(title, caption, multiples(items))


def _plot(
    own: Covered, levels: Sequence[str], up: Axis, across: Axis, promised: float
) -> Plot:
    shapes: list[Shape] = []
    for tick, said in up.ticks(4).items():
        shapes.append(Line(12, up(tick), 100, up(tick), "grid"))
        shapes.append(Words(0, up(tick) + 4, said, anchor="start"))
    shapes.append(Line(12, up(promised), 100, up(promised), "promise"))
    for values, kind in [*((row, "thin") for row in own.rows), (own.means, "strong")]:
        points = [(across(n), up(v)) for n, v in enumerate(values) if math.isfinite(v)]
        shapes += trend(points, f"{kind} {look(own.place).kind}")
    for place, (level, value) in enumerate(zip(levels, own.means, strict=True)):
        shapes.append(Words(across(place), 182, level))
        if not math.isnan(value):
            shapes.append(Mark(look(own.place), across(place), up(value), "mid"))
            height = up(value) - 12 if value >= promised else up(value) + 18
            shapes.append(Words(across(place), height, f"{value:.0f}", "label halo"))
    pairs = zip(levels, own.means, strict=True)
    said = ", ".join(f"{level} {number(value)} %" for level, value in pairs)
    return Plot(
        HEIGHT, shapes, f"{own.label} holds {said}; promised {number(promised)} %."
    )
