"""Plots of the measures of an ensemble's members."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tepui.evaluation.measure import EnsembleMeasurement
from tepui.report.drawing import COLORS, STYLE, grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor


def sharpness_of_members(measures: Mapping[str, EnsembleMeasurement]) -> "Figure":
    """Every measure in a panel of its own, one bar per member."""
    figure, axes = grid(len(measures), size=(3.4, 2.8))
    for axis, (name, measured) in zip(axes, measures.items(), strict=True):
        errors = [member.standard_error for member in measured.members]
        places = range(1, len(measured.members) + 1)
        axis.bar(
            places,
            [member.value for member in measured.members],
            yerr=[0.0 if math.isnan(error) else error for error in errors],
            color=COLORS[0],
            capsize=4,
            width=0.6,
        )
        axis.set_title(name.replace("_", " "))
        axis.set_xticks(places)
        axis.set_xlabel("member")
        axis.grid(axis="x", visible=False)
    return figure


def disagreement_of_pairs(matrix: "Tensor") -> "Figure":
    """How often each pair of members disagrees."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    members = len(matrix)
    with mpl.rc_context({**STYLE, "axes.grid": False}):
        size = 2.4 + 0.6 * members
        figure = Figure(figsize=(size + 1, size), layout="constrained")
        axis = figure.add_subplot()
        image = axis.imshow(matrix.numpy(), cmap="Blues", vmin=0)
        middle = float(matrix.max()) / 2
        for row in range(members):
            for column in range(members):
                value = float(matrix[row, column])
                color = "white" if value > middle else "black"
                text = f"{100 * value:.1f}"
                axis.text(column, row, text, ha="center", va="center", color=color)
        axis.set_xticks(range(members), [str(m + 1) for m in range(members)])
        axis.set_yticks(range(members), [str(m + 1) for m in range(members)])
        axis.set_xlabel("member")
        axis.set_ylabel("member")
        axis.set_title("samples on which two members differ, in %")
        figure.colorbar(image, ax=axis)
    return figure
