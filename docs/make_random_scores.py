"""Read the results of decision 005 by its rules: tables and picture.

PYTHONPATH=src:benchmarks python3 docs/make_random_scores.py [FOLDER]

Before all twelve blocks are complete it says how many are, and nothing else.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from block_tables import Arms, overlap
from decision_designs import DESIGNS
from decision_runs import SEVERITIES, read
from score_tables import (
    DECISIONS,
    folders_asked_for,
    picture_of,
    row,
    with_interval,
)

from tepui.studies.significance import Difference

DESIGN = DESIGNS["005"]
RESULTS = DECISIONS / DESIGN.folder
LABELS = {"released": "released", "random": "random"}
ALIKE = 0.3  # points, of rule 2
ANSWERS = {
    1: "the choice matters: the default keeps its scores",
    2: "the choice does not matter: the scores leave the default",
    3: "the choice matters little: the default keeps its scores",
    4: "random sets are better: the scores leave the default",
    5: "undecided: the default stays",
}


def main(folder: Path = RESULTS) -> None:
    arms = Arms(read(folder), LABELS, DESIGN.blocks)
    if arms.all_there():
        print_answer(arms)
        arms.print_blocks()
        arms.draw(picture_of(folder, f"decision_{DESIGN.folder}.png"))
        arms.end_page([("released", "random")])
        print_sets(arms)
        print_beside(arms)


def print_answer(arms: Arms) -> None:
    """Print the differences that the rules read, and what they say."""
    print("\n" + row("released less random", "95 % interval", "90 % interval"))
    for data in ("corrupted", "clean"):
        both = [lead(arms, data, confidence) for confidence in (0.95, 0.9)]
        print(row(data, *map(with_interval, both)))
    rule = rule_that_holds(arms)
    print(f"\nRule {rule}: {ANSWERS[rule]}")


def lead(arms: Arms, data: str, confidence: float) -> Difference:
    """Return the accuracy of *released* less that of *random*, in points."""
    return arms.difference("released", "random", data, confidence)


def print_sets(arms: Arms) -> None:
    """Print how much of the data sets hold, and of their union pairs of them share."""
    print("\n" + row("sets", "share of the data", "least", "most", "overlap"))
    for arm, label in LABELS.items():
        sets = [r["sets"] for r in arms.ensembles(arm)]
        sizes = [fmean(each["sizes"]) / each["samples"] for each in sets]
        shared = fmean(overlap(each["overlaps"]) for each in sets)
        cells = (fmean(sizes), min(sizes), max(sizes), shared)
        print(row(label, *(f"{cell:.3f}" for cell in cells)))


def at_severity(copies: Mapping[str, float], severity: int) -> float:
    """Return the mean accuracy over the copies of a severity."""
    return fmean(v for name, v in copies.items() if name.endswith(f"/{severity}"))


def print_beside(arms: Arms) -> None:
    """Print differences that no rule reads, and how much *C* varies."""
    print("\n" + row("released less random", "95 % interval"))
    for severity in SEVERITIES:
        found = apart(arms, lambda r, n=severity: 100 * at_severity(r["copies"], n))
        print(row(f"corrupted, severity {severity}", with_interval(found)))
    der = apart(arms, lambda r: r["corrupted"]["der"])
    print(row("DER, corrupted", with_interval(der, 3)))
    nll = apart(arms, lambda r: r["scaled"]["corrupted"]["nll"])
    print(row("NLL, corrupted, scaled", with_interval(nll, 3)))
    both = (arms.accuracies(arm, "corrupted") for arm in ("released", "random"))
    spread = stdev(first - second for first, second in zip(*both, strict=True))
    print(f"\nStandard deviation between blocks: {spread:.2f}")


def apart(arms: Arms, of: Callable[[dict[str, Any]], float]) -> Difference:
    """Return a score of *released* less that of *random*."""
    return arms.lead("released", "random", of)


def rule_that_holds(arms: Arms) -> int:
    """Return which of the five rules the blocks meet."""
    corrupted = lead(arms, "corrupted", 0.95)
    alike = all(within(lead(arms, data, 0.9)) for data in ("corrupted", "clean"))
    if corrupted.low > 0:
        return 3 if alike else 1
    if corrupted.high < 0:
        return 4
    return 2 if alike else 5


def within(apart: Difference) -> bool:
    """Return whether an interval lies within the margin of equivalence."""
    return apart.low > -ALIKE and apart.high < ALIKE


if __name__ == "__main__":
    main(*folders_asked_for(RESULTS))
