"""Read the results of decision 005 by its rules: tables and picture.

PYTHONPATH=src:benchmarks python3 docs/make_random_scores.py

Before all twelve blocks are complete it says how many are, and nothing else.
"""

from functools import partial
from pathlib import Path

from block_tables import Arms, on_copies
from decision_designs import DESIGNS
from decision_runs import read
from score_tables import row, with_interval

from tepui.studies.significance import Difference

HERE = Path(__file__).parent
DESIGN = DESIGNS["005"]
RESULTS = HERE / "results" / "decisions" / DESIGN.folder
LABELS = {"released": "released", "random": "random"}
ALIKE = 0.3  # points, of rule 2
ANSWERS = {
    1: "the choice matters: the default keeps its scores",
    2: "the choice does not matter: the scores leave the default",
    3: "the choice matters little: the default keeps its scores",
    4: "random sets are better: the scores leave the default",
    5: "undecided: the default stays",
}


def main() -> None:
    arms = Arms(read(RESULTS), LABELS, DESIGN.blocks)
    if arms.all_there():
        print_answer(arms)
        arms.print_blocks()
        arms.draw(f"decision_{DESIGN.folder}.png")
        arms.end_page([("released", "random")])
        print_beside(arms)
        arms.print_sets()


def print_answer(arms: Arms) -> None:
    """Print the differences that the rules read, and what they say."""
    print("\n" + row("released less random", "95 % interval", "90 % interval"))
    for data in ("corrupted", "clean"):
        both = [lead(arms, data, confidence) for confidence in (0.95, 0.9)]
        print(row(data, *map(with_interval, both)))
    rule = rule_that_holds(arms)
    print(f"\nRule {rule}: {ANSWERS[rule]}")


def print_beside(arms: Arms) -> None:
    """Print differences that decide nothing."""
    print("\n" + row("released less random, corrupted", "95 % interval"))
    for severity in ("1", "3", "5"):
        apart = arms.lead("released", "random", partial(on_copies, group=severity))
        print(row(f"severity {severity}", with_interval(apart)))
    der = arms.lead("released", "random", lambda r: r["corrupted"]["der"])
    print(row("DER", with_interval(der, 3)))
    nll = arms.lead("released", "random", lambda r: r["scaled"]["corrupted"]["nll"])
    print(row("NLL with one temperature", with_interval(nll, 3)))


def lead(arms: Arms, data: str, confidence: float) -> Difference:
    """Return the accuracy of *released* less that of *random*, in points."""
    return arms.difference("released", "random", data, confidence)


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
    main()
