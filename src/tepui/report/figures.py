"""The plots of a comparison, each a function from a comparison to a figure."""

import math
from collections.abc import Mapping
from io import BytesIO, StringIO
from typing import TYPE_CHECKING, Any

from tepui.studies import Comparison, MethodResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette: told apart by people with any color vision.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
GRID = "#e5e5e5"
STYLE: Any = {
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": GRID,
    "axes.axisbelow": True,
    "svg.hashsalt": "tepui",
    "svg.fonttype": "none",
}


def look(number: int) -> dict[str, Any]:
    """Return color and marker of a method; the first 49 differ in one of them.

    Example:
        >>> look(0)["color"] == look(7)["color"], look(0) == look(7)
        (True, False)
    """
    turn, color = divmod(number, len(COLORS))
    marker = MARKERS[(color + turn) % len(MARKERS)]
    return {"color": COLORS[color], "marker": marker}


def accuracy_bars(comparison: Comparison) -> "Figure":
    """Individual accuracy with the ensemble's improvement on top."""
    panels = ["clean", "shifted"] if comparison.has_shift else ["clean"]
    figure, axes = _panels(len(panels))
    for axis, data in zip(axes, panels, strict=True):
        for position, method in enumerate(comparison.methods):
            _bar(axis, position, method, data)
        axis.set_title("clean test data" if data == "clean" else "corrupted test data")
        axis.set_ylabel("accuracy in %")
        axis.set_xticks(range(len(comparison.methods)))
        axis.set_xticklabels(
            [_wrapped(m.label) for m in comparison.methods], **_turned(comparison)
        )
        axis.set_xlim(-0.75, len(comparison.methods) - 0.25)
        axis.set_ylim(*_limits(comparison, data))
        axis.grid(axis="x", visible=False)
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(
        handles[:2], names[:2], loc="outside lower center", ncols=2, frameon=False
    )
    return figure


def accuracy_by_severity(comparison: Comparison) -> "Figure":
    """Accuracy of the ensemble as the corruption grows; severity 0 is clean."""
    figure, (axis,) = _panels(1)
    for number, method in enumerate(comparison.methods):
        levels = list(method.ensembles[0].evaluation["severities"])
        points = [method.score("clean", "accuracy")]
        points += [method.severity(level, "accuracy") for level in levels]
        axis.errorbar(
            range(len(points)),
            [100 * point.mean for point in points],
            yerr=[_error(100 * point.error) for point in points],
            **look(number),
            capsize=3,
            label=method.label,
        )
    axis.set_xticks(range(len(points)))
    axis.set_xticklabels(["clean", *levels])
    axis.set_xlabel("severity of the corruption")
    axis.set_ylabel("ensemble accuracy in %")
    axis.legend(frameon=False)
    return figure


def reliability_diagram(comparison: Comparison) -> "Figure":
    """Accuracy against confidence; the diagonal is perfect calibration."""
    panels = ["clean", "shifted"] if comparison.has_shift else ["clean"]
    figure, axes = _panels(len(panels))
    for axis, data in zip(axes, panels, strict=True):
        axis.plot([0, 1], [0, 1], color="#888888", linestyle="--", linewidth=1)
        for number, method in enumerate(comparison.methods):
            confidence, accuracy, share = _bins(method, data)
            color = look(number)["color"]
            axis.plot(confidence, accuracy, color=color, label=method.label)
            axis.scatter(
                confidence,
                accuracy,
                s=[12 + 200 * weight for weight in share],
                **look(number),
                alpha=0.6,
            )
        axis.set_title("clean test data" if data == "clean" else "corrupted test data")
        axis.set_xlabel("confidence")
        axis.set_ylabel("accuracy")
        axis.set_xlim(0, 1.02)
        axis.set_ylim(0, 1.02)
        axis.set_aspect("equal")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=2, frameon=False)
    return figure


