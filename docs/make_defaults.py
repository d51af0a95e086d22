"""Read the results of decision 010 by its rules: its tables, then all of each job.

PYTHONPATH=src:benchmarks python3 docs/make_defaults.py [FOLDER]
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from statistics import correlation, median
from typing import Any, NamedTuple

from defaults import CANDIDATES, DEFAULTS, named
from scipy import stats
from score_tables import (
    DECISIONS,
    folders_asked_for,
    mean_and_error,
    row,
    with_interval,
)

from tepui.core.storage import read_json
from tepui.methods import SED
from tepui.studies.significance import Difference, paired_difference

RESULTS = DECISIONS / "010_defaults"
JOBS = ("cifar10", "features", "flights")
# Its runs had BatchNorm's statistics of unlabeled samples too.
OLD_STATISTICS = "cifar10_candidates_A2D_DivDis"
# In its runs members of SED, A2D and DivDis took steps that were too short.
HALF_STEPS = "cifar10"
MENDED = {OLD_STATISTICS: "A2D(weight=0.003)", HALF_STEPS: "SED(weight=0.1)"}
MORE_SEEDS = "cifar10_deep_ensembles"
FEWER_EPOCHS = "cifar10_8_epochs"  # two thirds, the updates of two members of three
FIRST = 5  # ensembles of each method on the images
PLAIN = "DeepEnsemble()"
NO_HARM, HURTS, OPEN = "no harm", "hurts", "open"

Found = Mapping[str, Any]  # of a method, as the files have it


class Score(NamedTuple):
    """What is compared: its name in files, and how much worse is harm, in points."""

    name: str
    margin: float


SCORES = {"in domain": Score("accuracy", 0.3), "shift": Score("shifted_accuracy", 1.0)}


class Pair(NamedTuple):
    """What a method's ensembles scored, and the deep ensembles trained beside them."""

    found: Found
    plain: Found


def main(folder: Path = RESULTS) -> None:
    methods = {job: runs_of(job, folder) for job in JOBS}
    pairs = {job: pairs_of(list(each.values())) for job, each in methods.items()}
    for several in (DEFAULTS[1:], chain.from_iterable(CANDIDATES.values())):
        print_jobs(pairs, [named(method) for method in several])
    print()
    for name, several in CANDIDATES.items():
        names = [named(method) for method in several]
        if all(each in job for job in pairs.values() for each in names):
            print(f"{name}: {by_rule_2(names, pairs)} by rule 2")
    images = methods["cifar10"]
    for stem, name in MENDED.items():
        print_new_less_old(images.get(stem, {}), pairs["cifar10"], name)
    if MORE_SEEDS in images:
        print_less_all(images[MORE_SEEDS][PLAIN], pairs["cifar10"])
    if FEWER_EPOCHS in images:
        print_rest(pairs["cifar10"], images[FEWER_EPOCHS][PLAIN])
    for run in images.values():
        print_more_pairs(run)
    for each in methods.values():
        for stem, found in each.items():
            print(f"\n{stem}")
            print_job(found)


def runs_of(job: str, folder: Path = RESULTS) -> dict[str, dict[str, Found]]:
    """Return what is in a job's files; methods trained alone get deep ensembles."""
    files = sorted(folder.glob(f"{job}*.json"))
    runs = {file.stem: read_json(file)["methods"] for file in files}
    return {stem: beside_plain(run, runs.get(MORE_SEEDS)) for stem, run in runs.items()}


def beside_plain(
    methods: Mapping[str, Found], more: Mapping[str, Found] | None
) -> dict[str, Found]:
    """Return methods next to as many deep ensembles of the same seeds."""
    if PLAIN in methods or more is None:
        return dict(methods)
    count = len(next(iter(methods.values()))["accuracy"])
    keys = ("accuracy", "shifted_accuracy", "nll", "shifted_nll", "members")
    return {PLAIN: {key: more[PLAIN][key][:count] for key in keys}, **methods}


def pairs_of(runs: Sequence[Mapping[str, Found]]) -> dict[str, Pair]:
    """Return each method next to its deep ensembles; of two runs the later one's."""
    for methods in runs:
        if PLAIN not in methods:
            places = f"in their file or in {MORE_SEEDS}.json"
            raise ValueError(f"{[*methods]} must have deep ensembles: {places}")
    return {
        name: Pair(found, methods[PLAIN])
        for methods in runs
        for name, found in methods.items()
        if name != PLAIN
    }


def print_jobs(pairs: Mapping[str, Mapping[str, Pair]], names: Sequence[str]) -> None:
    """Print what rule 1 says of some methods, all jobs side by side."""
    heads = [(f"`{job}`, in domain", "shift", "is") for job in pairs]
    print()
    print(row("", *(head for several in heads for head in several)))
    for name in names:
        if not any(name in job for job in pairs.values()):
            continue
        cells: list[str] = []
        for job in pairs.values():
            if name not in job:
                cells += ["", "", ""]
                continue
            pair = job[name]
            cells += [with_interval(lead(*pair, score)) for score in SCORES.values()]
            cells.append(standing(*pair))
        print(row(f"`{name}`", *cells))


def print_new_less_old(
    old: Mapping[str, Found], pairs: Mapping[str, Pair], name: str
) -> None:
    """Print how runs after something was mended differ from the old ones, if any."""
    if name not in old or pairs[name].found is old[name]:
        return
    print(f"\n`{name}`, new less old")
    for place, score in SCORES.items():
        print(row(place, with_interval(lead(pairs[name].found, old[name], score))))


