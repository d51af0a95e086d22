"""Diversity against sharpness: curves of theory and simulation, drawn."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tepui.report.drawing import few_ticks, grid, legend_below
from tepui.theory.moments import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DIVERGENT = "#fbe3dc"
SIMULATED = "#444444"


@dataclass(frozen=True)
class Curve:
    """Points of one method along one changing hyperparameter."""

    method: str  # its name
    k: FloatArray  # steps
    eta: FloatArray  # step sizes
    rho: FloatArray  # SAM's perturbation radii
    stable: NDArray[np.bool_]  # whether SAM converges there
    diversity: FloatArray  # what theory says
    sharpness_upper: FloatArray  # the upper bound that theory gives
    sharpness_lower: FloatArray  # the lower bound; NaN where there is none
    # the mean over repetitions; NaN where not simulated
    diversity_simulated: FloatArray
    diversity_error: FloatArray  # its standard error
    sharpness_simulated: FloatArray  # the mean over repetitions
    sharpness_error: FloatArray  # its standard error

    def part(self, points: slice) -> "Curve":
        """Return some of the points."""
        columns = (getattr(self, name)[points] for name in COLUMNS)
        return Curve(self.method, *columns)


COLUMNS = tuple(field.name for field in fields(Curve))[1:]


@dataclass(frozen=True)
class Panel:
    """Curves that share axes."""

    title: str  # what they show
    curves: tuple[Curve, ...]  # the curves
    logarithmic: bool = False  # whether both axes are


def trade_off_figure(
    panels: Sequence[Panel], colors: Mapping[str, str], columns: int
) -> "Figure":
    """Draw panels of diversity against sharpness.

    Lines are theory: solid where SAM is stable, dotted where it diverges; panels with
    nothing but divergence are tinted. The upper bound lies right of the lower bound.
    Marks with error bars are simulated.
    """
    figure, axes = grid(len(panels), columns)
    for axis, panel in zip(axes, panels, strict=True):
        _draw(axis, panel, colors)
        axis.set_xlabel("sharpness")
        axis.set_ylabel("diversity")
    legend_below(figure, axes, columns)
    return figure


def _draw(axis: "Axes", panel: Panel, colors: Mapping[str, str]) -> None:
    axis.set_title(panel.title)
    if not any(curve.stable.any() for curve in panel.curves):
        axis.set_facecolor(DIVERGENT)
    for curve in panel.curves:
        color = colors[curve.method]
        _theory(axis, curve, curve.stable, color, "-", curve.method)
        _theory(axis, curve, ~curve.stable, color, ":", f"{curve.method}, divergent")
        if not np.isnan(curve.diversity_simulated).all():
            axis.errorbar(
                curve.sharpness_simulated,
                curve.diversity_simulated,
                xerr=curve.sharpness_error,
                yerr=curve.diversity_error,
                color=SIMULATED,
                linestyle="none",
                linewidth=1,
                marker=".",
                markersize=4,
                label="simulated ± standard error",
            )
    if panel.logarithmic:
        axis.set_xscale("log")
        axis.set_yscale("log")
        for side in (axis.xaxis, axis.yaxis):
            few_ticks(side)


def _theory(
    axis: "Axes",
    curve: Curve,
    where: NDArray[np.bool_],
    color: str,
    style: str,
    name: str,
) -> None:
    """Draw the bounds over part of a curve, the lower one paler."""
    diversity = np.where(where, curve.diversity, np.nan)
    bounds = [(curve.sharpness_upper, name, 1.0)]
    bounds += [(curve.sharpness_lower, f"{name}: lower bound", 0.4)]
    for sharpness, label, alpha in bounds:
        if np.isfinite(diversity * sharpness).any():
            axis.plot(
                sharpness,
                diversity,
                color=color,
                alpha=alpha,
                linestyle=style,
                linewidth=2,
                label=label,
            )
