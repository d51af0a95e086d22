"""The plots of a comparison, each a function from a comparison to a figure."""

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tepui.report.bars import Bar, bar_panels
from tepui.report.drawing import grid, legend_below, look
from tepui.report.tables import kinds
from tepui.studies import Comparison, MethodResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLES = {"clean": "clean test data", "shifted": "corrupted test data"}
SIZE = (4.8, 3.8)


def accuracy_bars(comparison: Comparison) -> "Figure":
    """Individual accuracy with the ensemble's improvement on top."""
    panels = {
        TITLES.get(data, data): [_bar(method, data) for method in comparison.methods]
        for data in kinds(comparison)
    }
    figure = bar_panels(panels)
    figure.set_size_inches(max(SIZE[0] * len(panels), 6.4), SIZE[1])
    if len(comparison.methods) > 3:
        for axis in figure.axes:
            axis.tick_params(axis="x", labelrotation=30)
            for label in axis.get_xticklabels():
                label.set(ha="right", rotation_mode="anchor")
    return figure


def accuracy_by_severity(comparison: Comparison) -> "Figure":
    """Accuracy of the ensemble as the corruption grows; severity 0 is clean."""
    figure, (axis,) = grid(1, size=(6.4, 3.8))
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

    def draw(axis: "Axes", data: str) -> None:
        axis.plot([0, 1], [0, 1], color="#888888", linestyle="--", linewidth=1)
        for number, method in enumerate(comparison.methods):
            confidence, accuracy, share = _bins(method, data)
            color = look(number)["color"]
            axis.plot(confidence, accuracy, color=color, label=method.label)
            sizes = [12 + 200 * weight for weight in share]
            axis.scatter(confidence, accuracy, s=sizes, **look(number), alpha=0.6)
        axis.set(xlabel="confidence", ylabel="accuracy")
        axis.set(xlim=(0, 1.02), ylim=(0, 1.02), aspect="equal")

    return _by_kind(comparison, draw)


def sharpness_and_diversity(comparison: Comparison) -> "Figure":
    """The members' sharpness against their diversity, one point per ensemble."""

    def draw(axis: "Axes", data: str) -> None:
        for number, method in enumerate(comparison.methods):
            points = [
                (trained.sharpness["mean"], trained.evaluation[data]["der"])
                for trained in method.ensembles
                if trained.sharpness is not None
                and trained.evaluation[data]["der"] is not None
            ]
            x, y = ([point[place] for point in points] for place in (0, 1))
            axis.scatter(x, y, **look(number), s=60, label=method.label)
        axis.set_xlabel("sharpness of the members")
        axis.set_ylabel("disagreement over error (DER)")

    return _by_kind(comparison, draw)


def _by_kind(comparison: Comparison, draw: "Callable[[Axes, str], None]") -> "Figure":
    """Draw a panel for clean data and one for corrupted data, if there are any."""
    panels = ["clean", "shifted"] if comparison.has_shift else ["clean"]
    figure, axes = grid(len(panels), size=SIZE if len(panels) > 1 else (6.4, 3.8))
    for axis, data in zip(axes, panels, strict=True):
        draw(axis, data)
        axis.set_title(TITLES[data])
    legend_below(figure, axes, columns=2)
    return figure


def _bar(method: MethodResult, data: str) -> Bar:
    members = method.score(data, "individual_accuracy")
    ensemble = method.score(data, "accuracy")
    error = None if math.isnan(ensemble.error) else 100 * ensemble.error
    label = method.label.replace("(", "\n(", 1).replace(", ", ",\n")
    return Bar(label, 100 * members.mean, 100 * ensemble.mean, error)


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
