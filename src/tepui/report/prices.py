"""What an epoch costs beside the baseline's, and how far the clock can be believed."""

from collections.abc import Iterable

from tepui.report.cost import epoch_seconds, price_of
from tepui.report.wording import listed, number, span
from tepui.studies import Interval
from tepui.studies.load_reports import Entry, Group

MOST = 3  # methods that are named one by one
LONG = 1.0  # seconds; in shorter epochs more than the steps is timed
DEARER = 1.1  # times the baseline's, from where its own epochs are an alternative
STEADY = 0.25  # of a factor, how far its interval may reach


def prices(group: Group) -> str:
    """Return how many times as long an epoch takes; empty where that is not known.

    What was timed too briefly, once, or beside other work is told with its reserve.
    """
    base, *others = group.entries
    found = {entry.result.label: price_of(entry, base) for entry in others}
    known = {label: factor for label, factor in found.items() if factor.count}
    if not known:
        return ""
    timed = [base, *(entry for entry in others if entry.result.label in known)]
    why = doubts(timed, known.values())
    about = "about " if why else ""
    said = [
        f"{about}{number(factor.mean)} times as long with {label}"
        for label, factor in known.items()
    ]
    if len(said) > MOST:
        means = [factor.mean for factor in known.values()]
        said = [f"{about}{span(means)} times as long with the other methods"]
    name = base.result.label
    dearer = max(factor.mean for factor in known.values()) > DEARER
    fair = f" Compare with {name} trained as long before you choose." if dearer else ""
    if not why:
        return f"An epoch takes {listed(said)} as with {name}.{fair}"
    reasons = listed(why)
    return (
        f"An epoch took {listed(said)} as with {name}: a hint, since {reasons}.{fair}"
    )


def doubts(entries: Iterable[Entry], factors: Iterable[Interval]) -> list[str]:
    """Return why measured factors may not hold elsewhere; none where they are firm."""
    factors = [*factors]
    seconds = [s for entry in entries for s in epoch_seconds(entry).values()]
    several = [factor for factor in factors if factor.count > 1]
    why = []
    if min(seconds) < LONG:
        why.append("epochs were shorter than a second")
    if len(several) < len(factors):
        why.append("one pair of ensembles was timed")
    if any(factor.reach > STEADY * factor.mean for factor in several):
        why.append("the factor varies from pair to pair of ensembles")
    return why
