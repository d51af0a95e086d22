"""What training cost, and what a prediction costs: time, operations and memory."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from tepui.report.comparison import Trained
from tepui.report.contrasts import seed_pairs
from tepui.report.loading import Entry, Group
from tepui.report.markup import TableCell, note, table
from tepui.report.measures import measures_of
from tepui.report.tables import interval_cell
from tepui.report.wording import DASH, TIMES, number
from tepui.studies import Interval, estimate, mean_interval
from tepui.training.history import History
from tepui.training.timeline import ACTIVITIES, Timeline

# Those of them that a task has stand beside what a prediction costs.
OF_TRAINING = (
    "An epoch's seconds are those of the steps of all members together, by its factor "
    "over shared seeds on the same hardware; scoring is what members take to score "
    "data for each other, as a share of it and the steps."
)
OF_PREDICTION = (
    "All members together; what they share counts once. Latency is the median time of "
    "one sample alone."
)
SHOWN_SCORES = ("accuracy", "rmse", "nll")


def cost(group: Group) -> list[Markup]:
    """Return what training cost, and what a prediction costs."""
    training, prediction = cost_table(group), prediction_table(group)
    found = {
        entry.result.label: [each.timeline for each in entry.outcomes if each.timeline]
        for entry in group.entries
    }
    parts: list[Markup] = []
    if training is not None:
        parts += [training, note(OF_TRAINING)]
        parts += [seconds_table(found)] if any(found.values()) else []
    return parts if prediction is None else [*parts, prediction, note(OF_PREDICTION)]


def seconds_table(found: Mapping[str, Sequence[Timeline]]) -> Markup:
    """Return the mean seconds of every activity of training."""
    took_place = {name for spent in found.values() for line in spent for name in line}
    shown = [activity for activity in ACTIVITIES if activity in took_place]
    rows: list[list[str | TableCell]] = []
    for label, spent in found.items():
        parts = [[line.get(activity, 0.0) for line in spent] for activity in shown]
        means = [number(estimate(part).mean, 3) for part in parts]
        whole = mean_interval(sum(line.values()) for line in spent).within()
        rows.append([label, *means, interval_cell(whole, 3)])
    caption = "Seconds of training one ensemble, by activity"
    return table(caption, ["method", *shown, "all"], rows)


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
