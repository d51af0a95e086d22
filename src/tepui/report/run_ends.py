"""How long ensembles were trained, and with which weights they ended, in words."""

from collections.abc import Sequence

from tepui.report.loading import Entry
from tepui.report.wording import listed, with_unit


def epochs_of(entry: Entry, unit: str = "") -> str:
    """Return how many epochs were trained, of how many if less; empty if not known."""
    planned = entry.training.get("epochs")
    if planned is None:
        return ""
    whole = with_unit(str(planned), unit)
    ends = [end for end in entry.outcomes if end.history]
    names = dict.fromkeys(end.stopped_by for end in ends if end.stopped_by is not None)
    if not names:
        return whole
    counts = sorted({len(end.history) for end in ends})
    done = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
    stopped = sum(end.stopped_by is not None for end in ends)
    some = "" if stopped == len(ends) else f"{stopped} of {len(ends)} ensembles "
    by = listed(name for name in names if name is not None)
    return f"{done} of {whole} ({some}stopped by {by})"


def epochs_fact(entries: Sequence[Entry]) -> str:
    """Return how long each method was trained, and what all of them paid alike."""
    each = {entry.result.label: epochs_of(entry) for entry in entries}
    if len({*each.values()}) == 1:
        said = epochs_of(entries[0], "epoch")
    else:
        known = (f"{label} {epochs}" for label, epochs in each.items() if epochs)
        said = f"epochs: {', '.join(known)}"
    equal = {entry.training.get("equal") for entry in entries}
    alike = f" at equal {equal.pop()}" if len(equal) == 1 and None not in equal else ""
    return f"{said}{alike}" if len(entries) > 1 else said


def kept_fact(entries: Sequence[Entry]) -> str:
    """Return in words which weights were kept; empty where all kept their last."""
    kept = [end.kept for entry in entries for end in entry.outcomes if end.kept]
    if len(kept) == 1:
        return f"weights kept after {listed(map(str, kept[0]))} epochs"
    return "weights of each member's best epoch kept" if kept else ""
