"""How often ensembles are right at each confidence."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from tepui.report.comparison import Comparison, MethodResult
from tepui.report.markup import Multiple, figure, multiples
from tepui.report.measures import data_name
from tepui.report.shapes import (
    Anchor,
    Axis,
    Line,
    Mark,
    Plot,
    Shape,
    Words,
    look,
    trend,
)
from tepui.report.wording import number

FEWEST = 10  # predictions without which a bin is not drawn
ACROSS = Axis(-0.14, 1)  # room for the vertical axis
UP = Axis(0, 1, 240, 8)
HEIGHT = 284
FIELDS = "count", "confidence", "accuracy"
TICKS = (0, 0.25, 0.5, 0.75, 1)


@dataclass(frozen=True)
class Bin:
    """Predictions of similar confidence, of all ensembles of a method."""

    count: float
    confidence: float  # sum
    accuracy: float  # sum


def pooled_bins(method: MethodResult, data: str) -> list[Bin]:
    """Return the bins of all ensembles together."""
    found = [t.evaluation["reliability"][data] for t in method.ensembles]
    columns = (zip(*(own[name] for name in FIELDS), strict=True) for own in found)
    return [
        Bin(
            sum(n for n, _, _ in own),
            sum(n * (sure or 0) for n, sure, _ in own),
            sum(n * (right or 0) for n, _, right in own),
        )
        for own in zip(*columns, strict=True)
    ]


def has_reliability(comparison: Comparison) -> bool:
    """Return whether all ensembles were asked how sure they are."""
    return all(t.evaluation["reliability"].get("clean") for t in comparison.ensembles())


def reliability_figure(comparison: Comparison) -> Markup:
    """Return a diagram per method."""
    shifted = all(
        t.evaluation["reliability"].get("shifted") for t in comparison.ensembles()
    )
    kinds = ["clean", "shifted"] if shifted else ["clean"]
    items = []
    for place, method in enumerate(comparison.methods):
        shapes, said = _frame(), []
        for data in kinds:
            bins = pooled_bins(method, data)
            shapes += _drawn(place, bins, main=data == kinds[-1])
            total = sum(each.count for each in bins) or 1
            stated = 100 * sum(each.confidence for each in bins) / total
            right = 100 * sum(each.accuracy for each in bins) / total
            said.append(
                f"{data_name(data)} data: stated {number(stated)} %, right "
                f"{number(right)} %"
            )
        sub = "; ".join(said)
        plot = Plot(HEIGHT, shapes, f"{method.label}, {sub}.")
        items.append(Multiple(method.label, plot, look(place), sub))
    caption = (
        "How often the ensembles are right at each confidence. Filled: the most "
        "corrupted data shown. Hollow, dashed: clean data. Bins of fewer than "
        f"{FEWEST} are left out."
    )
    return figure("Reliability", caption, multiples(items))


def _frame() -> list[Shape]:
    shapes: list[Shape] = []
    for tick in TICKS:
        shapes.append(Line(ACROSS(0), UP(tick), ACROSS(1), UP(tick), "grid"))
        shapes.append(Line(ACROSS(tick), UP(1), ACROSS(tick), UP(0), "grid"))
        shapes.append(Words(0, UP(tick) + 4, f"{100 * tick:.0f}", anchor="start"))
        anchor: Anchor = "end" if tick == 1 else "middle"
        shapes.append(Words(ACROSS(tick), 260, f"{100 * tick:.0f}", anchor=anchor))
    shapes.append(Line(ACROSS(0), UP(0), ACROSS(1), UP(1), "diagonal"))
    return [
        *shapes,
        Words(ACROSS(0.04), 24, "too careful", "tick halo", "start"),
        Words(ACROSS(0.98), 232, "over-confident", "tick halo", "end"),
        Words(ACROSS(0.5), 280, "confidence, %"),
    ]


def _drawn(place: int, bins: Sequence[Bin], *, main: bool) -> list[Shape]:
    """Return the curve of one kind of data."""
    own, hollow = look(place), "" if main else "hollow"
    points = [
        (ACROSS(each.confidence / each.count), UP(each.accuracy / each.count))
        for each in bins
        if each.count >= FEWEST
    ]
    lines = trend(points, f"{'strong' if main else 'dashed'} {own.kind}")
    return [*lines, *(Mark(own, *point, "mid", hollow) for point in points)]
