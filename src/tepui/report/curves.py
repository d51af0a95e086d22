"""Curves of a study's records: one line per series, with bands of standard errors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from tepui.experiments.results import Record
from tepui.report.figures import COLOURS, MARKERS
from tepui.report.studies import grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Curves:
    """One panel.

    Attributes:
        title: Above it.
        along: Name of the records' coordinate that runs along the axis.
        value: What is drawn, in words.
        lines: Records by the name of their line.
        log: Whether the axis of the coordinate is logarithmic.
    """

    title: str
    along: str
    value: str
    lines: Mapping[str, Sequence[Record]]
    log: bool = False


def curve_panels(panels: Sequence[Curves]) -> "Figure":
    """Draw curves; a name has the same colour in all panels.

    Args:
        panels: From left to right.

    Returns:
        The figure; bars are standard errors over repetitions.
    """
    figure, axes = grid(len(panels))
    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    for axis, panel in zip(axes, panels, strict=True):
        for name, records in panel.lines.items():
            _draw_line(axis, panel.along, records, names.index(name), name)
        if panel.log:
            axis.set_xscale("log")
        else:
            drawn = chain.from_iterable(panel.lines.values())
            axis.set_xticks(sorted({each.at[panel.along] for each in drawn}))
        axis.set_title(panel.title)
        axis.set_xlabel(panel.along.replace("_", " "))
        axis.set_ylabel(panel.value)
    handles = {
        label: handle
        for axis in axes
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        [handles[name] for name in names],
        names,
        loc="outside lower center",
        ncols=min(len(names), 5),
        frameon=False,
    )
    return figure


def _draw_line(
    axis: "Axes", along: str, records: Sequence[Record], number: int, name: str
) -> None:
    points = sorted(
        (each.at[along], each.value, each.sem or 0.0)
        for each in records
        if each.value is not None
    )
    places, values, errors = zip(*points, strict=True)
    axis.errorbar(
        places,
        values,
        yerr=errors,
        color=COLOURS[number % len(COLOURS)],
        marker=MARKERS[number % len(MARKERS)],
        markersize=5,
        capsize=2,
        label=name,
    )
