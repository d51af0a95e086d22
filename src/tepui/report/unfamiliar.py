"""What a page says about mistakes and unfamiliar samples: table and histograms."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from markupsafe import Markup

from tepui.evaluation.ood import SUREST
from tepui.report.comparison import Comparison, MethodResult, Trained
from tepui.report.contrasts import Reading, interval_of, leads
from tepui.report.markup import (
    Multiple,
    TableCell,
    figure,
    grouped_table,
    multiples,
    part,
)
from tepui.report.measures import SHARE, shown_name
from tepui.report.shapes import Axis, Line, Plot, Shape, Trace, Words, look
from tepui.report.tables import interval_cell, with_means
from tepui.report.wording import ends, number, opening, some

MISTAKES = "mistakes on clean data"
AXES = {
    "pds": "PDS",
    "max_mean_probability": "1 − max mean probability",  # noqa: RUF001 - a minus sign
}
HEIGHT, TOP, BOTTOM = 190, 12, 150
LEFT = 15  # percent of the width, for the vertical axis


def auroc(data: str | None, score: str) -> Reading:
    """Return what reads an AUROC in percent; without data, that of mistakes."""

    def read(trained: Trained) -> float | None:
        found = trained.evaluation
        by_score = found["mistakes"] if data is None else found["ood"][data]
        value = by_score[score]["auroc"]
        return None if value is None else 100 * value

    return read


def auroc_groups(comparison: Comparison) -> dict[str, list[list[str | TableCell]]]:
    """Return the rows of the table of AUROC by data, one column per score."""
    sets = (*([None] if comparison.has_mistakes else []), *comparison.ood_sets)
    return {
        opening(MISTAKES) if data is None else data: [
            [
                method.label,
                *(
                    _cell(comparison, method, auroc(data, score))
                    for score in comparison.detecting_scores
                ),
            ]
            for method in comparison.methods
        ]
        for data in sets
    }


def unfamiliar_sentence(comparison: Comparison) -> str:
    """Return how well each method finds unfamiliar samples, in a sentence.

    That is by the first score that all have; empty where nothing unfamiliar was tested.
    """
    if not (comparison.ood_sets and comparison.detecting_scores):
        return ""
    score = comparison.detecting_scores[0]
    said = []
    for data in comparison.ood_sets:
        read = auroc(data, score)
        means = {m.label: interval_of(m, read).mean for m in comparison.methods}
        values = [f"{label} {number(mean, 1)}" for label, mean in means.items()]
        said.append(f"{data}: {', '.join(values)}")
    return (
        f"unfamiliar samples, AUROC in % by {shown_name(score)}: {'; '.join(said)} "
        "(other scores: in the report)"
    )


def auroc_table(comparison: Comparison) -> Markup:
    """Return how well each score finds mistakes and unfamiliar samples."""
    titles = [shown_name(score) for score in comparison.detecting_scores]
    caption = with_means("AUROC in %", comparison)
    return grouped_table(caption, ["method", *titles], auroc_groups(comparison))


def unfamiliar_lead(comparison: Comparison) -> str:
    """Return which score finds each set best, on average over methods."""
    said = []
    for data in (*([None] if comparison.has_mistakes else []), *comparison.ood_sets):
        means = {
            score: [interval_of(m, auroc(data, score)).mean for m in comparison.methods]
            for score in comparison.detecting_scores
        }
        best = max(means, key=lambda score: sum(means[score]))
        low, high = min(means[best]), max(means[best])
        amount = (
            number(low)
            if number(low) == number(high)
            else f"{number(low)} to {number(high)}"
        )
        what = MISTAKES if data is None else data
        said.append(f"{shown_name(best)} finds {what} with an AUROC of {amount} %")
    mean = "On average over methods " if len(comparison.methods) > 1 else ""
    return opening(f"{mean}{some(said, 4)}; 50 % is chance.")


def histogram_figure(comparison: Comparison, data: str) -> Markup:
    """Return how two scores are distributed on test samples and on unfamiliar ones."""
    body = []
    decades = {score: _decades(comparison, score, data) for score in AXES}
    for score, title in AXES.items():
        items = [
            Multiple(
                method.label,
                _plot(method, score, data, title, decades[score]),
                look(place),
                f"AUROC {_auroc_in_words(method, score, data)}",
            )
            for place, method in enumerate(comparison.methods)
        ]
        body += [part("paragraph", title, "title"), multiples(items)]
    entries = [("bar familiar", "test samples"), ("bar strange", f"unfamiliar: {data}")]
    caption = (
        "Shares of samples by their score, from familiar (left) to unfamiliar (right), "
        "on a logarithmic scale; all ensembles of a method together."
    )
    return figure(f"Scores of {data}", caption, part("legend", entries), *body)


def _cell(comparison: Comparison, method: MethodResult, read: Reading) -> TableCell:
    others = [other for other in comparison.methods if other is not method]
    found = interval_of(method, read).within(*SHARE)
    return interval_cell(found, 2, bold=leads(method, others, read))


def _auroc_in_words(method: MethodResult, score: str, data: str) -> str:
    found = interval_of(method, auroc(data, score)).within(*SHARE)
    both = "" if math.isnan(found.reach) else f" ({ends(found.low, found.high)})"
    return f"{number(found.mean)} %{both}"


def pooled_shares(
    method: MethodResult, score: str, data: str
) -> tuple[list[float], list[float]]:
    """Return the share of samples in every bin, of test data and of unfamiliar ones."""
    found = [t.evaluation["histograms"][score] for t in method.ensembles]
    counts = [[each["clean"] for each in found], [each["ood"][data] for each in found]]
    pooled = [[sum(column) for column in zip(*rows, strict=True)] for rows in counts]
    first, second = ([n / (sum(bins) or 1) for n in bins] for bins in pooled)
    return first, second


def _decades(comparison: Comparison, score: str, data: str) -> int:
    """Return how many powers of ten the shares of all methods span."""
    shares = (
        share
        for method in comparison.methods
        for own in pooled_shares(method, score, data)
        for share in own
        if share
    )
    return max(1, math.ceil(-math.log10(min(shares, default=0.1)) - 1e-9))


def _plot(
    method: MethodResult, score: str, data: str, title: str, decades: int
) -> Plot:
    found: Mapping[str, Any] = method.ensembles[0].evaluation["histograms"][score]
    both = pooled_shares(method, score, data)
    up = Axis(-decades, 0, BOTTOM, TOP)
    across = Axis(found["low"], found["high"], LEFT, 98)
    shapes: list[Shape] = []
    for decade in range(-decades, 1):
        y = up(decade)
        shapes.append(Line(LEFT, y, 100, y, "grid"))
        said = f"{100 * 10.0**decade:g}"
        shapes.append(Words(0, y + 4, said, anchor="start"))
    for shares, kind in zip(both, ("familiar", "strange"), strict=True):
        outline = _outline(shares, across, up)
        shapes.append(Trace(outline, f"area {kind}", closed=True))
        shapes.append(Trace(outline[1:-1], f"contour {kind}"))
    shapes += [Words(across(t), 168, said) for t, said in across.ticks(4).items()]
    shapes.append(Words(LEFT, 186, "share in %; less familiar →", anchor="start"))
    said = (
        f"{title} of {method.label} on test samples and on {data}; AUROC "
        f"{_auroc_in_words(method, score, data)}."
    )
    return Plot(HEIGHT, shapes, said)


def _outline(
    shares: Sequence[float], across: Axis, up: Axis
) -> list[tuple[float, float]]:
    """Return the corners of a histogram on a logarithmic scale, from its floor."""
    width = (across.high - across.low) / len(shares)
    points = [(across(across.low), float(BOTTOM))]
    for place, share in enumerate(shares):
        y = up(max(math.log10(share), up.low)) if share else float(BOTTOM)
        left = across.low + width * place
        points += [(across(left), y), (across(left + width), y)]
    return [*points, (across(across.high), float(BOTTOM))]


def selective_lead(comparison: Comparison) -> str:
    """Return what error is left among the surest clean samples; empty if unknown."""
    said = []
    for method in comparison.methods:
        found = [own.evaluation.get("selective") or {} for own in method.ensembles]
        if not all(SUREST in each for each in found):
            continue
        ninety, eighty = (
            number(100 * fmean(each[SUREST][f"error_at_{share}"] for each in found), 2)
            for share in (90, 80)
        )
        said.append(f"{method.label} {ninety} % and {eighty} %")
    if not said:
        return ""
    return f"Wrong among the surest 90 % and 80 % of clean samples: {'; '.join(said)}."
