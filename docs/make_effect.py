"""Draw what ensembles gain, and what methods add, from the results of decision 002.

PYTHONPATH=src:benchmarks python3 docs/make_effect.py
"""

from collections.abc import Sequence
from typing import NamedTuple

import make_which_rule
import matplotlib as mpl
from block_tables import Arms
from decision_designs import DESIGNS
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from score_tables import IMAGES

from tepui.report.drawing import STYLE, as_svg
from tepui.studies.statistics import mean_interval

LABELS = {
    "deep_ensemble": "plain\n(deep ensemble)",
    "sam": "SAM",
    "released": "SharpBalance,\nafter SAM",
    "late": "SharpBalance,\nfrom half on",
}
TITLES = {"clean": "clean images", "corrupted": "corrupted images"}


class Palette(NamedTuple):
    """Colors that read well on a page; those of the report."""

    ink: str
    grid: str
    paper: str  # inside hollow marks
    arms: tuple[str, ...]


PALETTES = {
    "effect": Palette(
        "#1b1f24", "#e9ebed", "#ffffff", ("#0067a5", "#b84a00", "#00786c", "#7a3fa8")
    ),
    "effect-dark": Palette(
        "#e8eaed", "#3a4148", "#14171a", ("#5cb3f0", "#ff9d5c", "#3fd0b0", "#cf9bf0")
    ),
}


def main() -> None:
    arms = Arms(make_which_rule.results("002"), LABELS, DESIGNS["002"].blocks)
    for name, palette in PALETTES.items():
        (IMAGES / f"{name}.svg").write_text(drawn(arms, palette))


def drawn(arms: Arms, palette: Palette) -> str:
    """Return a panel for each kind of images, a row for each method, on nothing."""
    with mpl.rc_context(style_of(palette)):
        figure = Figure(figsize=(5.8, 3.4), layout="constrained")
        axes = figure.subplots(1, 2, sharey=True)
        for axis, (data, title) in zip(axes, TITLES.items(), strict=True):
            for number, arm in enumerate(arms.labels):
                draw_row(axis, number, arms, arm, data, palette)
            axis.set_title(title, fontsize=11)
            axis.set_xlabel("right answers, %")
            axis.locator_params(axis="x", nbins=5)
        axes[0].set_yticks(range(len(arms.labels)), arms.labels.values())
        axes[0].set_ylim(len(arms.labels) - 0.5, -0.5)
        handles, labels = axes[0].get_legend_handles_labels()
        place = "outside lower center"
        figure.legend(handles[:2], labels[:2], loc=place, ncols=2, frameon=False)
        return as_svg(figure)


def style_of(palette: Palette) -> dict[str, object]:
    """Return how a figure is drawn in a palette."""
    inked = ("text.color", "axes.edgecolor", "axes.labelcolor")
    return {
        **STYLE,
        **dict.fromkeys((*inked, "xtick.color", "ytick.color"), palette.ink),
        "grid.color": palette.grid,
        "figure.facecolor": "none",
        "axes.facecolor": "none",
        "savefig.facecolor": "none",
    }


def draw_row(
    axis: Axes, number: int, arms: Arms, arm: str, data: str, palette: Palette
) -> None:
    """Draw the mean of single members and of their ensembles, with intervals."""
    ensembles = arms.ensembles(arm)
    alone = [100 * each[data]["individual_accuracy"] for each in ensembles]
    color = palette.arms[number]
    draw_mean(axis, number, alone, color, palette.paper, "one network of the three")
    draw_mean(
        axis, number, arms.accuracies(arm, data), color, color, "the three together"
    )


def draw_mean(
    axis: Axes, number: int, values: Sequence[float], edge: str, face: str, label: str
) -> None:
    """Draw a mean and its 95 % interval."""
    found = mean_interval(values)
    axis.errorbar(
        found.mean,
        number,
        xerr=[[found.mean - found.low], [found.high - found.mean]],
        color=edge,
        marker="o",
        markersize=8,
        markerfacecolor=face,
        capsize=3,
        label=label,
    )


if __name__ == "__main__":
    main()
