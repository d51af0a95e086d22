"""What training cost, and what a prediction costs: time, operations and memory."""

import math
from collections.abc import Mapping, Sequence

from markupsafe import Markup

from tepui.report.loading import Entry, Group
from tepui.report.markup import TableCell, note, table
from tepui.report.run_ends import epochs_of
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


def price_table(group: Group) -> list[Markup]:
    """Return what each method cost; columns of which nothing is known are left out."""
    columns: dict[str, list[str | TableCell]] = {}
    for entry in group.entries:
        ensembles = entry.result.ensembles
        peak = peak_memory(entry)
        cells: dict[str, str | TableCell] = {
            "method": entry.result.label,
            "epochs": epochs_of(entry) or DASH,
            "passes, all members": str(entry.training.get("passes", DASH)),
            "training, s": _cell([each.seconds for each in ensembles], 1),
            "peak memory, GiB": DASH if peak is None else f"{peak / 2**30:.2f}",
        }
        costs = [each.cost for each in ensembles if each.cost is not None]
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


def cost(group: Group) -> list[Markup]:
    """Return how long each activity of training took; of one method its price, too."""
    found = {
        entry.result.label: [each.timeline for each in entry.outcomes if each.timeline]
        for entry in group.entries
    }
    parts = price_table(group) if len(found) == 1 else []
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


def peak_memory(entry: Entry) -> int | None:
    """Return the peak GPU memory of any ensemble in bytes; None if unknown."""
    peaks = [record.peak_memory for own in entry.outcomes for record in own.history]
    return max((peak for peak in peaks if peak is not None), default=None)
