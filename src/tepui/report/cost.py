"""What training cost, and what a prediction costs: time, operations and memory."""

import math
from collections.abc import Mapping, Sequence

from markupsafe import Markup

from tepui.report.comparison import Comparison, MethodResult
from tepui.report.markup import TableCell, note, table
from tepui.report.tables import interval_cell
from tepui.report.wording import DASH, number
from tepui.studies import estimate, mean_interval
from tepui.training.history import ACTIVITIES, Timeline

ABOUT = (
    "All members together; what they share counts once. One prediction is the median "
    "time of one sample alone, of the fastest ensemble."
)
# What is known of a prediction: its name there, how it is shown, and its digits.
PREDICTION = {
    "one prediction, ms": ("seconds", 1e3, 2),
    "million parameters": ("parameters", 1e-6, 2),
    "MFLOP": ("operations", 1e-6, 1),
    "weights, MiB": ("bytes", 2**-20, 2),
}


def price_table(comparison: Comparison) -> list[Markup]:
    """Return what each method cost; columns of which nothing is known are left out."""
    columns: dict[str, list[str | TableCell]] = {}
    for method in comparison.methods:
        spent = [sum(each.outcome.timeline.values()) for each in method.ensembles]
        peak = peak_memory(method)
        cells: dict[str, str | TableCell] = {
            "method": method.label,
            "epochs": epochs_of(method) or DASH,
            "passes, all members": str(method.training.get("passes", DASH)),
            "training, s": _cell(spent, 1),
            "peak memory, GiB": DASH if peak is None else f"{peak / 2**30:.2f}",
        }
        costs = [each.cost for each in method.ensembles if each.cost is not None]
        for heading, (name, scale, digits) in PREDICTION.items():
            least = min((cost[name] for cost in costs), default=math.nan)
            cells[heading] = number(scale * least, digits)
        for heading, cell in cells.items():
            columns.setdefault(heading, []).append(cell)
    known = {n: c for n, c in columns.items() if any(v != DASH for v in c)}
    rows = [*zip(*known.values(), strict=True)]
    return [table("What one ensemble cost", [*known], rows), note(ABOUT)]


def _cell(values: Sequence[float], digits: int) -> TableCell:
    return interval_cell(mean_interval(values).within(), digits)


def cost(comparison: Comparison) -> list[Markup]:
    """Return how long each activity of training took; of one method its price, too."""
    found = {
        method.label: [
            each.outcome.timeline for each in method.ensembles if each.outcome.timeline
        ]
        for method in comparison.methods
    }
    parts = price_table(comparison) if len(found) == 1 else []
    return [*parts, seconds_table(found)] if any(found.values()) else parts


def seconds_table(found: Mapping[str, Sequence[Timeline]]) -> Markup:
    """Return the mean seconds of every activity of training."""
    took_place = {name for spent in found.values() for line in spent for name in line}
    shown = [activity for activity in ACTIVITIES if activity in took_place]
    rows: list[list[str | TableCell]] = []
    for label, spent in found.items():
        parts = [[line.get(activity, 0.0) for line in spent] for activity in shown]
        means = [number(estimate(part).mean, 3) for part in parts]
        rows.append([label, *means, _cell([sum(line.values()) for line in spent], 3)])
    caption = "Seconds of training one ensemble, by activity"
    return table(caption, ["method", *shown, "all"], rows)


def epochs_of(method: MethodResult) -> str:
    """Return how many epochs were trained, of how many if fewer; empty if not known."""
    planned = method.training.get("epochs", "")
    ends = [each.outcome for each in method.ensembles]
    if not any(end.stopped_by for end in ends):
        return "" if planned is None else str(planned)
    counts = sorted(len(end.history) for end in ends)
    done = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
    return f"{done} of {planned}"


def peak_memory(method: MethodResult) -> int | None:
    """Return the peak GPU memory of any ensemble in bytes; None if unknown."""
    peaks = [row.peak_memory for own in method.ensembles for row in own.outcome.history]
    return max((peak for peak in peaks if peak is not None), default=None)
