"""Read the results of decision 003 by its rules: print its tables, draw its picture.

PYTHONPATH=src:benchmarks python3 docs/make_how_late.py

Before all blocks are complete it shows what each ensemble scored, and no difference.
"""

from pathlib import Path
from statistics import fmean

from block_tables import Arms
from decision_runs import read
from how_late import ARMS, BLOCKS, STARTS
from score_tables import row, with_interval

from tepui.studies.significance import Difference

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "decisions" / "003_how_late"
PLAIN, SAM = "deep_ensemble", "sam_0.85"
LABELS = {
    PLAIN: "deep ensemble",
    **{f"late_{start}": f"{start}" for start in STARTS},
    SAM: "SAM, 0.85",
}
assert LABELS.keys() == ARMS.keys()
TESTED = ("late_0.5", "late_0.7", "late_0.85", "late_0.9")  # in the order of rule 1
CHEAP = ("late_0.85", "late_0.9")  # of rule 3
CLEAN_MARGIN, ALIKE_MARGIN = 0.2, 0.3  # of rules 2 and 4


def main() -> None:
    arms = Arms(read(RESULTS), LABELS, BLOCKS)
    if arms.begin_page("decision_003_how_late.png"):
        print_leads(arms)
        print_answers(arms)
        arms.end_page([(arm, PLAIN) for arm in LABELS if arm != PLAIN])
        print_seconds(arms)


def print_leads(arms: Arms) -> None:
    """Print by how much every arm leads its block's deep ensemble."""
    print("\n" + row("arm", "corrupted", "clean"))
    for arm, label in LABELS.items():
        if arm != PLAIN:
            leads = [arms.difference(arm, PLAIN, d) for d in ("corrupted", "clean")]
            print(row(label, *map(with_interval, leads)))


def print_seconds(arms: Arms) -> None:
    """Print what arms took next to their block's deep ensemble, scoring apart too."""
    print("\n" + row("arm", "times a deep ensemble's seconds", "of it scoring, %"))
    plain = [sum(r["epoch_seconds"]) for r in arms.ensembles(PLAIN)]
    for arm, label in LABELS.items():
        found = list(zip(arms.ensembles(arm), plain, strict=True))
        scoring = [r["exchange_seconds"] / seconds for r, seconds in found]
        steps = [sum(r["epoch_seconds"]) / seconds for r, seconds in found]
        times = fmean(scoring) + fmean(steps)
        print(row(label, f"{times:.2f}", f"{100 * fmean(scoring):.1f}"))


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
    print(f"3. At no more than 1.2 times the price: {LABELS[best]}, {lead}")
    apart = arms.difference("late_0.85", SAM, "corrupted")
    print(f"4. SharpBalance less SAM: {with_interval(apart)}: {which(apart)}")


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
    main()
