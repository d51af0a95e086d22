"""Read the results of decision 002 by its rules: tables and picture.

PYTHONPATH=src:benchmarks python3 docs/make_which_rule.py [FOLDER]

Before all blocks are complete it shows what each ensemble scored, and no difference.
"""

from dataclasses import dataclass
from pathlib import Path

from block_tables import Arms
from decision_designs import DESIGNS
from decision_runs import read
from score_tables import (
    DECISIONS,
    Results,
    folders_asked_for,
    picture_of,
    row,
    with_interval,
)

from tepui.studies.significance import Difference, differences, holm, tails
from tepui.studies.statistics import estimate

DESIGN = DESIGNS["002"]
RESULTS = DECISIONS / DESIGN.folder
LABELS = {
    "deep_ensemble": "deep ensemble",
    "sam": "SAM",
    "released": "released",
    "paper": "paper",
    "late": "late",
}
MEMBERS = (
    ("sam", "deep_ensemble"),
    ("released", "sam"),
    ("released", "deep_ensemble"),
    ("paper", "sam"),
    ("paper", "released"),
    ("late", "released"),
)


@dataclass(frozen=True)
class Claim:
    """That one arm's accuracy, less another's, lies above a bound.

    Attributes:
        arm: Whose accuracy.
        other: Less whose.
        data: On which images: ``"clean"`` or ``"corrupted"``.
        bound: In points.
    """

    arm: str
    other: str
    data: str
    bound: float = 0.0


@dataclass(frozen=True)
class Finding:
    """What the blocks say of a claim.

    Attributes:
        difference: The difference of the two arms, in points.
        p: Against the bound, one-sided and doubled.
        contradicted: Whether the interval lies wholly below the bound.
    """

    difference: Difference
    p: float
    contradicted: bool


def wins(arm: str, data: str, bound: float) -> list[Claim]:
    """Return the claims that an arm does as well as both that it is measured by."""
    return [Claim(arm, other, data, bound) for other in ("sam", "deep_ensemble")]


VERDICTS = {
    "wins-ood, released": wins("released", "corrupted", 0.0),
    "wins-ood, paper": wins("paper", "corrupted", 0.0),
    "wins-id, released": wins("released", "clean", -0.2),
    "wins-id, paper": wins("paper", "clean", -0.2),
    "late": [
        Claim("late", "released", "corrupted", -0.3),
        Claim("late", "released", "clean", -0.2),
    ],
}


def main(folder: Path = RESULTS) -> None:
    arms = Arms(read(folder), LABELS, DESIGN.blocks)
    print_page(arms, picture_of(folder, f"decision_{DESIGN.folder}.png"))


def print_page(arms: Arms, picture: Path) -> None:
    """Print the tables of the page, and draw its picture."""
    if arms.begin_page(picture):
        verdicts(arms)
        arms.end_page(MEMBERS)
        arms.print_spreads()
        arms.print_sets()


def results(decision: str) -> Results:
    """Return what was found of every ensemble of a decision."""
    return read(DECISIONS / DESIGNS[decision].folder)


def finding(arms: Arms, claim: Claim) -> Finding:
    """Return what the blocks say of a claim."""
    first, second = (
        arms.accuracies(arm, claim.data) for arm in (claim.arm, claim.other)
    )
    found = estimate(differences(first, second))
    pair = arms.difference(claim.arm, claim.other, claim.data)
    above = tails(found.mean, found.error, found.count - 1, claim.bound)[1]
    return Finding(pair, min(1.0, 2 * above), pair.high < claim.bound)


def verdicts(arms: Arms) -> None:
    """Print every difference that a rule asks for, and what the rules say."""
    found = {
        name: [finding(arms, claim) for claim in claims]
        for name, claims in VERDICTS.items()
    }
    apart = finding(arms, Claim("released", "paper", "corrupted")).difference
    p_values = {name: max(e.p for e in several) for name, several in found.items()}
    p_values["which rule"] = apart.p
    corrected = dict(zip(p_values, holm(list(p_values.values())), strict=True))
    print("\n" + row("verdict", "differences", "p", "p, Holm", "is"))
    for name, p in p_values.items():
        several = found.get(name, [])
        shown = [each.difference for each in several] or [apart]
        says = standing(corrected[name], any(each.contradicted for each in several))
        cells = "; ".join(map(with_interval, shown))
        print(row(name, cells, f"{p:.4f}", f"{corrected[name]:.4f}", says))
    clean = finding(arms, Claim("paper", "released", "clean", -0.2)).difference
    print(f"paper less released, clean: {with_interval(clean)}")


def standing(corrected: float, contradicted: bool) -> str:
    """Return what rule 1 says of a verdict."""
    if corrected <= 0.05:
        return "supported"
    return "refuted" if contradicted else "undecided"


if __name__ == "__main__":
    main(*folders_asked_for(RESULTS))
