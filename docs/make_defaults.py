"""Read the results of decision 010 by its rules: a table for each job.

PYTHONPATH=src:benchmarks python3 docs/make_defaults.py
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from score_tables import mean_and_error, row, with_interval

from tepui.core.storage import read_json
from tepui.studies.significance import Difference, paired_difference

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "decisions" / "010_defaults"
JOBS = ("cifar10", "features", "flights")
PLAIN = "DeepEnsemble()"
NO_HARM, HURTS, OPEN = "no harm", "hurts", "open"

Found = Mapping[str, Any]  # of a method, as the files have it


class Score(NamedTuple):
    """What is compared: its name in files, and how much worse is harm, in points."""

    name: str
    margin: float


SCORES = {"in domain": Score("accuracy", 0.3), "shift": Score("shifted_accuracy", 1.0)}


def main() -> None:
    for job in JOBS:
        for file in sorted(RESULTS.glob(f"{job}*.json")):
            print(f"\n{file.stem}")
            print_job(read_json(file)["methods"])


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


def worst_member(found: Found) -> str:
    """Return the accuracy of the weakest member of all ensembles, in points."""
    return f"{100 * min(min(several) for several in found['members']):.2f}"


if __name__ == "__main__":
    main()
