"""Read the results of decision 011 by its rules, next to those of decision 010.

PYTHONPATH=src:benchmarks python3 docs/make_short_runs.py [FOLDER]
"""

from collections.abc import Mapping
from pathlib import Path

from block_tables import Arms
from decision_designs import DESIGNS
from defaults import named
from make_defaults import (
    HURTS,
    JOBS,
    MORE_SEEDS,
    SCORES,
    Found,
    Pair,
    beside_plain,
    lead,
    pairs_of,
    print_jobs,
    standing,
)
from make_defaults import RESULTS as DEFAULTS
from make_which_rule import results
from score_tables import DECISIONS, folders_asked_for, row, with_interval

from tepui.core.storage import read_json
from tepui.methods import GSAM, SAM, SharpBalance
from tepui.studies.significance import Difference

RESULTS = DECISIONS / "011_short_runs"
FOLDERS = (DEFAULTS, RESULTS)
LONGER = ("002", "008")  # the decisions of 40 epochs with both beginnings
ENSEMBLES = {"cifar10": 15, "features": 5, "flights": 10}
FORMER = named(SharpBalance(rho=0.05, before="sam"))
PLAINLY = named(SharpBalance(rho=0.05, before="plain"))
SMALLER = named(SharpBalance(rho=0.02, before="sam"))
SAM_NOW, SAM_SMALLER = named(SAM(rho=0.05)), named(SAM(rho=0.02))
GSAM_NOW = named(GSAM(rho=0.02))
COMPARED = (
    *((job, PLAINLY, FORMER) for job in JOBS),
    ("cifar10", SMALLER, FORMER),
    ("cifar10", SMALLER, PLAINLY),
)

Pairs = Mapping[str, Mapping[str, Pair]]  # by job and method


def main(folder: Path = RESULTS) -> None:
    pairs = {job: complete(job, (DEFAULTS, folder)) for job in JOBS}
    arms = (FORMER, PLAINLY, SMALLER, SAM_NOW, SAM_SMALLER, GSAM_NOW)
    print_jobs(pairs, arms)
    print()
    for job, arm, other in COMPARED:
        if {arm, other} <= {*pairs[job]}:
            cells = [with_interval(less(pairs[job], arm, other, p)) for p in SCORES]
            print(row(f"`{arm}` less `{other}`, `{job}`", *cells))
    cells = [with_interval(longer_runs(data)) for data in ("clean", "corrupted")]
    longer = "40 epochs of CIFAR-10, ten blocks, 90 % intervals"
    print(row(f"`{PLAINLY}` less `{FORMER}`, {longer}", *cells))
    for rule, answer in {
        "SharpBalance begins plainly": passes(pairs, PLAINLY),
        "SharpBalance with 0.02 is tried in 40 epochs": smaller_is_tried(pairs),
        "SAM has 0.02": sam_is_smaller(pairs),
    }.items():
        print(f"{rule}: {'not yet known' if answer is None else answer}")


def complete(job: str, folders: tuple[Path, ...]) -> dict[str, Pair]:
    """Return methods with all ensembles that the decision asks for."""
    files = [file for folder in folders for file in sorted(folder.glob(f"{job}*.json"))]
    runs: list[dict[str, Found]] = [read_json(file)["methods"] for file in files]
    more = next(
        (r for f, r in zip(files, runs, strict=True) if f.stem == MORE_SEEDS), None
    )
    full = [
        pairs_of([beside_plain(run, more)])
        for run in runs
        if len(next(iter(run.values()))["accuracy"]) == ENSEMBLES[job]
    ]
    return {name: pair for several in full for name, pair in several.items()}


def less(job: Mapping[str, Pair], arm: str, other: str, place: str) -> Difference:
    """Return an arm less another of the same seeds."""
    return lead(job[arm].found, job[other].found, SCORES[place])


def longer_runs(data: str) -> Difference:
    """Return a plain beginning less SAM's in the blocks of decisions 002 and 008."""
    several = [one for decision in LONGER for one in results(decision)]
    blocks = [n for decision in LONGER for n in DESIGNS[decision].blocks]
    arms = Arms(several, {"late": PLAINLY, "released": FORMER}, blocks)
    return arms.difference("late", "released", data, confidence=0.9)


def passes(pairs: Pairs, arm: str) -> bool | None:
    """Return what rule 1 says of an arm; None before it was trained in all jobs."""
    if any(arm not in job for job in pairs.values()):
        return None
    hurts = any(standing(*job[arm]) == HURTS for job in pairs.values())
    return not hurts and less(pairs["cifar10"], arm, FORMER, "in domain").low > 0


def smaller_is_tried(pairs: Pairs) -> bool | None:
    """Return what rule 2 says, which asks only if a plain beginning fails."""
    plainly = passes(pairs, PLAINLY)
    return None if plainly is None else not plainly and passes(pairs, SMALLER)


def sam_is_smaller(pairs: Pairs) -> bool | None:
    """Return what rule 3 says; None before its arms were trained in all jobs."""
    if any(arm not in job for arm in (SAM_NOW, SAM_SMALLER) for job in pairs.values()):
        return None
    if standing(*pairs["cifar10"][SAM_NOW]) != HURTS:
        return False
    return all(standing(*job[SAM_SMALLER]) != HURTS for job in pairs.values())


if __name__ == "__main__":
    beside = [DEFAULTS, *(DECISIONS / DESIGNS[n].folder for n in LONGER)]
    main(*folders_asked_for(RESULTS, beside=beside))
