"""Bars of members' accuracy, with what the ensemble gains or loses."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tepui.report.drawing import grid, legend_below

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LIGHT, DARK, LOST = "#9ecae1", "#0072B2", "#D55E00"
LETTERS = 30  # of the usual size that fit below a panel


class Bar(NamedTuple):
    """A bar in two parts, in percent."""

    label: str  # below it
    members: float  # height of the first part
    ensemble: float  # height of the whole
    error: float | None = None  # standard error of the whole
    paper: float | None = None  # the whole in the paper, drawn as a hollow mark


def bar_panels(panels: Mapping[str, Sequence[Bar]], *, columns: int = 3) -> "Figure":
    """Draw bars of members' accuracy with what the ensemble gains on top."""
    figure, axes = grid(len(panels), columns)
    for axis, (title, bars) in zip(axes, panels.items(), strict=True):
        for position, bar in enumerate(bars):
            _draw(axis, position, bar)
        marks = [bar.paper for bar in bars if bar.paper is not None]
        low = min(*(height for bar in bars for height in bar[1:3]), *marks)
        high = max(*(bar.ensemble + (bar.error or 0) for bar in bars), *marks, low)
        span = max(high - low, 1.0)
        axis.set_ylim(max(0.0, low - 2 * span), high + 0.4 * span)
        axis.set_title(title)
        axis.set_ylabel("accuracy in %")
        _name(axis, [bar.label for bar in bars])
        axis.grid(axis="x", visible=False)
    legend_below(figure, axes)
    return figure


def _name(axis: "Axes", labels: Sequence[str]) -> None:
    """Write labels below the bars, smaller where they would run into each other."""
    axis.set_xticks(range(len(labels)), labels)
    longest = max(len(line) for label in labels for line in label.split("\n"))
    shrunk = min(1.0, LETTERS / (longest * len(labels)))
    for text in axis.get_xticklabels():
        text.set_fontsize(shrunk * float(text.get_fontsize()))


def _draw(axis: "Axes", position: int, bar: Bar) -> None:
    members, ensemble = bar.members, bar.ensemble
    axis.bar(position, members, 0.6, color=LIGHT, label="members, on average")
    gains = ensemble >= members
    axis.bar(
        position,
        abs(ensemble - members),
        0.6,
        bottom=min(members, ensemble),
        color=DARK if gains else LOST,
        label="gained by the ensemble" if gains else "lost by the ensemble",
    )
    if bar.error is not None:
        axis.errorbar(position, ensemble, yerr=bar.error, color="black", capsize=4)
    if bar.paper is not None:
        axis.plot(
            position + 0.38,  # beside the bar, clear of its number
            bar.paper,
            marker="D",
            markersize=8,
            color="black",
            markerfacecolor="none",
            linestyle="none",
            label="ensemble, in the paper",
        )
    axis.annotate(
        f"{ensemble:.1f}",
        (position, max(members, ensemble + (bar.error or 0))),
        xytext=(0, 3),
        textcoords="offset points",
        ha="center",
    )
