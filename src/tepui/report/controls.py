"""Pictures of the six controls: every metric per control, sharpness against safety."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from tepui.core.checks import one_of
from tepui.report.drawing import COLORS, grid
from tepui.studies.results import Record, Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Metric, heading with the better direction, and whether it is a measure of sharpness.
PANELS = (
    ("accuracy", "test accuracy →", False),
    ("ece", "← calibration error (ECE)", False),
    ("corruption_accuracy", "corruption accuracy in % →", False),
    ("disagreement", "← disagreement of seeds", False),
    ("fisher_rao", "Fisher-Rao norm", True),
    ("sam_sharpness", "SAM-sharpness", True),
    ("relative_flatness", "relative flatness", True),
)
APPLIED = ("baseline", "augmentation", "weight_decay")
AGAINST = ("ece", "corruption_accuracy")
SHARPNESS = "fisher_rao"
DATA = ("clean", "augmented")
# Largest over smallest value: below the first an axis is straight, below the second a
# logarithmic one is labeled between decades too.
NEAR, NARROW = 3, 30


class Look(NamedTuple):
    """How a control is drawn."""

    label: str  # its name in words
    color: str  # of what is applied
    marker: str  # A circle, or with SAM a square


def look(control: str) -> Look:
    """Return how a control is drawn.

    Example:
        >>> look("weight_decay_sam")
        Look(label='weight decay + SAM', color='#009E73', marker='s')
    """
    name = control.removesuffix("_sam")
    one_of("control", name, APPLIED)
    number = APPLIED.index(name)
    with_sam = name != control
    label = name.replace("_", " ") + (" + SAM" if with_sam else "")
    return Look(label, COLORS[number], "s" if with_sam else "o")


def control_panels(results: Results) -> "Figure":
    """Draw every metric by control, and two of them against sharpness."""
    controls = list(dict.fromkeys(record.method for record in results.records))
    figure, axes = grid(len(PANELS) + len(AGAINST))
    for axis, (metric, title, sharp) in zip(axes, PANELS, strict=False):
        sets = DATA if sharp else (None,)
        for data in sets:
            _dots(
                axis,
                [_record(results, control, metric, data) for control in controls],
                data,
            )
        if sharp:
            _logarithmic(axis, results.find(metric=metric))
        else:
            axis.locator_params(axis="x", nbins=5)
        axis.set_title(title)
        axis.set_yticks(
            range(len(controls)), [look(control).label for control in controls]
        )
        axis.tick_params(labelleft=_is_leftmost(axis))
        axis.set_ylim(len(controls) - 0.5, -0.5)
    titles = {metric: title for metric, title, _ in PANELS}
    for axis, metric in zip(axes[len(PANELS) :], AGAINST, strict=True):
        for control in controls:
            _pair(axis, results, control, metric)
        _logarithmic(axis, results.find(metric=SHARPNESS))
        axis.set_xlabel(titles[SHARPNESS])
        axis.set_ylabel(titles[metric].strip("←→ "))
    _legend(figure, controls)
    return figure


def _record(results: Results, control: str, metric: str, data: str | None) -> Record:
    where = {} if data is None else {"sharpness_data": data}
    return results.one(method=control, metric=metric, **where)


def _dots(axis: "Axes", records: Sequence[Record], data: str | None) -> None:
    """Draw one dot per control, from the top; the two kinds of data apart."""
    shift = {"clean": -0.15, "augmented": 0.15, None: 0.0}[data]
    for row, record in enumerate(records):
        if record.value is not None:
            _mark(axis, record.method, record.value, row + shift, record.sem, data)


def _mark(
    axis: "Axes",
    control: str,
    x: float,
    y: float,
    x_error: float | None,
    data: str | None,
    y_error: float | None = None,
) -> None:
    style = look(control)
    axis.errorbar(
        x,
        y,
        xerr=x_error,
        yerr=y_error,
        color=style.color,
        marker=style.marker,
        markerfacecolor="white" if data == "augmented" else style.color,
        markersize=7,
        capsize=3,
        linestyle="none",
    )


def _pair(axis: "Axes", results: Results, control: str, metric: str) -> None:
    """Draw a control at its sharpness on both kinds of data, joined by a line."""
    score = _record(results, control, metric, None)
    both = {data: _record(results, control, SHARPNESS, data) for data in DATA}
    if score.value is None or any(sharp.value is None for sharp in both.values()):
        return
    ends = [sharp.value or 0.0 for sharp in both.values()]
    axis.plot(ends, [score.value] * 2, color=look(control).color, linewidth=1)
    for data, sharp in both.items():
        x = sharp.value or 0.0
        _mark(axis, control, x, score.value, sharp.sem, data, score.sem)


def _logarithmic(axis: "Axes", records: Sequence[Record]) -> None:
    """Make an axis of sharpness logarithmic where all is positive and far apart."""
    from matplotlib.ticker import LogLocator, NullLocator

    values = [record.value or 0.0 for record in records]
    if min(values) <= 0 or max(values) < NEAR * min(values):
        axis.locator_params(axis="x", nbins=4)
        return
    axis.set_xscale("log")
    axis.xaxis.set_minor_locator(NullLocator())
    if max(values) < NARROW * min(values):
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.xaxis.set_major_formatter("{x:g}")


def _is_leftmost(axis: "Axes") -> bool:
    place = axis.get_subplotspec()
    return place is not None and place.is_first_col()


def _legend(figure: "Figure", controls: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    def entry(label: str, color: str, marker: str, fill: str) -> Line2D:
        return Line2D(
            [],
            [],
            label=label,
            linestyle="none",
            color=color,
            marker=marker,
            markerfacecolor=fill,
        )

    handles = []
    for control in controls:
        style = look(control)
        handles.append(entry(style.label, style.color, style.marker, style.color))
    gray = "#666666"
    handles.append(entry("sharpness on clean training data", gray, "o", gray))
    handles.append(entry("on augmented training data", gray, "o", "white"))
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
