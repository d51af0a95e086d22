"""Read the results of decision 003 by its rules: print its tables, draw its picture.

PYTHONPATH=src:benchmarks python3 docs/make_how_late.py [FOLDER]

Before all blocks are complete it shows what each ensemble scored, and no difference.
"""

from pathlib import Path
from statistics import fmean
from typing import Any

from block_tables import Arms
from decision_runs import read
from how_late import ARMS, BLOCKS, STARTS
from score_tables import (
    DECISIONS,
    folders_asked_for,
    picture_of,
    row,
    with_interval,
)

from tepui.studies.significance import Difference

RESULTS = DECISIONS / "003_how_late"
PLAIN, SAM = "deep_ensemble", "sam_0.85"
LABELS = {
    PLAIN: "deep ensemble",
    **{f"late_{start}": f"{start}" for start in STARTS},
    SAM: "SAM, 0.85",
}
assert LABELS.keys() == ARMS.keys()
TESTED = ("late_0.5", "late_0.7", "late_0.85", "late_0.9")  # in the order of rule 1
CHEAP = ("late_0.85", "late_0.9")  # of rule 3
AFFORDABLE = 1.2  # times a deep ensemble's price, of rule 3
CLEAN_MARGIN, ALIKE_MARGIN = 0.2, 0.3  # of rules 2 and 4


def main(folder: Path = RESULTS) -> None:
    arms = Arms(read(folder), LABELS, BLOCKS)
    if arms.begin_page(picture_of(folder, "decision_003_how_late.png")):
        print_leads(arms)
        print_answers(arms)
        arms.end_page([(arm, PLAIN) for arm in LABELS if arm != PLAIN])
        print_times(arms)


def print_leads(arms: Arms) -> None:
    """Print by how much every arm leads its block's deep ensemble."""
    print("\n" + row("arm", "corrupted", "clean"))
    for arm, label in LABELS.items():
        if arm != PLAIN:
            leads = [arms.difference(arm, PLAIN, d) for d in ("corrupted", "clean")]
            print(row(label, *map(with_interval, leads)))


def print_answers(arms: Arms) -> None:
    """Print what the rules say."""
    found = passed(arms)
    latest = LABELS[found[-1]] if found else "none: not shown to help"
    print(f"\n1. How late: {latest}")
    for arm in found:
        apart = arms.difference(arm, PLAIN, "clean")
        says = "without loss" if apart.low > -CLEAN_MARGIN else "not shown"
        print(f"2. {LABELS[arm]}, clean: {with_interval(apart)}: {says}")
    best = cheapest(arms)
    lead = with_interval(arms.difference(best, PLAIN, "corrupted"))
    print(f"3. At no more than {AFFORDABLE} times the price: {LABELS[best]}, {lead}")
    apart = arms.difference("late_0.85", SAM, "corrupted")
    print(f"4. SharpBalance less SAM: {with_interval(apart)}: {which(apart)}")


def print_times(arms: Arms) -> None:
    """Print what every arm took in seconds, and scoring alone, by the deep ensemble."""
    print("\n" + row("arm", "seconds, times", "least", "most", "scoring, %"))
    plain = [seconds(r) for r in arms.ensembles(PLAIN)]
    for arm, label in LABELS.items():
        if arm != PLAIN:
            found = times(arms, arm)
            scoring = [r["exchange_seconds"] for r in arms.ensembles(arm)]
            share = fmean(100 * a / b for a, b in zip(scoring, plain, strict=True))
            shown = (f"{x:.2f}" for x in (fmean(found), min(found), max(found)))
            print(row(label, *shown, f"{share:.1f}"))


def times(arms: Arms, arm: str) -> list[float]:
    """Return an arm's seconds over those of its block's deep ensemble, by block."""
    both = (map(seconds, arms.ensembles(name)) for name in (arm, PLAIN))
    return [first / second for first, second in zip(*both, strict=True)]


def seconds(result: dict[str, Any]) -> float:
    """Return how long an ensemble was trained, scoring included."""
    return sum(result["epoch_seconds"]) + result["exchange_seconds"]


def passed(arms: Arms) -> list[str]:
    """Return the starts that rule 1 finds to help, up to the first that it does not."""
    found = []
    for arm in TESTED:
        if arms.difference(arm, PLAIN, "corrupted").low <= 0:
            break
        found.append(arm)
    return found


def cheapest(arms: Arms) -> str:
    """Return the start of rule 3, the more accurate one of the two."""
    return max(CHEAP, key=lambda arm: sum(arms.accuracies(arm, "corrupted")))


def which(apart: Difference) -> str:
    """Return what rule 4 says of SharpBalance less SAM."""
    if apart.low > 0:
        return "the sets matter"
    if apart.low > -ALIKE_MARGIN and apart.high < ALIKE_MARGIN:
        return "SAM instead"
    return "undecided"


if __name__ == "__main__":
    main(*folders_asked_for(RESULTS))
