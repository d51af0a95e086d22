"""How often ensembles are right at each confidence, and how often they state it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from markupsafe import Markup

from tepui.report.comparison import Comparison, MethodResult
from tepui.report.markup import Multiple, figure, multiples
from tepui.report.measures import ECE, data_name
from tepui.report.shapes import (
    Anchor,
    Axis,
    Box,
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
FLOOR, TALLEST, HEIGHT = 330, 60, 370
TOPS = (0.2, 0.5, 1.0)  # shares up to which a histogram may reach
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
    bins = []
    for place in range(len(found[0]["count"])):
        counts = [each["count"][place] for each in found]
        sums = (
            sum(
                n * (each[field][place] or 0)
                for n, each in zip(counts, found, strict=True)
            )
            for field in ("confidence", "accuracy")
        )
        bins.append(Bin(sum(counts), *sums))
    return bins


def distance(method: MethodResult, data: str) -> float:
    """Return how far answers lie from the diagonal in percent, mean over ensembles."""
    found = []
    for trained in method.ensembles:
        alone = pooled_bins(replace(method, ensembles=(trained,)), data)
        gaps = sum(abs(each.confidence - each.accuracy) for each in alone)
        found.append(100 * gaps / (sum(each.count for each in alone) or 1))
    return fmean(found)


def has_reliability(comparison: Comparison) -> bool:
    """Return whether all ensembles were asked how sure they are."""
    return all(t.evaluation["reliability"].get("clean") for t in comparison.ensembles())


def reliability_figure(comparison: Comparison) -> Markup:
    """Return a diagram per method with a histogram of confidence below it."""
    shifted = all(
        t.evaluation["reliability"].get("shifted") for t in comparison.ensembles()
    )
    kinds = ["clean", "shifted"] if shifted else ["clean"]
    # ECE of labels is by the probability of each, not by what is drawn here.
    labels = "label_eces" in comparison.score_names
    called = "distance from the diagonal" if labels else "calibration error"
    found = {
        (method.label, data): pooled_bins(method, data)
        for method in comparison.methods
        for data in kinds
    }
    shares = (
        each.count / (sum(own.count for own in bins) or 1)
        for bins in found.values()
        for each in bins
    )
    highest = min(max(shares, default=1.0), 1.0)
    top = next(top for top in TOPS if top >= highest)
    items = []
    for place, method in enumerate(comparison.methods):
        shapes, said = _frame(top), []
        for data in kinds:
            bins = found[method.label, data]
            shapes += _drawn(place, bins, top, main=data == kinds[-1])
            total = sum(each.count for each in bins) or 1
            stated = 100 * sum(each.confidence for each in bins) / total
            right = 100 * sum(each.accuracy for each in bins) / total
            error = distance(method, data) if labels else ECE.of(method, data).mean
            said.append(
                f"{data_name(data)} data: stated {number(stated)} %, right "
                f"{number(right)} %, {called} {number(error)} %"
            )
        sub = "; ".join(said)
        plot = Plot(HEIGHT, shapes, f"{method.label}, {sub}.")
        items.append(Multiple(method.label, plot, look(place), sub))
    caption = (
        "How often the ensembles are right at each confidence; below, the share of "
        "predictions in each bin. Filled: the most corrupted data shown. Hollow, "
        f"dashed: clean data. Bins of fewer than {FEWEST} are left out."
    )
    return figure("Reliability", caption, multiples(items))


def _frame(top: float) -> list[Shape]:
    shapes: list[Shape] = []
    for tick in TICKS:
        shapes.append(Line(ACROSS(0), UP(tick), ACROSS(1), UP(tick), "grid"))
        shapes.append(Line(ACROSS(tick), UP(1), ACROSS(tick), UP(0), "grid"))
        shapes.append(Words(0, UP(tick) + 4, f"{100 * tick:.0f}", anchor="start"))
        anchor: Anchor = "end" if tick == 1 else "middle"
        shapes.append(Words(ACROSS(tick), 348, f"{100 * tick:.0f}", anchor=anchor))
    shapes.append(Line(ACROSS(0), UP(0), ACROSS(1), UP(1), "diagonal"))
    shapes.append(Line(ACROSS(0), FLOOR, ACROSS(1), FLOOR, "axisline"))
    return [
        *shapes,
        Words(ACROSS(0.04), 24, "too careful", "tick halo", "start"),
        Words(ACROSS(0.98), 232, "over-confident", "tick halo", "end"),
        Words(ACROSS(0), 262, "share of predictions, %", "tick", "start"),
        Words(0, 274, f"{100 * top:.0f}", anchor="start"),
        Words(0, FLOOR + 4, "0", anchor="start"),
        Words(ACROSS(0.5), 366, "confidence, %"),
    ]


def _drawn(place: int, bins: Sequence[Bin], top: float, *, main: bool) -> list[Shape]:
    """Return curve and histogram of one kind of data."""
    own, total = look(place), sum(each.count for each in bins) or 1
    points = [
        (ACROSS(each.confidence / each.count), UP(each.accuracy / each.count))
        for each in bins
        if each.count >= FEWEST
    ]
    shapes: list[Shape] = []
    width = 1 / len(bins)
    for at, each in enumerate(bins):
        if each.count:
            height = TALLEST * each.count / total / top
            left, right = ACROSS((at + 0.08) * width), ACROSS((at + 0.92) * width)
            kind = f"bar {own.kind}" if main else "outline"
            shapes.append(Box(left, FLOOR - height, right - left, height, kind))
    shapes += trend(points, f"{'strong' if main else 'dashed'} {own.kind}")
    hollow = "" if main else "hollow"
    return [*shapes, *(Mark(own, *point, "mid", hollow) for point in points)]
