"""How long ensembles were trained, and with which weights they ended, in words."""

from collections.abc import Sequence

from tepui.report.loading import Entry
from tepui.report.wording import DASH, listed, with_unit


def epochs_of(entries: Sequence[Entry], unit: str = "") -> str:
    """Return how many epochs were trained of how many; empty where that differs.

    The unit is what they are called where there is one.
    """
    planned = {entry.training.get("epochs") for entry in entries}
    if len(planned) > 1 or None in planned:
        return ""
    whole = with_unit(str(*planned), unit)
    ends = [end for entry in entries for end in entry.outcomes if end.history]
    names = dict.fromkeys(end.stopped_by for end in ends if end.stopped_by is not None)
    if not names:
        return whole
    counts = sorted({len(end.history) for end in ends})
    done = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
    stopped = sum(end.stopped_by is not None for end in ends)
    some = "" if stopped == len(ends) else f"{stopped} of {len(ends)} ensembles "
    by = listed(name for name in names if name is not None)
    return f"{done} of {whole} ({some}stopped by {by})"


def kept_of(entry: Entry) -> str:
    """Return after how many epochs members had the weights that they kept."""
    kept = [end.kept for end in entry.outcomes if end.kept]
    return "; ".join(listed(map(str, epochs)) for epochs in kept) or DASH


def kept_fact(entries: Sequence[Entry]) -> str:
    """Return in words which weights were kept; empty where all kept their last."""
    ends = [end for entry in entries for end in entry.outcomes if end.history]
    if not any(end.kept for end in ends):
        return ""
    if len(ends) == 1:
        return f"weights kept after {with_unit(kept_of(entries[0]), 'epoch')}"
    some = "" if all(end.kept for end in ends) else "of some ensembles "
    return f"{some}weights of each member's best epoch kept"
