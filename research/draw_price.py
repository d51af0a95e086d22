"""Draw what the arms of ``equal_price.md`` are worth against what they cost.

PYTHONPATH=src python3 research/draw_price.py
"""

from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from recompute import read

from tepui.report.drawing import STYLE, as_svg
from tepui.studies.statistics import mean_interval

IMAGES = Path(__file__).parents[1] / "docs" / "images"
MEMBERS = {"plain": 1, "four members": 4 / 3, "five members": 5 / 3, "six members": 2}
SAME = 1.5  # the price of both others
# Ink, grid, and the colors of members, epochs and SharpBalance.
PALETTES = {
    "price": ("#1b1f24", "#e9ebed", "#0067a5", "#b84a00", "#7a3fa8"),
    "price-dark": ("#e8eaed", "#3a4148", "#5cb3f0", "#ff9d5c", "#cf9bf0"),
}


def main() -> None:
    values = read()
    for name, (ink, grid, *colors) in PALETTES.items():
        inked = ("text.color", "axes.edgecolor", "axes.labelcolor")
        style = dict.fromkeys((*inked, "xtick.color", "ytick.color"), ink)
        faces = ("figure.facecolor", "axes.facecolor", "savefig.facecolor")
        style |= {"grid.color": grid, **dict.fromkeys(faces, "none")}
        with mpl.rc_context({**STYLE, **style}):
            figure = Figure(figsize=(5.8, 3.1), layout="constrained")
            for axes, measure in zip(figure.subplots(1, 2), "AC", strict=True):
                draw(axes, {arm: each[measure] for arm, each in values.items()}, colors)
            titles = ("clean images", "corrupted images")
            for axes, title in zip(figure.axes, titles, strict=True):
                axes.set_title(title, fontsize=11)
                axes.set_xlabel("price in passes")
                axes.set_xticks([1, 1.5, 2])
            figure.axes[0].set_ylabel("right answers, %")
            handles = figure.axes[0].get_legend_handles_labels()
            figure.legend(*handles, loc="outside lower center", ncols=3, frameon=False)
            (IMAGES / f"{name}.svg").write_text(as_svg(figure))


def draw(axes: Axes, values: dict[str, list[float]], colors: list[str]) -> None:
    """Draw means with 95 % intervals; members in a line, the others to their sides."""
    arms = {
        "3, 4, 5, 6 members": (MEMBERS, "o-"),
        "60 epochs, not 40": ({"epochs": SAME - 0.02}, "D"),
        "SharpBalance": ({"SharpBalance": SAME + 0.02}, "s"),
    }
    for (label, (at, mark)), color in zip(arms.items(), colors, strict=True):
        found = [mean_interval(list(values[arm])) for arm in at]
        means = [each.mean for each in found]
        reach = [each.high - each.mean for each in found]
        how = {"color": color, "capsize": 3, "label": label, "markersize": 7}
        axes.errorbar([*at.values()], means, yerr=reach, fmt=mark, **how)


if __name__ == "__main__":
    main()
