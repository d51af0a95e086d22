"""A picture of what methods gained over a deep ensemble, study by study."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import matplotlib as mpl
from block_tables import Arms
from matplotlib.figure import Figure

from tepui.report.drawing import COLORS, MARKERS, STYLE, legend_below
from tepui.studies.significance import Difference

TITLES = {"clean": "clean images", "corrupted": "corrupted images"}
DODGE = 0.25  # between rows of one name, as a share of their distance
ROW_INCHES = 0.42


class Study(NamedTuple):
    """Ensembles that were trained beside deep ensembles of the same seeds."""

    name: str
    arms: Arms
    plain: str  # the deep ensemble among them


class Lead(NamedTuple):
    """What a method's ensembles gained in one study."""

    study: str
    by: Mapping[str, Difference]  # on clean and on corrupted images, in points


def leads(studies: Sequence[Study]) -> dict[str, list[Lead]]:
    """Return the gains by the methods' names, in the order of the studies."""
    found: dict[str, list[Lead]] = {}
    for study, arms, plain in studies:
        for arm, label in arms.labels.items():
            if arm != plain:
                by = {data: arms.difference(arm, plain, data) for data in TITLES}
                found.setdefault(label, []).append(Lead(study, by))
    return found


def drawn(rows: Mapping[str, Sequence[Lead]], studies: Sequence[str]) -> Figure:
    """Return a panel for each kind of images and a row for each method.

    Args:
        rows: Gains by the methods' names, the first at the top.
        studies: The studies' names, each with a color.
    """
    with mpl.rc_context(STYLE):
        inches = (9.0, 1.6 + ROW_INCHES * len(rows))
        figure = Figure(figsize=inches, layout="constrained")
        axes = figure.subplots(1, 2, sharey=True)
        for axis, (data, title) in zip(axes, TITLES.items(), strict=True):
            axis.axvline(0, color="0.35", linewidth=1)
            for style, study in enumerate(studies):
                for height, gain in _heights(rows, study, data):
                    axis.errorbar(
                        gain.mean,
                        height,
                        xerr=[[gain.mean - gain.low], [gain.high - gain.mean]],
                        color=COLORS[style],
                        marker=MARKERS[style],
                        markersize=6,
                        linestyle="",
                        label=study,
                    )
            axis.set_title(title)
            axis.set_xlabel("points over a deep ensemble")
            axis.grid(visible=True, axis="x")
        axes[0].set_yticks(range(len(rows)), [*rows])
        axes[0].invert_yaxis()
        legend_below(figure, axes)
    return figure


def _heights(
    rows: Mapping[str, Sequence[Lead]], study: str, data: str
) -> Iterator[tuple[float, Difference]]:
    """Yield where a study's gains stand; several of one method beside each other."""
    for number, found in enumerate(rows.values()):
        for place, lead in enumerate(found):
            if lead.study == study:
                yield number + DODGE * (place - (len(found) - 1) / 2), lead.by[data]
