"""What training cost, and what a prediction costs: time, operations and memory."""

import math
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from tepui.report.comparison import Trained
from tepui.report.contrasts import seed_pairs
from tepui.report.loading import Entry, Group
from tepui.report.markup import TableCell, figure, row_panels, table
from tepui.report.measures import measures_of
from tepui.report.shapes import (
    Axis,
    Box,
    Line,
    Panel,
    Plot,
    Row,
    Shape,
    axis_plot,
    grid_lines,
    look,
)
from tepui.report.tables import interval_cell
from tepui.report.wording import DASH, TIMES, number, role
from tepui.studies import Interval, estimate, mean_interval
from tepui.training.history import History

# Those of them that a task has stand beside what a prediction costs.
SHOWN_SCORES = ("accuracy", "rmse", "nll")


def cost_table(group: Group) -> Markup | None:
    """Return seconds per epoch, share of scoring and memory of each method."""
    times = [seconds_per_epoch(entry) for entry in group.entries]
    if not any(time.count for time in times):
        return None
    base, several = group.entries[0], len(group.entries) > 1
    rows: list[list[str | TableCell]] = [
        [
            entry.result.label,
            interval_cell(time, 3),
            *([_price_cell(entry, base)] if several else []),
            interval_cell(scoring_share(entry), 2),
            _gibibytes(peak_memory(entry)),
            number(estimate(t.seconds for t in entry.result.ensembles).mean),
            str(entry.training.get("hardware") or "unknown"),
        ]
        for entry, time in zip(group.entries, times, strict=True)
    ]
    headings = ["method", "seconds per epoch"]
    headings += [f"{TIMES} baseline"] if several else []
    headings += ["scoring %", "peak memory, GiB", "training, s", "hardware"]
    caption = "What training one ensemble cost, mean and 95 % interval"
    return table(caption, headings, rows)


def seconds_figure(group: Group) -> Markup | None:
    """Return seconds per epoch as bars from zero, with a tick per ensemble."""
    every = [epoch_seconds(entry) for entry in group.entries]
    top = max((s for own in every for s in own.values()), default=0.0)
    if not top:
        return None
    axis = Axis(0, 1.04 * top)
    base, rows, several = group.entries[0], [], len(group.entries) > 1
    for place, (entry, own) in enumerate(zip(group.entries, every, strict=True)):
        if not own:
            continue
        mean = estimate(own.values()).mean
        price = price_of(entry, base).mean if several else math.nan
        shapes: list[Shape] = [*grid_lines(axis, axis.ticks(), 36)]
        shapes.append(Box(0, 8, axis(mean), 20, f"bar {look(place).kind}"))
        shapes += [Line(axis(s), 4, axis(s), 32, "mark") for s in own.values()]
        per_epoch = f"{number(mean, 2)} s per epoch"
        times = per_epoch if math.isnan(price) else f"{TIMES} {number(price, 2)}"
        said = f"{entry.result.label}: {number(mean, 2)} seconds per epoch, {times}."
        notes = [] if math.isnan(price) else [per_epoch]
        under = role(place, len(group.entries))
        plot = Plot(36, shapes, said)
        rows.append(
            Row(look(place), entry.result.label, plot, times, notes, under=under)
        )
    factor = (
        "The factor is the mean over ensembles of the same seeds, where the hardware "
        "was the same. "
    )
    caption = (
        "Bars start at zero: mean seconds per epoch for all members together. Ticks: "
        f"single ensembles. {factor if several else ''}Times beside other work do not "
        "compare."
    )
    panel = Panel("", rows, axis_plot(axis), "seconds")
    return figure("Seconds per epoch", caption, row_panels([panel]))


