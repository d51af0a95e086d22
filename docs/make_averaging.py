"""Read the results of decision 008 by its rules: tables and picture.

PYTHONPATH=src:benchmarks python3 docs/make_averaging.py

Before all blocks are complete it says how many are, and nothing else.
"""

from pathlib import Path

from block_tables import Arms
from decision_designs import DESIGNS
from decision_runs import read
from score_tables import row, with_interval

from tepui.studies.significance import Difference, holm

HERE = Path(__file__).parent
DESIGN = DESIGNS["008"]
RESULTS = HERE / "results" / "decisions" / DESIGN.folder
RUNS = {
    "deep_ensemble": "deep ensemble",
    "late": "late",
    "sam": "SAM",
    "released": "SharpBalance",
}
LABELS = {
    end: f"{label}, averaged" if averaged else label
    for arm, label in RUNS.items()
    for end, averaged in DESIGN.ends(arm).items()
}
FORMER = HERE / "results" / "decisions" / DESIGNS["002"].folder
AGAIN = (
    ("sam", "deep_ensemble"),
    ("released", "deep_ensemble"),
    ("late", "deep_ensemble"),
    ("released", "sam"),
)
DETECTORS = (
    "pds",
    "mutual_information",
    "max_mean_probability",
    "entropy",
    "energy",
    "max_logit",
    "predictive_variance",
)
CANDIDATE = "deep_ensemble_averaged"
POINTS, NATS = 0.3, 0.02  # margins of rules 1 to 3
CLEAN_MARGIN = 0.2  # of rule 4


def main() -> None:
    arms = Arms(read(RESULTS), LABELS, DESIGN.blocks)
    if arms.all_there():
        print_comparisons(arms)
        print_gains(arms)
        arms.print_blocks()
        arms.draw(f"decision_{DESIGN.folder}.png")
        arms.end_page([(f"{arm}_averaged", arm) for arm in RUNS])
        print_again(arms)
        print_detection(arms)


def print_comparisons(arms: Arms) -> None:
    """Print the averaged deep ensemble less others, and what rules 1 to 3 say."""
    heads = ("rule", "averaged deep ensemble less", "corrupted %", "NLL", "is")
    print("\n" + row(*heads, "corrupted %, 95 % interval"))
    others = {1: "released", 2: "released_averaged", 3: "late"}
    first = standing(arms, "released")
    for rule, other in others.items():
        found = [difference(arms, CANDIDATE, other, s, 0.9) for s in ("C", "L")]
        cells = [with_interval(found[0]), with_interval(found[1], 3)]
        asked = rule != 2 or first == "within"
        says = standing(arms, other) if asked else "not asked, as rule 1 does not hold"
        wide = with_interval(difference(arms, CANDIDATE, other, "C", 0.95))
        print(row(rule, LABELS[other], *cells, says, wide))
    left = difference(arms, "released_averaged", CANDIDATE, "C", 0.95)
    print(
        f"2. averaged SharpBalance less averaged deep ensemble: {with_interval(left)}"
    )


def standing(arms: Arms, other: str) -> str:
    """Return whether the averaged deep ensemble is within the margins of another."""
    points, nats = (difference(arms, CANDIDATE, other, s, 0.9) for s in ("C", "L"))
    if points.low > -POINTS and nats.high < NATS:
        return "within"
    points, nats = (difference(arms, CANDIDATE, other, s, 0.95) for s in ("C", "L"))
    beyond = points.high < -POINTS or nats.low > NATS
    return "refuted" if beyond else "not shown"


def print_gains(arms: Arms) -> None:
    """Print what averaging does to each run, and what rule 4 says."""
    ends = [(f"{arm}_averaged", arm) for arm in RUNS]
    gains = [difference(arms, *pair, "C", 0.95) for pair in ends]
    print("\n" + row("averaging", "corrupted %", "p, Holm", "clean %", "NLL", "is"))
    for pair, gain, p in zip(ends, gains, holm([g.p for g in gains]), strict=True):
        clean, nll = (difference(arms, *pair, score, 0.95) for score in ("A", "L"))
        helps = p <= 0.05 and gain.mean > 0 and clean.low > -CLEAN_MARGIN
        cells = [with_interval(gain), f"{p:.4f}", with_interval(clean)]
        says = "helps" if helps else "not shown"
        print(row(RUNS[pair[1]], *cells, with_interval(nll, 3), says))


def difference(
    arms: Arms, arm: str, other: str, score: str, confidence: float
) -> Difference:
    """Return an arm less another within blocks: in C, A or L."""
    if score != "L":
        data = {"C": "corrupted", "A": "clean"}[score]
        return arms.difference(arm, other, data, confidence)
    return arms.lead(arm, other, lambda r: r["scaled"]["corrupted"]["nll"], confidence)


def print_again(arms: Arms) -> None:
    """Print the runs of decision 002 beside those of the same arms here."""
    before = Arms(read(FORMER), RUNS, DESIGNS["002"].blocks)
    every = Arms([*before.results, *arms.results], RUNS, ())
    for data in ("corrupted", "clean"):
        print("\n" + row(f"{data}, points", "002", "here", "all ten"))
        for arm, other in AGAIN:
            found = [
                each.difference(arm, other, data) for each in (before, arms, every)
            ]
            label = RUNS[arm] + (f" less {RUNS[other]}" if other == "sam" else "")
            print(row(label, *map(with_interval, found)))


def print_detection(arms: Arms) -> None:
    """Print AUROC of unfamiliar images less that of the deep ensemble."""
    print("\n" + row("AUROC less the deep ensemble's", *DETECTORS))
    for arm in ("sam", "released", "late"):
        found = [
            arms.lead(
                arm, "deep_ensemble", lambda r, s=s: r["unfamiliar"]["cifar100"][s]
            )
            for s in DETECTORS
        ]
        print(row(RUNS[arm], *(with_interval(each, 3) for each in found)))


if __name__ == "__main__":
    main()