def sharpness_and_diversity(comparison: Comparison) -> "Figure":
    """The members' sharpness against their diversity, one point per ensemble."""
    panels = ["clean", "shifted"] if comparison.has_shift else ["clean"]
    figure, axes = _panels(len(panels))
    for axis, data in zip(axes, panels, strict=True):
        for number, method in enumerate(comparison.methods):
            points = [
                (trained.sharpness["mean"], trained.evaluation[data]["der"])
                for trained in method.ensembles
                if trained.sharpness is not None
            ]
            axis.scatter(
                [x for x, y in points if y is not None],
                [y for x, y in points if y is not None],
                **look(number),
                s=60,
                label=method.label,
            )
        axis.set_title("clean test data" if data == "clean" else "corrupted test data")
        axis.set_xlabel("sharpness of the members")
        axis.set_ylabel("disagreement over error (DER)")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=2, frameon=False)
    return figure


def as_svg(figure: "Figure") -> str:
    """Return a figure as an SVG element, the same bytes for the same figure."""
    import matplotlib as mpl

    buffer = StringIO()
    with mpl.rc_context(STYLE):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def as_png(figure: "Figure") -> bytes:
    """Return a figure as a PNG file."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()


def _panels(count: int) -> "tuple[Figure, list[Axes]]":
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(
            figsize=(4.8 * count, 3.8) if count > 1 else (6.4, 3.8),
            layout="constrained",
        )
        axes = [figure.add_subplot(1, count, n + 1) for n in range(count)]
    return figure, axes


def _bar(axis: "Axes", position: int, method: MethodResult, data: str) -> None:
    individual = method.score(data, "individual_accuracy")
    ensemble = method.score(data, "accuracy")
    gain = 100 * (ensemble.mean - individual.mean)
    axis.bar(
        position,
        100 * individual.mean,
        width=0.6,
        color="#9ecae1",
        label="members, on average",
    )
    axis.bar(
        position,
        gain,
        bottom=100 * individual.mean,
        width=0.6,
        color="#0072B2",
        label="gained by the ensemble",
        yerr=_error(100 * ensemble.error),
        capsize=4,
    )
    axis.annotate(
        f"{100 * ensemble.mean:.1f}",
        (position, 100 * ensemble.mean + _error(100 * ensemble.error)),
        xytext=(0, 3),
        textcoords="offset points",
        ha="center",
    )


def _limits(comparison: Comparison, data: str) -> tuple[float, float]:
    low = min(m.score(data, "individual_accuracy").mean for m in comparison.methods)
    tops = [m.score(data, "accuracy") for m in comparison.methods]
    high = max(top.mean + _error(top.error) for top in tops)
    span = max(high - low, 0.01)
    return max(0.0, math.floor(100 * (low - 2 * span))), 100 * (high + 0.4 * span)


def _bins(
    method: MethodResult, data: str
) -> tuple[list[float], list[float], list[float]]:
    """Pool the bins of all ensembles; bins of fewer than ten samples are left out."""
    pooled: dict[int, list[float]] = {}
    for trained in method.ensembles:
        bins: Mapping[str, Any] = trained.evaluation["reliability"][data]
        for index, count in enumerate(bins["count"]):
            if count:
                sums = pooled.setdefault(index, [0.0, 0.0, 0.0])
                sums[0] += count * bins["confidence"][index]
                sums[1] += count * bins["accuracy"][index]
                sums[2] += count
    total = sum(sums[2] for sums in pooled.values())
    ordered = [pooled[index] for index in sorted(pooled) if pooled[index][2] >= 10]
    return (
        [sums[0] / sums[2] for sums in ordered],
        [sums[1] / sums[2] for sums in ordered],
        [sums[2] / total for sums in ordered],
    )


def _error(value: float) -> float:
    return 0.0 if math.isnan(value) else value


def _turned(comparison: Comparison) -> dict[str, Any]:
    """Return the rotation of labels below an axis, where there are many."""
    if len(comparison.methods) <= 3:
        return {}
    return {"rotation": 30, "ha": "right", "rotation_mode": "anchor"}


def _wrapped(label: str) -> str:
    return label.replace("(", "\n(", 1).replace(", ", ",\n")
