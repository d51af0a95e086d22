"""What training cost: time, the share of scoring in it, and memory."""

from tepui.report.markup import table
from tepui.report.tables import Column, cell
from tepui.studies import Estimate, estimate
from tepui.studies.load_reports import Entry, Group

SECONDS = Column("seconds", "seconds per epoch")
SHARE = Column("share", "scoring", percent=True)


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
