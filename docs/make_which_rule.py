"""Read the results of decision 002 by its rules: print its tables, draw its picture.

PYTHONPATH=src:benchmarks python3 docs/make_which_rule.py

Before all blocks are complete it prints what each ensemble scored, and no difference.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

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

from tepui.report.figures import COLORS, MARKERS
from tepui.studies.statistics import (
    Difference,
    differences,
    estimate,
    holm,
    paired_difference,
    tails,
)

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "decisions" / "002_which_rule" / "runs.json"
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


WINS = {
    f"{verdict}, {arm}": [Claim(arm, other, data, bound) for other in OTHERS]
    for OTHERS in [("sam", "deep_ensemble")]
    for verdict, data, bound in (
        ("wins-ood", "corrupted", 0.0),
        ("wins-id", "clean", -0.2),
    )
    for arm in ("released", "paper")
}
LATE = [
    Claim("late", "released", "corrupted", -0.3),
    Claim("late", "released", "clean", -0.2),
]


def main() -> None:
    results = json.loads(RESULTS.read_text())
    blocks = complete_blocks(results)
    for data in ("corrupted", "clean"):
        by_block(results, data)
    if blocks != list(BLOCKS):
        print(f"\n{len(blocks)} of {len(BLOCKS)} blocks are complete: no verdict")
    else:
        verdicts(results)
        scores(results)
        members(results)
        draw(results)


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


def by_block(results: Results, data: str) -> None:
    """Print the accuracy of every ensemble."""
    print(f"\nAccuracy in points, {data} images")
    print(row("arm", *(f"block {number}" for number in BLOCKS)))
    for arm, label in LABELS.items():
        known = {r["block"]: 100 * r[data]["accuracy"] for r in chosen(results, arm)}
        print(row(label, *(f"{known[n]:.2f}" if n in known else "" for n in BLOCKS)))


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
    rule = paired_difference(
        *(accuracies(results, arm, "corrupted") for arm in ("released", "paper"))
    )
    found = {
        name: [finding(results, claim) for claim in claims]
        for name, claims in {**WINS, "late": LATE}.items()
    }
    p_values = {name: max(each.p for each in several) for name, several in found.items()}
    p_values["which rule"] = rule.p
    corrected = dict(zip(p_values, holm(list(p_values.values())), strict=True))
    print("\n" + row("verdict", "differences", "p", "p, Holm", "is"))
    for name, p in p_values.items():
        several = found.get(name, [])
        cells = "; ".join(with_interval(e.difference) for e in several)
        print(
            row(
                name,
                cells or with_interval(rule),
                f"{p:.4f}",
                f"{corrected[name]:.4f}",
                standing(corrected[name], any(e.contradicted for e in several)),
            )
        )
    clean = Claim("paper", "released", "clean", -0.2)
    print(f"paper less released, clean: {with_interval(finding(results, clean).difference)}")


def standing(corrected: float, contradicted: bool) -> str:
    """Return what rule 1 says of a verdict."""
    if corrected <= 0.05:
        return "supported"
    return "refuted" if contradicted else "undecided"


def scores(results: Results) -> None:
    """Print mean and standard error of each score, and accuracy by severity."""
    print("\n" + row("arm", *SHOWN))
    for arm, label in LABELS.items():
        print(row(label, *score_cells(chosen(results, arm))))
    print("\nWith one temperature\n" + row("arm", *SCALED))
    for arm, label in LABELS.items():
        several = chosen(results, arm)
        print(
            row(
                label,
                *(mean_and_error([of(r) for r in several], d) for of, d in SCALED.values()),
            )
        )
    kinds = sorted({name.split("/")[0] for name in results[0]["copies"]})
    for part in ("severity", "corruption"):
        names = [f"/{n}" for n in (1, 3, 5)] if part == "severity" else kinds
        print("\n" + row(part, *LABELS.values()))
        for name in names:
            print(row(name.strip("/"), *(partly(results, arm, name) for arm in LABELS)))


def partly(results: Results, arm: str, name: str) -> str:
    """Return the mean accuracy over the copies whose names hold something."""
    values = [
        100 * fmean(value for copy, value in r["copies"].items() if name in copy)
        for r in chosen(results, arm)
    ]
    return mean_and_error(values, 2)


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
    """Draw every ensemble, the arms side by side, with a line for each block."""
    with panels("decision_002_which_rule.png") as shown:
        for axis, (data, key, scale) in shown:
            for number, color, marker in zip(BLOCKS, COLORS, MARKERS, strict=False):
                values = [
                    scale * next(r for r in chosen(results, arm) if r["block"] == number)[data][key]
                    for arm in LABELS
                ]
                axis.plot(values, color=color, marker=marker, linewidth=0.8, label=f"block {number}")
            means = [fmean(scale * r[data][key] for r in chosen(results, arm)) for arm in LABELS]
            axis.plot(means, color="black", marker="_", markersize=18, linestyle="none", label="mean")
            axis.set_xticks(range(len(LABELS)), LABELS.values(), rotation=20)


if __name__ == "__main__":
    main()
