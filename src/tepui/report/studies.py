"""Pictures of a study's records: bars, curves and clouds of points."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tepui.report.figures import STYLE
from tepui.studies.results import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LIGHT, DARK, LOST = "#9ecae1", "#0072B2", "#D55E00"


class Bar(NamedTuple):
    """A bar in two parts.

    Attributes:
        label: Below it.
        members: Height of the first part.
        ensemble: Height of the whole.
        paper: Height of the whole in the paper, drawn as a hollow mark.
    """

    label: str
    members: Record
    ensemble: Record
    paper: float | None = None


def grid(count: int, columns: int = 3) -> "tuple[Figure, list[Axes]]":
    """Return a figure with some panels."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    across = min(count, columns)
    down = math.ceil(count / across)
    with mpl.rc_context(STYLE):
        figure = Figure(
            figsize=(max(4.0 * across, 5.0), 3.4 * down), layout="constrained"
        )
        axes = [figure.add_subplot(down, across, n + 1) for n in range(count)]
    return figure, axes


def bar_panels(panels: Mapping[str, Sequence[Bar]], *, columns: int = 3) -> "Figure":
    """Draw bars of members' accuracy with what the ensemble gains on top."""
    figure, axes = grid(len(panels), columns)
    for axis, (title, bars) in zip(axes, panels.items(), strict=True):
        for position, bar in enumerate(bars):
            _draw_bar(axis, position, bar)
        marks = [bar.paper for bar in bars if bar.paper is not None]
        heights = [each.value or 0 for bar in bars for each in bar[1:3]]
        lows = [*heights, *marks]
        highs = [(bar.ensemble.value or 0) + (bar.ensemble.sem or 0) for bar in bars]
        highs += marks
        span = max(max(highs) - min(lows), 1.0)
        axis.set_ylim(max(0.0, min(lows) - 2 * span), max(highs) + 0.4 * span)
        axis.set_title(title)
        axis.set_ylabel("accuracy in %")
        axis.set_xticks(
            range(len(bars)), [bar.label.replace("_", "\n") for bar in bars]
        )
        axis.grid(axis="x", visible=False)
    legend_below(figure, axes)
    return figure


def legend_below(figure: "Figure", axes: "Sequence[Axes]", columns: int = 5) -> None:
    """Add one legend below all panels."""
    handles = {
        name: handle
        for axis in axes
        for handle, name in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    if handles:
        inches = 0.7 + 0.09 * max(map(len, handles))
        fitting = max(1, int(figure.get_figwidth() / inches))
        figure.legend(
            list(handles.values()),
            list(handles),
            loc="outside lower center",
            ncols=min(len(handles), columns, fitting),
            frameon=False,
        )


def _draw_bar(axis: "Axes", position: int, bar: Bar) -> None:
    members, ensemble = bar.members.value or 0.0, bar.ensemble.value or 0.0
    error = bar.ensemble.sem or 0.0
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
    if bar.ensemble.sem is not None:
        axis.errorbar(position, ensemble, yerr=error, color="black", capsize=4)
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
        (position, max(members, ensemble + error)),
        xytext=(0, 3),
        textcoords="offset points",
        ha="center",
    )
