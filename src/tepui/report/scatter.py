"""Clouds of points: one mark per ensemble, with a third quantity as its colour."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from tepui.report.figures import COLOURS, MARKERS
from tepui.report.studies import grid
from tepui.report.trade_offs import few_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Values = Sequence[float | None]


@dataclass(frozen=True)
class Cloud:
    """Points of one kind; those with a coordinate that is not defined are left out.

    Attributes:
        name: Of the kind.
        x: Along the first axis.
        y: Along the second.
        colour: What colours each point; without it they share a colour.
        slope: Of a line through the points' centre, in logarithms where the panel's
            axes are logarithmic; None draws none.
        joined: Whether a line runs from point to point.
    """

    name: str
    x: Values
    y: Values
    colour: Values | None = None
    slope: float | None = None
    joined: bool = False

    def points(self, log: bool = False) -> list[tuple[float, float, float]]:
        """Return x, y and colour of the points that can be drawn.

        Args:
            log: Whether axes are logarithmic, so that only positive numbers can.
        """
        colours: Values = [0.0] * len(self.x) if self.colour is None else self.colour
        return [
            (x, y, colour)
            for x, y, colour in zip(self.x, self.y, colours, strict=True)
            if x is not None
            and y is not None
            and colour is not None
            and (not log or (x > 0 and y > 0))
        ]


@dataclass(frozen=True)
class Scatter:
    """One panel.

    Attributes:
        title: Above it.
        x: What runs along the first axis.
        y: Along the second.
        clouds: The points.
        colour: What the colour says; empty where points have none.
        log: Whether both axes are logarithmic.
    """

    title: str
    x: str
    y: str
    clouds: tuple[Cloud, ...]
    colour: str = ""
    log: bool = False


def scatter_panels(panels: Sequence[Scatter], *, columns: int = 3) -> "Figure":
    """Draw clouds of points.

    Args:
        panels: Row by row.
        columns: At most so many side by side.

    Returns:
        The figure, with a colour bar beside each panel that has colours.
    """
    figure, axes = grid(len(panels), columns)
    for axis, panel in zip(axes, panels, strict=True):
        _draw(figure, axis, panel)
    return figure


def _draw(figure: "Figure", axis: "Axes", panel: Scatter) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    coloured = [c for cloud in panel.clouds if cloud.colour for c in _colours(cloud)]
    scale = None
    if coloured:
        scale = ScalarMappable(Normalize(min(coloured), max(coloured)), "coolwarm")
        figure.colorbar(scale, ax=axis, label=panel.colour)
    for number, cloud in enumerate(panel.clouds):
        points = cloud.points(panel.log)
        if not points:
            continue
        x, y, colour = zip(*points, strict=True)
        own = COLOURS[number % len(COLOURS)]
        if cloud.joined:
            axis.plot(x, y, color=own)
        if cloud.slope is not None:
            axis.plot(*_line(x, y, cloud.slope, panel.log), color="#666666", zorder=1)
        axis.scatter(
            x,
            y,
            c=own
            if cloud.colour is None or scale is None
            else scale.to_rgba(np.asarray(colour)),
            marker=MARKERS[number % len(MARKERS)],
            edgecolors="#333333",
            linewidths=0.7,
            label=cloud.name,
        )
    axis.set_title(panel.title)
    axis.set_xlabel(panel.x)
    axis.set_ylabel(panel.y)
    if panel.log:
        axis.set_xscale("log")
        axis.set_yscale("log")
        for side in (axis.xaxis, axis.yaxis):
            few_ticks(side)
    _legend(axis, uncoloured=scale is None)


def _colours(cloud: Cloud) -> list[float]:
    return [colour for _, _, colour in cloud.points()]


def _line(
    x: Sequence[float], y: Sequence[float], slope: float, log: bool
) -> tuple[list[float], list[float]]:
    """Return the ends of a line of some slope through the centre of points."""
    there, back = (math.log, math.exp) if log else (float, float)
    centre_x, centre_y = (fmean(map(there, values)) for values in (x, y))
    ends = [min(x), max(x)]
    return ends, [back(centre_y + slope * (there(end) - centre_x)) for end in ends]


def _legend(axis: "Axes", *, uncoloured: bool) -> None:
    """Name the kinds of points below the panel, hollow where colour says more."""
    _, names = axis.get_legend_handles_labels()
    if not any(names):
        return
    legend = axis.legend(
        fontsize="small",
        frameon=False,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.26),
        ncols=1 if any(len(name) > 20 for name in names) else 2,
    )
    if not uncoloured:
        for handle in legend.legend_handles:
            if handle is not None and hasattr(handle, "set_facecolor"):
                handle.set_facecolor("white")