def prediction_table(group: Group) -> Markup | None:
    """Return what a prediction of each method's ensemble costs, beside its scores."""
    known = [entry for entry in group.entries if _costs(entry)]
    if not known:
        return None
    scores = [m for m in measures_of(group.comparison) if m.score in SHOWN_SCORES]
    rows: list[list[str | TableCell]] = [
        [
            entry.result.label,
            f"{_mean(entry, 'parameters') / 1e6:.3g}",
            f"{_mean(entry, 'operations') / 1e6:.4g}",
            f"{1e3 * _mean(entry, 'seconds'):.3g}",
            f"{_mean(entry, 'bytes') / 2**20:.3g}",
            _mebibytes([cost["peak_bytes"] for cost in _costs(entry)]),
            *(interval_cell(m.of(entry.result, "clean"), m.digits) for m in scores),
            ", ".join(dict.fromkeys(str(cost["device"]) for cost in _costs(entry))),
        ]
        for entry in known
    ]
    headings = ["method", "million parameters", "MFLOP per sample", "latency, ms"]
    headings += ["weights, MiB", "peak memory, MiB"]
    headings += [*(measure.heading for measure in scores), "measured on"]
    return table("What a prediction of one ensemble costs", headings, rows)


def epoch_seconds(entry: Entry) -> dict[int, float]:
    """Return how long all members took for an epoch, by the place of the ensemble."""
    epochs = entry.training.get("epochs")
    seconds = {}
    pairs = zip(entry.result.ensembles, _histories(entry), strict=True)
    for place, (trained, history) in enumerate(pairs):
        if history:
            seconds[place] = sum(record.seconds for record in history) / len(history)
        elif epochs:
            seconds[place] = trained.seconds / epochs
    return seconds


def seconds_per_epoch(entry: Entry) -> Interval:
    """Return how long all members took for an epoch, over ensembles."""
    return mean_interval(epoch_seconds(entry).values()).within()


def price_of(entry: Entry, base: Entry) -> Interval:
    """Return how many times as long an epoch takes, over shared seeds.

    Nothing is known of it where the hardware was another.
    """

    def timed(one: Entry) -> dict[int, float]:
        places = {id(t): n for n, t in enumerate(one.result.ensembles)}
        found = epoch_seconds(one)
        return {key: found[n] for key, n in places.items() if n in found}

    own, other = timed(entry), timed(base)
    pairs: list[tuple[Trained, Trained]] = seed_pairs(entry.result, base.result)
    if entry.training.get("hardware") != base.training.get("hardware"):
        pairs = []
    return mean_interval(
        own[id(a)] / other[id(b)] for a, b in pairs if id(a) in own and other.get(id(b))
    ).within()


def scoring_share(entry: Entry) -> Interval:
    """Return the percentage of training spent on scoring and exchange."""
    shares = []
    for history in filter(None, _histories(entry)):
        scoring = sum(record.exchange_seconds for record in history)
        steps = sum(record.seconds for record in history)
        shares.append(100 * scoring / (scoring + steps))
    return mean_interval(shares).within(0, 100)


def peak_memory(entry: Entry) -> int | None:
    """Return the peak GPU memory of any ensemble in bytes; None if unknown."""
    peaks = [record.peak_memory for history in _histories(entry) for record in history]
    return max((peak for peak in peaks if peak is not None), default=None)


def _histories(entry: Entry) -> list[History]:
    return [outcome.history for outcome in entry.outcomes]


def _price_cell(entry: Entry, base: Entry) -> TableCell:
    if entry is base:
        return TableCell("1", small="baseline")
    return interval_cell(price_of(entry, base), 2)


def _costs(entry: Entry) -> list[Mapping[str, Any]]:
    return [t.cost for t in entry.result.ensembles if t.cost is not None]


def _mean(entry: Entry, name: str) -> float:
    return estimate(cost[name] for cost in _costs(entry)).mean


def _mebibytes(peaks: list[int | None]) -> str:
    known = [peak for peak in peaks if peak is not None]
    return f"{max(known) / 2**20:.3g}" if known else DASH


def _gibibytes(bytes_: int | None) -> str:
    return DASH if bytes_ is None else f"{bytes_ / 2**30:.2f}"
