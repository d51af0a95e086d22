"""Clouds of points: one mark per ensemble, with a third quantity as its color."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from tepui.report.drawing import COLORS, MARKERS, few_ticks, grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Values = Sequence[float | None]


@dataclass(frozen=True)
class Cloud:
    """Points of one kind; those with a coordinate that is not defined are left out."""

    name: str  # of the kind
    x: Values  # along the first axis
    y: Values  # along the second
    color: Values | None = None  # what colors each point; without it they share a color
    # of a line through the points' center, in logarithms where the panel's axes are
    # logarithmic; None draws none
    slope: float | None = None
    joined: bool = False  # whether a line runs from point to point

    def points(self, log: bool = False) -> list[tuple[float, float, float]]:
        """Return x, y and color of the points that can be drawn."""
        colors: Values = [0.0] * len(self.x) if self.color is None else self.color
        return [
            (x, y, color)
            for x, y, color in zip(self.x, self.y, colors, strict=True)
            if x is not None
            and y is not None
            and color is not None
            and (not log or (x > 0 and y > 0))
        ]


@dataclass(frozen=True)
class Scatter:
    """One panel."""

    title: str  # above it
    x: str  # what runs along the first axis
    y: str  # along the second
    clouds: tuple[Cloud, ...]  # the points
    color: str = ""  # what the color says; empty where points have none
    log: bool = False  # whether both axes are logarithmic


def scatter_panels(panels: Sequence[Scatter], *, columns: int = 3) -> "Figure":
    """Draw clouds of points."""
    figure, axes = grid(len(panels), columns)
    for axis, panel in zip(axes, panels, strict=True):
        _draw(figure, axis, panel)
    return figure


def _draw(figure: "Figure", axis: "Axes", panel: Scatter) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    colored = [c for cloud in panel.clouds if cloud.color for c in _colors(cloud)]
    scale = None
    if colored:
        scale = ScalarMappable(Normalize(min(colored), max(colored)), "coolwarm")
        figure.colorbar(scale, ax=axis, label=panel.color)
    for number, cloud in enumerate(panel.clouds):
        points = cloud.points(panel.log)
        if not points:
            continue
        x, y, color = zip(*points, strict=True)
        plain = COLORS[number % len(COLORS)]
        if cloud.joined:
            axis.plot(x, y, color=plain)
        if cloud.slope is not None:
            axis.plot(*_line(x, y, cloud.slope, panel.log), color="#666666", zorder=1)
        axis.scatter(
            x,
            y,
            c=plain
            if cloud.color is None or scale is None
            else scale.to_rgba(np.asarray(color)),
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
    _legend(axis, uncolored=scale is None)


def _colors(cloud: Cloud) -> list[float]:
    return [color for _, _, color in cloud.points()]


def _line(
    x: Sequence[float], y: Sequence[float], slope: float, log: bool
) -> tuple[list[float], list[float]]:
    """Return the ends of a line of some slope through the center of points."""
    there, back = (math.log, math.exp) if log else (float, float)
    center_x, center_y = (fmean(map(there, values)) for values in (x, y))
    ends = [min(x), max(x)]
    return ends, [back(center_y + slope * (there(end) - center_x)) for end in ends]


def _legend(axis: "Axes", *, uncolored: bool) -> None:
    """Add a legend below the panel; marks are hollow where color has a meaning."""
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
    if not uncolored:
        for handle in legend.legend_handles:
            if handle is not None and hasattr(handle, "set_facecolor"):
                handle.set_facecolor("white")
