"""Curves of a study's records: one line per series, with bands of standard errors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tepui.report.drawing import COLORS, MARKERS, grid, legend_below
from tepui.studies.results import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Curves:
    """One panel."""

    title: str  # above it
    along: str  # name of the records' coordinate that runs along the axis
    value: str  # what is drawn, in words
    lines: Mapping[str, Sequence[Record]]  # records by the name of their line
    log: bool = False  # whether the axis of the coordinate is logarithmic


def curve_panels(panels: Sequence[Curves], *, columns: int = 3) -> "Figure":
    """Draw curves; a name has the same color in all panels."""
    figure, axes = grid(len(panels), columns)
    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    for axis, panel in zip(axes, panels, strict=True):
        for name, records in panel.lines.items():
            _draw_line(axis, panel.along, records, names.index(name), name)
        if panel.log:
            axis.set_xscale("log")
        else:
            _whole_ticks(axis, panel)
        axis.set_title(panel.title)
        axis.set_xlabel(panel.along.replace("_", " "))
        axis.set_ylabel(panel.value)
    legend_below(figure, axes)
    return figure


def _draw_line(
    axis: "Axes", along: str, records: Sequence[Record], number: int, name: str
) -> None:
    points = sorted(
        (record.at[along], record.value, record.sem or 0.0)
        for record in records
        if record.value is not None
    )
    if not points:
        return
    where, values, errors = zip(*points, strict=True)
    color = COLORS[number % len(COLORS)]
    axis.fill_between(
        where,
        [value - error for value, error in zip(values, errors, strict=True)],
        [value + error for value, error in zip(values, errors, strict=True)],
        color=color,
        alpha=0.2,
        linewidth=0,
    )
    marker = MARKERS[number % len(MARKERS)]
    axis.plot(where, values, color=color, marker=marker, markersize=5, label=name)


def _whole_ticks(axis: "Axes", panel: Curves) -> None:
    """Label whole numbers only, where the coordinate has no others."""
    from matplotlib.ticker import MaxNLocator

    where = [record.at[panel.along] for line in panel.lines.values() for record in line]
    if all(isinstance(x, int) for x in where):
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
