"""Methods against each other: differences over ensembles that share their seeds.

Whatever is read of an ensemble, a score, its sharpness, the seconds of an epoch, is
compared in one way, so that a page, its tables and its sentences cannot disagree.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from tepui.data.shifts import NATURAL
from tepui.report.comparison import MethodResult, Trained
from tepui.studies.significance import (
    Difference,
    differences,
    holm,
    paired_difference,
)
from tepui.studies.statistics import Interval, mean_interval
from tepui.tasks.named import read_task

Better = Literal["higher", "lower", ""]  # which side of a measure
Reading = Callable[[Trained], float | None]
CHANCE = 0.05  # of comparisons that are apart without a reason
FEW = 3  # pairs of ensembles, from which a difference is a hint at most
VOICES = ("accuracy", "individual_accuracy", "improvement")


def interval_of(method: MethodResult, read: Reading, step: float = 0.0) -> Interval:
    """Return the mean of a reading over a method's ensembles, with its interval."""
    return mean_interval(map(read, method.ensembles), step)


def seed_pairs(
    method: MethodResult, base: MethodResult
) -> list[tuple[Trained, Trained]]:
    """Return ensembles of two methods that were made from the same seeds."""
    waiting: dict[tuple[int, ...], list[Trained]] = defaultdict(list)
    for trained in base.ensembles:
        waiting[trained.seeds].append(trained)
    return [
        (trained, waiting[trained.seeds].pop(0))
        for trained in method.ensembles
        if trained.seeds and waiting[trained.seeds]
    ]


def contrast(
    method: MethodResult, base: MethodResult, read: Reading, step: float = 0.0
) -> Difference | None:
    """Return a method less another; None where fewer than two pairs are defined."""
    first, second = _values(method, base, read)
    found = differences(first, second)
    if len(found) < 2 or not all(map(math.isfinite, found)):
        return None
    return paired_difference(first, second, step=step)


def count_apart(found: Sequence[Difference]) -> str:
    """Return how many intervals leave out zero, and what chance would bring."""
    apart, expected = sum(each.apart for each in found), CHANCE * len(found)
    return (
        f"Intervals that leave out zero: {apart} of {len(found)}; by chance alone "
        f"{expected:.1f}."
    )


def firm(found: Sequence[Difference]) -> list[bool]:
    """Return which differences are more than a hint, corrected for all of them."""
    corrected = holm([each.p for each in found])
    pairs = zip(found, corrected, strict=True)
    return [p <= CHANCE and each.count > FEW for each, p in pairs]


def one_prediction(score: str, data: str, method: MethodResult) -> float:
    """Return by how much one prediction more or less changes a score.

    Accuracies move in such steps, of the ensemble or of a member; for others it is 0.
    """
    about = method.ensembles[0].evaluation
    if score not in VOICES or "mean_iou" in about["clean"]:
        return 0.0
    copies = 1
    if data == "shifted":
        copies = sum(cell["severity"] != NATURAL for cell in about["cells"])
    labels = read_task(about.get("task")).counted(about.get("classes", 1))
    voices = 1 if score == "accuracy" else about["members"]
    return float(1 / (about["samples"] * max(copies, 1) * labels * voices))


def leads(
    method: MethodResult,
    others: Iterable[MethodResult],
    read: Reading,
    step: float = 0.0,
    *,
    better: Better = "higher",
) -> bool:
    """Return whether a method is apart from all others, and better than each.

    Where neither side is better, no method leads.
    """
    found = [contrast(method, other, read, step) for other in others]
    known = [each for each in found if each is not None]
    if not known or len(known) < len(found):
        return False
    ahead = {
        "higher": [each.low > 0 for each in known],
        "lower": [each.high < 0 for each in known],
        "": [False],
    }
    return all(ahead[better])


def gaps(method: MethodResult, base: MethodResult, read: Reading) -> list[float]:
    """Return the difference of every pair."""
    return differences(*_values(method, base, read))


def _values(
    method: MethodResult, base: MethodResult, read: Reading
) -> tuple[list[float | None], list[float | None]]:
    pairs = seed_pairs(method, base)
    return [read(own) for own, _ in pairs], [read(other) for _, other in pairs]
