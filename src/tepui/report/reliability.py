"""How often ensembles are right at each confidence, and how often they state it."""

import math
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
from tepui.report.wording import number, span

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


def _ece(method: MethodResult, data: str) -> float:
    return ECE.of(method, data).mean


def has_reliability(comparison: Comparison) -> bool:
    """Return whether all ensembles were asked how sure they are."""
    return all(t.evaluation["reliability"].get("clean") for t in comparison.ensembles())


def reliability_lead(comparison: Comparison) -> str:
    """Return whether ensembles claim too much."""
    return " ".join(_tendency(comparison, data) for data in _kinds(comparison))


def reliability_figure(comparison: Comparison) -> Markup:
    """Return a diagram per method with a histogram of confidence below it."""
    top, labels = _tallest(comparison), "label_eces" in comparison.score_names
    items = []
    for place, method in enumerate(comparison.methods):
        shapes = _frame(top)
        said = []
        for data in _kinds(comparison):
            bins = pooled_bins(method, data)
            main = data == _kinds(comparison)[-1]
            shapes += _drawn(place, bins, top, main=main)
            stated, right = _shares(bins)
            said.append(
                f"{data_name(data)} data: stated {number(stated)} %, right "
                f"{number(right)} %"
            )
        # ECE of labels is by the probability of each, not by what is drawn here.
        error = distance if labels else _ece
        errors = ", ".join(
            f"{number(error(method, data))} % {data_name(data)}"
            for data in _kinds(comparison)
        )
        plot = Plot(HEIGHT, shapes, f"{method.label}. {'; '.join(said)}.")
        called = "distance from the diagonal" if labels else "calibration error"
        sub = f"{called} {errors}"
        items.append(Multiple(method.label, plot, look(place), sub))
    both = len(_kinds(comparison)) > 1
    marks = (
        "Filled: corrupted data. Hollow, dashed: clean data. "
        if both
        else "On clean data. "
    )
    bars = " (bars: corrupted, outlines: clean)" if both else ""
    caption = (
        "How often the ensembles are right at each confidence; on the diagonal both "
        f"agree. {marks}Bins with fewer than ten predictions are left out. Below: the "
        f"share of predictions in each bin{bars}. All ensembles of a method together."
    )
    if labels:
        caption += (
            " Confidence is that of the answer, a label or its absence; the ECE of "
            "labels in the tables is by the probability of each label, and another "
            "number than the mean distance from the diagonal."
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


def _tallest(comparison: Comparison) -> float:
    """Return the share that histograms reach up to, the same for all."""
    highest = 0.0
    for method in comparison.methods:
        for data in _kinds(comparison):
            counts = [each.count for each in pooled_bins(method, data)]
            highest = max(highest, max(counts) / (sum(counts) or 1))
    return next(top for top in TOPS if top >= min(highest, 1.0))


def _kinds(comparison: Comparison) -> list[str]:
    shifted = all(
        t.evaluation["reliability"].get("shifted") for t in comparison.ensembles()
    )
    return ["clean", "shifted"] if shifted else ["clean"]


def _shares(bins: Sequence[Bin]) -> tuple[float, float]:
    total = sum(each.count for each in bins) or 1
    stated = 100 * sum(each.confidence for each in bins) / total
    return stated, 100 * sum(each.accuracy for each in bins) / total


def _tendency(comparison: Comparison, data: str) -> str:
    samples = comparison.methods[0].ensembles[0].evaluation["samples"]
    shares = [_shares(pooled_bins(method, data)) for method in comparison.methods]
    apart = {s > r for s, r in shares if abs(s - r) > _by_chance(r, samples)}
    kind = {
        (True,): "over-confident",
        (False,): "too careful",
        (): f"on average as sure as right, as far as {samples} samples tell",
    }.get((*apart,), "over-confident or too careful, depending on the method")
    stated, right = zip(*shares, strict=True)
    return (
        f"On {data_name(data)} data the ensembles are {kind}: they state "
        f"{span(stated)} % and are right {span(right)} % of the time."
    )


def _by_chance(right: float, samples: int) -> float:
    """Return how far a share of right answers may lie off, both in percent.

    Example:
        >>> round(_by_chance(90.0, 100), 2)
        5.88
    """
    return 1.96 * math.sqrt(right * (100 - right) / samples)