def print_less_all(all_plain: Found, pairs: Mapping[str, Pair]) -> None:
    """Print the luck of the pairs' deep ensembles, and the shift less all of them."""
    first = next(iter(pairs.values())).plain
    count = len(first["accuracy"])
    for place, score in SCORES.items():
        every = points(all_plain, score)
        if every[:count] != points(first, score):
            raise ValueError(f"the first {count} of {len(every)} must be the pairs'")
        luck = with_interval(unpaired(every[:count], every[count:]))
        means = [mean_and_error(part, 2) for part in (every[:count], every[count:])]
        print(f"\n{place}, the first {count} less the others: {luck} ({means})")
    shift = SCORES["shift"]
    both = [[points(each, shift) for each in pair] for pair in pairs.values()]
    alike = sorted(correlation(*each) for each in both)
    ends = alike[0], median(alike), alike[-1]
    print(row("correlation of pairs", *(f"{value:.2f}" for value in ends)))
    print(row("", f"less {count}, paired", "less all"))
    for name, pair in pairs.items():
        alone = unpaired(points(pair.found, shift), points(all_plain, shift))
        by_pair = with_interval(lead(*pair, shift))
        print(row(f"`{name}`", by_pair, with_interval(alone)))


def print_rest(pairs: Mapping[str, Pair], fewer: Found) -> None:
    """Print SED with members that rest, less all members and less fewer epochs."""
    heads = [f"{beside}, {place}" for beside in ("all", "fewer") for place in SCORES]
    print()
    print(row("two members less", *heads))
    for method in (SED(weight=0.1, active=2), *CANDIDATES["SED"]):
        if not {named(method), named(replace(method, active=3))} <= {*pairs}:
            continue
        two = pairs[named(method)].found
        others = pairs[named(replace(method, active=3))].found, fewer
        leads = [
            lead(two, other, score) for other in others for score in SCORES.values()
        ]
        print(row(f"`{named(method)}`", *map(with_interval, leads)))


def print_more_pairs(methods: Mapping[str, Found]) -> None:
    """Print methods of more seeds less deep ensembles, the first five apart."""
    for name, pair in pairs_of([methods]).items():
        if len(pair.found["accuracy"]) <= FIRST:
            continue
        print(f"\n`{name}`: {standing(*pair)} with all")
        for place, score in SCORES.items():
            both = points(pair.found, score), points(pair.plain, score)
            parts = {
                "first": [part[:FIRST] for part in both],
                "others": [part[FIRST:] for part in both],
                "all": both,
            }
            for which, (mine, theirs) in parts.items():
                cell = with_interval(paired_difference(mine, theirs))
                print(row(place, f"{which} {len(mine)}", cell))


def unpaired(first: Sequence[float], second: Sequence[float]) -> Difference:
    """Return the difference of two means, taken as independent, after Welch."""
    test = stats.ttest_ind(first, second, equal_var=False)
    low, high = test.confidence_interval()
    mean = sum(first) / len(first) - sum(second) / len(second)
    ends = float(low), float(high)
    return Difference(mean, *ends, float(test.pvalue), len(first) + len(second))


def print_job(methods: Mapping[str, Found]) -> None:
    """Print what every method scored, less the deep ensemble, and what rule 1 says."""
    heads = ("in domain %", "shift %", "NLL in domain", "NLL shift", "worst member %")
    print(row("method", *heads, "is"))
    plain = methods[PLAIN]
    for name, found in methods.items():
        if name == PLAIN:
            accuracies = [mean_and_error(points(found, s), 2) for s in SCORES.values()]
            nlls = [mean_and_error(found[key], 3) for key in ("nll", "shifted_nll")]
            print(row(name, *accuracies, *nlls, worst_member(found), ""))
            continue
        cells = [with_interval(lead(found, plain, s)) for s in SCORES.values()]
        for key in ("nll", "shifted_nll"):
            cells.append(with_interval(paired_difference(found[key], plain[key]), 3))
        print(row(name, *cells, worst_member(found), standing(found, plain)))


def points(found: Found, score: Score) -> list[float]:
    """Return a method's accuracies in points, by ensemble."""
    return [100 * value for value in found[score.name]]


def lead(
    found: Found, plain: Found, score: Score, confidence: float = 0.95
) -> Difference:
    """Return a method's accuracy less the deep ensemble's, in points."""
    return paired_difference(points(found, score), points(plain, score), confidence)


def standing(found: Found, plain: Found) -> str:
    """Return what rule 1 says of a method in a job."""
    scores: Sequence[Score] = list(SCORES.values())
    if any(lead(found, plain, s).high < -s.margin for s in scores):
        return HURTS
    kept = all(lead(found, plain, s, 0.9).low > -s.margin for s in scores)
    return NO_HARM if kept else OPEN


def by_rule_2(
    candidates: Sequence[str], pairs: Mapping[str, Mapping[str, Pair]]
) -> str | None:
    """Return the first that does no harm in any job, else that hurts in none."""
    found = {
        name: {standing(*job[name]) for job in pairs.values()} for name in candidates
    }
    harmless = [name for name, says in found.items() if says == {NO_HARM}]
    bearable = [name for name, says in found.items() if HURTS not in says]
    return next(iter([*harmless, *bearable]), None)


def worst_member(found: Found) -> str:
    """Return the accuracy of the weakest member of all ensembles, in points."""
    return f"{100 * min(min(several) for several in found['members']):.2f}"


if __name__ == "__main__":
    main(*folders_asked_for(RESULTS))
