"""What a comparison's page says about unfamiliar samples: table, plots and pictures."""

from pathlib import Path
from typing import TYPE_CHECKING

from tepui.report.drawing import STYLE
from tepui.report.markup import paragraph, part
from tepui.report.tables import Column, Row, best_of, cell
from tepui.studies import Comparison, MethodResult
from tepui.studies.gallery import Gallery, read_gallery

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MISTAKES = "mistakes on clean data"
FAMILIAR, UNFAMILIAR = "#0072B2", "#D55E00"
AXES = {
    "pds": "PDS",
    "max_mean_probability": "1 − max mean probability",  # noqa: RUF001 - a minus sign
}
AUROC = Column("auroc", "AUROC", percent=True, best="max")


def auroc_rows(comparison: Comparison) -> list[Row]:
    """Return the table of AUROC, one column per score."""
    rows = []
    scores = comparison.detecting_scores
    for data in (*([None] if comparison.has_mistakes else []), *comparison.ood_sets):
        estimates = {
            method.label: [
                method.mistakes(score)
                if data is None
                else method.detection(data, score)
                for score in scores
            ]
            for method in comparison.methods
        }
        columns = zip(*estimates.values(), strict=True)
        winners = [
            best_of([estimate.mean for estimate in column], AUROC) for column in columns
        ]
        rows += [
            Row(
                MISTAKES if data is None else data,
                label,
                tuple(cell(estimate, AUROC) for estimate in row),
                tuple(e.mean == w for e, w in zip(row, winners, strict=True)),
            )
            for label, row in estimates.items()
        ]
    return rows


def ood_histograms(comparison: Comparison, data: str) -> "Figure":
    """How two scores are distributed on test samples and on an unfamiliar set."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    methods = comparison.methods
    with mpl.rc_context(STYLE):
        size = (9.6, 2.3 * len(methods) + 0.8)
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(
            len(methods), 2, squeeze=False, sharex="col", sharey=True
        )
    for row, method in zip(axes, methods, strict=True):
        for axis, score in zip(row, AXES, strict=True):
            _draw(axis, method, score, data)
        row[0].set_ylabel("share of samples")
    for axis, title in zip(axes[-1], AXES.values(), strict=True):
        axis.set_xlabel(f"{title} (higher is less familiar)")
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=2, frameon=False)
    return figure


def galleries(comparison: Comparison) -> list[str]:
    """Return the pictures of each method's first ensemble as HTML."""
    parts: list[str] = []
    for method in comparison.methods:
        pictures = read_gallery(Path(method.ensembles[0].folder))
        for gallery in pictures:
            parts += _gallery(gallery, method.label)
    if not parts:
        return []
    about = (
        "The samples to which members give the most similar (lowest PDS) and the most "
        "different predictions (highest PDS). Below each picture stand its PDS and the "
        "class that each member chooses; for test samples, the true class comes first."
    )
    return [paragraph(about), *parts]


def _draw(axis: "Axes", method: MethodResult, score: str, data: str) -> None:
    from matplotlib.ticker import MaxNLocator

    histograms = [
        trained.evaluation["histograms"][score] for trained in method.ensembles
    ]
    low, high = histograms[0]["low"], histograms[0]["high"]
    for name, color, counts in (
        ("test samples", FAMILIAR, [histogram["clean"] for histogram in histograms]),
        (
            "unfamiliar samples",
            UNFAMILIAR,
            [histogram["ood"][data] for histogram in histograms],
        ),
    ):
        pooled = [sum(bins) for bins in zip(*counts, strict=True)]
        width = (high - low) / len(pooled)
        shares = [count / sum(pooled) for count in pooled]
        edges = [low + width * edge for edge in range(len(pooled) + 1)]
        axis.stairs(shares, edges, color=color, fill=True, alpha=0.3, label=name)
        axis.stairs(shares, edges, color=color, linewidth=1.2)
    axis.set_yscale("log")
    axis.xaxis.set_major_locator(MaxNLocator(5))
    auroc = cell(method.detection(data, score), AUROC)
    axis.set_title(f"{method.label}: AUROC {auroc} %", fontsize=10)


def _gallery(gallery: Gallery, method: str) -> list[str]:
    data = "test samples" if gallery.data is None else gallery.data
    strips = {"lowest PDS": gallery.lowest, "highest PDS": gallery.highest}
    return [
        part("strip", f"{method}, ensemble 1: {data}, {title}", data, pictures)
        for title, pictures in strips.items()
    ]
