"""What training cost, and what a prediction costs: time, operations and memory."""

from collections.abc import Mapping
from typing import Any

from tepui.report.markup import table
from tepui.report.tables import Column, cell, shown_name
from tepui.studies import Estimate, estimate
from tepui.studies.load_reports import Entry, Group

SECONDS = Column("seconds", "seconds per epoch")
SHARE = Column("share", "scoring", percent=True)
# Those of them that a task has stand beside what a prediction costs.
SHOWN_SCORES = ("accuracy", "rmse", "nll")


def cost_table(group: Group) -> str | None:
    """Return seconds per epoch, share of scoring and memory of each method."""
    times = [seconds_per_epoch(entry) for entry in group.entries]
    if not any(time.count for time in times):
        return None
    rows = [
        [
            entry.result.label,
            cell(time, SECONDS),
            cell(scoring_share(entry), SHARE),
            _gibibytes(peak_memory(entry)),
            f"{estimate(t.seconds for t in entry.result.ensembles).mean:.1f}",
            str(entry.training.get("hardware") or "unknown"),
        ]
        for entry, time in zip(group.entries, times, strict=True)
    ]
    headings = ["method", SECONDS.title, "scoring %", "peak memory, GiB"]
    headings += ["training, s", "hardware"]
    return table("What training one ensemble cost", headings, rows)


def prediction_table(group: Group) -> str | None:
    """Return what a prediction of each method's ensemble costs, beside its scores."""
    known = [entry for entry in group.entries if _costs(entry)]
    if not known:
        return None
    names = [name for name in SHOWN_SCORES if name in group.comparison.score_names]
    rows = [
        [
            entry.result.label,
            f"{_mean(entry, 'parameters') / 1e6:.3g}",
            f"{_mean(entry, 'operations') / 1e6:.4g}",
            f"{1e3 * _mean(entry, 'seconds'):.3g}",
            f"{_mean(entry, 'bytes') / 2**20:.3g}",
            _mebibytes([cost["peak_bytes"] for cost in _costs(entry)]),
            *(cell(entry.result.score("clean", n), Column(n, n)) for n in names),
            ", ".join(dict.fromkeys(str(cost["device"]) for cost in _costs(entry))),
        ]
        for entry in known
    ]
    headings = ["method", "million parameters", "MFLOP per sample", "latency, ms"]
    headings += ["weights, MiB", "peak memory, MiB"]
    headings += [*(shown_name(name) for name in names), "measured on"]
    return table("What a prediction of one ensemble costs", headings, rows)


def _costs(entry: Entry) -> list[Mapping[str, Any]]:
    return [t.cost for t in entry.result.ensembles if t.cost is not None]


def _mean(entry: Entry, name: str) -> float:
    return estimate(cost[name] for cost in _costs(entry)).mean


def _mebibytes(peaks: list[int | None]) -> str:
    known = [peak for peak in peaks if peak is not None]
    return f"{max(known) / 2**20:.3g}" if known else "–"  # noqa: RUF001 - a dash


def seconds_per_epoch(entry: Entry) -> Estimate:
    """Return how long all members took for an epoch, over ensembles."""
    epochs = entry.training.get("epochs")
    seconds = []
    for trained, history in zip(entry.result.ensembles, entry.histories, strict=True):
        if history:
            seconds.append(sum(record.seconds for record in history) / len(history))
        elif epochs:
            seconds.append(trained.seconds / epochs)
    return estimate(seconds)


def scoring_share(entry: Entry) -> Estimate:
    """Return the share of training spent on scoring and exchange between members."""
    shares = []
    for history in entry.histories:
        scoring = [record.exchange_seconds for record in history]
        recorded = [seconds for seconds in scoring if seconds is not None]
        if recorded and len(recorded) == len(history):
            steps = sum(record.seconds for record in history)
            shares.append(sum(recorded) / (sum(recorded) + steps))
    return estimate(shares)


def peak_memory(entry: Entry) -> int | None:
    """Return the peak GPU memory of any ensemble in bytes; None if unknown."""
    peaks = [record.peak_memory for history in entry.histories for record in history]
    return max((peak for peak in peaks if peak is not None), default=None)


def _gibibytes(bytes_: int | None) -> str:
    return "–" if bytes_ is None else f"{bytes_ / 2**30:.2f}"  # noqa: RUF001 - a dash
