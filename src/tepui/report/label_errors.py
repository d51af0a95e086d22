"""The calibration error of every label, where samples have several."""

import math

from markupsafe import Markup

from tepui.report.comparison import Comparison, MethodResult
from tepui.report.markup import figure, row_panels
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
from tepui.report.wording import number
from tepui.studies import estimate

SCORE = "label_eces"


def label_errors(method: MethodResult) -> list[float]:
    """Return the mean calibration error of each label over ensembles, in percent."""
    rows = (trained.evaluation["clean"][SCORE] for trained in method.ensembles)
    columns = zip(*rows, strict=True)
    means = [estimate(column).mean for column in columns]
    return [100 * mean for mean in means if not math.isnan(mean)]


def label_lead(comparison: Comparison) -> str:
    """Return the worst and the mean label of the first method."""
    first = comparison.methods[0]
    errors = label_errors(first)
    if not errors:
        return ""
    worst = errors.index(max(errors)) + 1
    return (
        f"Of {len(errors)} labels, {first.label} states the chance of label {worst} "
        f"worst: off by {number(max(errors))} % on average, "
        f"{number(estimate(errors).mean)} "
        "% over all labels."
    )


def label_figure(comparison: Comparison) -> Markup:
    """Return a dot per label for every method."""
    found = [label_errors(method) for method in comparison.methods]
    axis = Axis(0, 1.06 * max((e for own in found for e in own), default=1.0) or 1.0)
    rows = []
    for place, (method, errors) in enumerate(
        zip(comparison.methods, found, strict=True)
    ):
        if not errors:
            continue
        mean = estimate(errors).mean
        shapes: list[Shape] = [*grid_lines(axis, axis.ticks(), 40)]
        shapes += [Mark(look(place), axis(e), 29, "small", "hollow") for e in errors]
        shapes.append(Mark(look(place), axis(mean), 12))
        worst = number(max(errors))
        said = f"{method.label}: mean {number(mean)} %, worst label {worst} %."
        value, notes = f"{number(mean)} %", [f"worst {worst} %"]
        rows.append(
            Row(look(place), method.label, Plot(40, shapes, said), value, notes)
        )
    caption = (
        "Distance between the stated chance of a label and how often it holds, on "
        "clean data; lower is better. Filled: mean over labels. Hollow: every label."
    )
    panel = Panel("", rows, axis_plot(axis), "calibration error, %")
    return figure("Calibration error of every label", caption, row_panels([panel]))


def has_labels(comparison: Comparison) -> bool:
    """Return whether every label's calibration error is known."""
    return SCORE in comparison.score_names
