"""Read the results of decision 008 by its rules: tables and picture.

PYTHONPATH=src:benchmarks python3 docs/make_averaging.py [FOLDER]

Before all blocks are complete it says how many are, and nothing else.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from block_tables import Arms
from decision_designs import DESIGNS
from decision_runs import read
from score_tables import (
    DECISIONS,
    folders_asked_for,
    picture_of,
    row,
    with_interval,
)

from tepui.studies.significance import Difference, holm

DESIGN = DESIGNS["008"]
RESULTS = DECISIONS / DESIGN.folder
# Trained the same and the paper's rule, from other seeds.
BEFORE = DECISIONS / DESIGNS["002"].folder
PLAIN = "deep_ensemble"
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
CANDIDATE = "deep_ensemble_averaged"
POINTS, NATS = 0.3, 0.02  # margins of rules 1 to 3
CLEAN_MARGIN = 0.2  # of rule 4
COMPARED = (("sam", PLAIN), ("released", PLAIN), ("late", PLAIN), ("released", "sam"))
DETECTORS = {
    "PDS": "pds",
    "mutual information": "mutual_information",
    "mean probability": "max_mean_probability",
    "entropy": "entropy",
    "energy": "energy",
    "largest logit": "max_logit",
    "variance": "predictive_variance",
}


def main(folder: Path = RESULTS) -> None:
    arms = Arms(read(folder), LABELS, DESIGN.blocks)
    if arms.all_there():
        print_comparisons(arms)
        print_gains(arms)
        arms.print_blocks()
        arms.draw(picture_of(folder, f"decision_{DESIGN.folder}.png"))
        arms.end_page([(f"{arm}_averaged", arm) for arm in RUNS])
        print_second_time(Arms(read(BEFORE), RUNS, ()), arms)
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


def print_second_time(before: Arms, arms: Arms) -> None:
    """Print what decision 002 compared, of its ensembles, of these and of all."""
    together = Arms([*before.results, *arms.results], RUNS, ())
    for data in ("corrupted", "clean"):
        print("\n" + row(f"{data}, points", "002", "here", "all ten"))
        for arm, other in COMPARED:
            several = [
                with_interval(each.difference(arm, other, data))
                for each in (before, arms, together)
            ]
            less = f" less {RUNS[other]}" if other != PLAIN else ""
            print(row(f"{RUNS[arm]}{less}", *several))


def print_detection(arms: Arms) -> None:
    """Print how much better runs detect CIFAR-100's images than the deep ensemble."""
    print("\n" + row("AUROC", *DETECTORS))
    for arm, label in RUNS.items():
        if arm != PLAIN:
            cells = [
                with_interval(arms.lead(arm, PLAIN, detection(name)), 3)
                for name in DETECTORS.values()
            ]
            print(row(label, *cells))


def detection(name: str) -> Callable[[dict[str, Any]], float]:
    """Return what tells a result's AUROC by a score of unfamiliarity."""
    return lambda result: result["unfamiliar"]["cifar100"][name]


if __name__ == "__main__":
    main(*folders_asked_for(RESULTS, beside=[BEFORE]))
