"""Pictures of a study's records: bars, curves and clouds of points."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tepui.experiments.results import Record
from tepui.report.figures import STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LIGHT, DARK = "#9ecae1", "#0072B2"


class Bar(NamedTuple):
    """A bar in two parts.

    Attributes:
        label: Below it.
        members: Height of the first part.
        ensemble: Height of the whole.
    """

    label: str
    members: Record
    ensemble: Record


def grid(count: int, columns: int = 3) -> "tuple[Figure, list[Axes]]":
    """Return a figure with some panels.

    Args:
        count: How many panels.
        columns: At most so many side by side.

    Returns:
        The figure and its axes.
    """
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


def bar_panels(panels: Mapping[str, Sequence[Bar]]) -> "Figure":
    """Draw bars of members' accuracy with what the ensemble gains on top.

    Args:
        panels: Bars by the title of their panel.

    Returns:
        The figure; error bars are standard errors over ensembles.
    """
    figure, axes = grid(len(panels))
    for axis, (title, bars) in zip(axes, panels.items(), strict=True):
        for position, bar in enumerate(bars):
            _draw_bar(axis, position, bar)
        lows = [bar.members.value or 0 for bar in bars]
        highs = [(bar.ensemble.value or 0) + (bar.ensemble.sem or 0) for bar in bars]
        span = max(max(highs) - min(lows), 1.0)
        axis.set_ylim(max(0.0, min(lows) - 2 * span), max(highs) + 0.4 * span)
        axis.set_title(title)
        axis.set_ylabel("accuracy in %")
        axis.set_xticks(
            range(len(bars)), [bar.label.replace("_", "\n") for bar in bars]
        )
        axis.grid(axis="x", visible=False)
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(
        handles[:2], names[:2], loc="outside lower center", ncols=2, frameon=False
    )
    return figure


def _draw_bar(axis: "Axes", position: int, bar: Bar) -> None:
    members, ensemble = bar.members.value or 0.0, bar.ensemble.value or 0.0
    error = bar.ensemble.sem or 0.0
    axis.bar(position, members, 0.6, color=LIGHT, label="members, on average")
    axis.bar(
        position,
        ensemble - members,
        0.6,
        bottom=members,
        color=DARK,
        label="gained by the ensemble",
        yerr=error,
        capsize=4,
    )
    axis.annotate(
        f"{ensemble:.1f}",
        (position, ensemble + error),
        xytext=(0, 3),
        textcoords="offset points",
        ha="center",
    )
