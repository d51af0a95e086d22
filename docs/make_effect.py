"""Draw what ensembles gain, and what methods add, from the results of decision 002.

PYTHONPATH=src:benchmarks python3 docs/make_effect.py
"""

from collections.abc import Sequence

import make_which_rule
import matplotlib as mpl
from block_tables import Arms
from branched_arms import DESIGNS
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from score_tables import IMAGES

from tepui.report.drawing import COLORS, STYLE
from tepui.studies.statistics import mean_interval

LABELS = {
    "deep_ensemble": "plain\n(deep ensemble)",
    "sam": "SAM",
    "released": "SharpBalance",
    "late": "SharpBalance,\nfrom half on",
}
TITLES = {"clean": "clean images", "corrupted": "corrupted images"}


def main() -> None:
    draw(Arms(make_which_rule.results("002"), LABELS, DESIGNS["002"].blocks))


def draw(arms: Arms) -> None:
    """Draw a panel for each kind of images, a row for each method."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.6, 3.3), layout="constrained")
        axes = figure.subplots(1, 2, sharey=True)
        for axis, (data, title) in zip(axes, TITLES.items(), strict=True):
            for number, arm in enumerate(arms.labels):
                draw_row(axis, number, arms, arm, data)
            axis.set_title(title, fontsize=11)
            axis.set_xlabel("right answers, %")
        axes[0].set_yticks(range(len(arms.labels)), arms.labels.values())
        axes[0].set_ylim(len(arms.labels) - 0.5, -0.5)
        handles, labels = axes[0].get_legend_handles_labels()
        place = "outside lower center"
        figure.legend(handles[:2], labels[:2], loc=place, ncols=2, frameon=False)
        figure.savefig(IMAGES / "effect.png", dpi=200)


def draw_row(axis: Axes, number: int, arms: Arms, arm: str, data: str) -> None:
    """Draw the mean of single members and of their ensembles, with intervals."""
    ensembles = arms.ensembles(arm)
    alone = [100 * each[data]["individual_accuracy"] for each in ensembles]
    color = COLORS[number]
    draw_mean(axis, number, alone, color, "white", "one network of the three")
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
