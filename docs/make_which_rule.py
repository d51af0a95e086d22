"""Read the results of decision 002 by its rules: print its tables, draw its picture.

PYTHONPATH=src:benchmarks python3 docs/make_which_rule.py

Before all blocks are complete it shows what each ensemble scored, and no difference.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from decision_runs import read
from score_tables import (
    SHOWN,
    Results,
    mean_and_error,
    member_accuracies,
    panels,
    row,
    score_cells,
    with_interval,
)
from which_rule import BLOCKS

from tepui.report.drawing import COLORS, MARKERS
from tepui.studies.significance import (
    Difference,
    differences,
    holm,
    paired_difference,
    tails,
)
from tepui.studies.statistics import estimate

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "decisions" / "002_which_rule"
LABELS = {
    "deep_ensemble": "deep ensemble",
    "sam": "SAM",
    "released": "released",
    "paper": "paper",
    "late": "late",
}
SCALED = {
    "T": (lambda r: r["scaled"]["temperature"], 3),
    "NLL clean": (lambda r: r["scaled"]["clean"]["nll"], 3),
    "NLL corrupted": (lambda r: r["scaled"]["corrupted"]["nll"], 3),
    "ECE % clean": (lambda r: 100 * r["scaled"]["clean"]["ece"], 2),
    "ECE % corrupted": (lambda r: 100 * r["scaled"]["corrupted"]["ece"], 2),
}


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
SHOWN_BY_BLOCK = (
    "corrupted %",
    "clean %",
    "NLL corrupted",
    "NLL clean",
    "ECE % corrupted",
    "ECE % clean",
    "DER corrupted",
)


def main() -> None:
    results = read(RESULTS)
    blocks = complete_blocks(results)
    for name in SHOWN_BY_BLOCK:
        by_block(results, name)
    draw(results)
    if blocks != list(BLOCKS):
        print(f"\n{len(blocks)} of {len(BLOCKS)} blocks are complete: no verdict")
        return
    verdicts(results)
    scores(results)
    for part in ("severity", "corruption"):
        by_copies(results, part)
    members(results)


def complete_blocks(results: Results) -> list[int]:
    """Return the blocks of which every arm is there."""
    there = {(r["arm"], r["block"]) for r in results}
    numbers = sorted({r["block"] for r in results})
    return [n for n in numbers if all((arm, n) in there for arm in LABELS)]


def chosen(results: Results, arm: str) -> Results:
    """Return the ensembles of an arm, by block."""
    found = [r for r in results if r["arm"] == arm]
    return sorted(found, key=lambda result: result["block"])


def accuracies(results: Results, arm: str, data: str) -> list[float]:
    """Return an arm's accuracies in points, by block."""
    return [100 * r[data]["accuracy"] for r in chosen(results, arm)]


def by_block(results: Results, name: str) -> None:
    """Print a score of every ensemble."""
    data, key, scale, digits = SHOWN[name]
    print("\n" + row(name, *(f"block {number}" for number in BLOCKS)))
    for arm, label in LABELS.items():
        known = {r["block"]: scale * r[data][key] for r in chosen(results, arm)}
        cells = [f"{known[n]:.{digits}f}" if n in known else "" for n in BLOCKS]
        print(row(label, *cells))


def finding(results: Results, claim: Claim) -> Finding:
    """Return what the blocks say of a claim."""
    first, second = (
        accuracies(results, arm, claim.data) for arm in (claim.arm, claim.other)
    )
    found, pair = estimate(differences(first, second)), paired_difference(first, second)
    above = tails(found.mean, found.error, found.count - 1, claim.bound)[1]
    return Finding(pair, min(1.0, 2 * above), pair.high < claim.bound)


def verdicts(results: Results) -> None:
    """Print every difference that a rule asks for, and what the rules say."""
    found = {
        name: [finding(results, claim) for claim in claims]
        for name, claims in VERDICTS.items()
    }
    apart = finding(results, Claim("released", "paper", "corrupted")).difference
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
    clean = finding(results, Claim("paper", "released", "clean", -0.2)).difference
    print(f"paper less released, clean: {with_interval(clean)}")


def standing(corrected: float, contradicted: bool) -> str:
    """Return what rule 1 says of a verdict."""
    if corrected <= 0.05:
        return "supported"
    return "refuted" if contradicted else "undecided"


def scores(results: Results) -> None:
    """Print mean and standard error of each score, as it is and with a temperature."""
    print("\n" + row("arm", *SHOWN))
    for arm, label in LABELS.items():
        print(row(label, *score_cells(chosen(results, arm))))
    print("\nWith one temperature\n" + row("arm", *SCALED))
    for arm, label in LABELS.items():
        several = chosen(results, arm)
        cells = [
            mean_and_error([of(r) for r in several], d) for of, d in SCALED.values()
        ]
        print(row(label, *cells))


def by_copies(results: Results, part: str) -> None:
    """Print accuracy on the corrupted copies of each severity or corruption."""

    def mean(result: dict, group: str) -> float:
        copies = result["copies"].items()
        return 100 * fmean(value for name, value in copies if group in name.split("/"))

    names = [name.split("/")[part == "severity"] for name in results[0]["copies"]]
    print("\n" + row(part, *LABELS.values()))
    for group in dict.fromkeys(names):
        cells = [[mean(r, group) for r in chosen(results, arm)] for arm in LABELS]
        print(row(group, *(mean_and_error(each, 2) for each in cells)))


def members(results: Results) -> None:
    """Print differences between members of equal seeds."""
    print("\n" + row("members", "clean", "corrupted"))
    for arm, other in (
        ("sam", "deep_ensemble"),
        ("released", "sam"),
        ("released", "deep_ensemble"),
        ("paper", "sam"),
        ("paper", "released"),
        ("late", "released"),
    ):
        cells = []
        for data in ("clean", "corrupted"):
            pair = (member_accuracies(chosen(results, a), data) for a in (arm, other))
            cells.append(with_interval(paired_difference(*pair)))
        print(row(f"{LABELS[arm]} less {LABELS[other]}", *cells))


def draw(results: Results) -> None:
    """Draw every ensemble, the arms side by side, a line for each block."""
    ticks = [label.replace(" ", "\n") for label in LABELS.values()]
    with panels("decision_002_which_rule.png") as shown:
        for axis, (data, key, scale) in shown:
            for number, color, marker in zip(BLOCKS, COLORS, MARKERS, strict=False):
                known = {r["arm"]: r for r in results if r["block"] == number}
                values = [
                    scale * known[arm][data][key] if arm in known else math.nan
                    for arm in LABELS
                ]
                style = {"color": color, "marker": marker, "linewidth": 0.7}
                if known:
                    axis.plot(values, label=f"block {number}", **style)
            axis.set_xticks(range(len(ticks)), ticks)


if __name__ == "__main__":
    main()
