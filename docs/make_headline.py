"""Read the results of decision 007 by its rules: print its tables, draw its picture.

PYTHONPATH=src:benchmarks python3 docs/make_headline.py [FOLDER]

Every ensemble is shown. Verdicts need three blocks; with fewer, differences are held
against the chance that is known from other decisions.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

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

from tepui.studies.significance import holm

DESIGN = DESIGNS["007"]
RESULTS = DECISIONS / DESIGN.folder
PLAIN, SAM = "deep_ensemble", "sam_published_rho"
FULL, LATE = "released_published_rho", "late_0.85_published_rho"
DEFAULT = "late"  # today's, which was added when the others were known
DECIDING = {
    PLAIN: "deep ensemble",
    SAM: "SAM",
    FULL: "SharpBalance",
    LATE: "late SharpBalance",
}
BESIDE = {
    "sam": "SAM, 0.05",
    "released": "SharpBalance, 0.05",
    "late_0.85": "late SharpBalance, 0.05",
    DEFAULT: "SharpBalance begun plainly, 0.05",
}
LABELS = DECIDING | BESIDE
FAMILIES, FAMILY = {"corrupted": 1.5, "clean": 0.4}, {"corrupted": 0.9, "clean": 0.3}
TIMES = {1: "seen once", 2: "seen twice"}


class Contrast(NamedTuple):
    """An arm less another, what chance may do to it, and what the paper printed."""

    arm: str
    other: str
    chance: dict[str, float]
    printed: dict[str, float] | None


CONTRASTS = (
    Contrast(FULL, SAM, FAMILY, {"corrupted": 1.00, "clean": 0.12}),
    Contrast(FULL, PLAIN, FAMILIES, {"corrupted": 1.49, "clean": 0.60}),
    Contrast(SAM, PLAIN, FAMILIES, {"corrupted": 0.49, "clean": 0.48}),
    Contrast(LATE, PLAIN, FAMILY, None),
)
ADDED = Contrast(DEFAULT, PLAIN, {"corrupted": 0.9, "clean": 0.4}, None)
Cell = Callable[[dict[str, Any]], str]
ACCURACY: dict[str, Cell] = {
    "members, corrupted %": lambda r: _points(r["corrupted"]["individual_accuracy"]),
    "ensemble, corrupted %": lambda r: _points(r["corrupted"]["accuracy"]),
    "members, clean %": lambda r: _points(r["clean"]["individual_accuracy"]),
    "ensemble, clean %": lambda r: _points(r["clean"]["accuracy"]),
    "DER, corrupted": lambda r: f"{r['corrupted']['der']:.3f}",
    "DER, clean": lambda r: f"{r['clean']['der']:.3f}",
    "each member, clean %": lambda r: ", ".join(
        map(_points, r["clean"]["members"]["accuracy"])
    ),
    "training loss": lambda r: ", ".join(f"{each:.3f}" for each in r["loss"][-1]),
}
PROBABILITIES: dict[str, Cell] = {
    "NLL, corrupted": lambda r: f"{r['corrupted']['nll']:.3f}",
    "NLL, corrupted, scaled": lambda r: f"{r['scaled']['corrupted']['nll']:.3f}",
    "NLL, clean": lambda r: f"{r['clean']['nll']:.3f}",
    "NLL, clean, scaled": lambda r: f"{r['scaled']['clean']['nll']:.3f}",
    "ECE, corrupted %": lambda r: _points(r["corrupted"]["ece"]),
    "ECE, corrupted, scaled %": lambda r: _points(r["scaled"]["corrupted"]["ece"]),
    "ECE, clean %": lambda r: _points(r["clean"]["ece"]),
    "ECE, clean, scaled %": lambda r: _points(r["scaled"]["clean"]["ece"]),
    "T": lambda r: f"{r['scaled']['temperature']:.3f}",
    "AUROC of CIFAR-100 by PDS": lambda r: _detected(r, "pds"),
    "by the mean probability": lambda r: _detected(r, "max_mean_probability"),
}


def main(folder: Path = RESULTS) -> None:
    results = read(folder)
    arms = complete_blocks(results)
    print(f"{len(arms.blocks)} of {len(DESIGN.blocks)} blocks are complete")
    if not results:
        return
    for columns in (ACCURACY, PROBABILITIES):
        print_ensembles(results, columns)
    if len(arms.blocks) == len(DESIGN.blocks):
        print_verdicts(arms)
    elif arms.blocks:
        print_seen(arms, CONTRASTS)
    added = blocks_with(results, (DEFAULT, PLAIN))
    if added.blocks:
        print_seen(added, [ADDED])
    there = {r["arm"] for r in results}
    labels = {arm: label for arm, label in LABELS.items() if arm in there}
    picture = picture_of(folder, f"decision_{DESIGN.folder}.png")
    Arms(results, labels, DESIGN.blocks).draw(picture)


def complete_blocks(results: Results) -> Arms:
    """Return the four arms in the blocks where all of them are there."""
    return blocks_with(results, DECIDING)


def blocks_with(results: Results, arms: Iterable[str]) -> Arms:
    """Return some arms in the blocks where all of them are there."""
    labels = {arm: LABELS[arm] for arm in arms}
    blocks = Arms(results, labels, DESIGN.blocks).complete
    return Arms([r for r in results if r["block"] in blocks], labels, blocks)


def print_ensembles(results: Results, columns: dict[str, Cell]) -> None:
    """Print the scores of every ensemble."""
    print("\n" + row("arm", "block", *columns))
    for arm, label in LABELS.items():
        for result in Arms(results, DECIDING, DESIGN.blocks).ensembles(arm):
            cells = [cell(result) for cell in columns.values()]
            print(row(label, result["block"], *cells))


def print_seen(arms: Arms, contrasts: Iterable[Contrast]) -> None:
    """Print differences of one or two blocks, and what rule 2 calls them."""
    print("\n" + row("difference", "corrupted", "the paper", "clean", "the paper"))
    for contrast in contrasts:
        cells = []
        for data in ("corrupted", "clean"):
            printed = f"{contrast.printed[data]:+.2f}" if contrast.printed else ""
            cells += [seen(arms, contrast, data), printed]
        print(row(name_of(contrast), *cells))


def seen(arms: Arms, contrast: Contrast, data: str) -> str:
    """Return a difference in every block, and what rule 2 calls it."""
    apart = by_block(arms, contrast, data)
    bound = contrast.chance[data]
    beyond = min(apart) > bound or max(apart) < -bound
    says = "beyond chance as known from elsewhere" if beyond else TIMES[len(apart)]
    return ", ".join(f"{value:+.2f}" for value in apart).replace("-", "−") + f": {says}"


def by_block(arms: Arms, contrast: Contrast, data: str) -> list[float]:
    """Return a difference in every block, in points."""
    both = (arms.accuracies(arm, data) for arm in contrast[:2])
    return [first - second for first, second in zip(*both, strict=True)]


def print_verdicts(arms: Arms) -> None:
    """Print what rule 3 says of the four differences."""
    found = [arms.difference(c.arm, c.other, "corrupted") for c in CONTRASTS]
    corrected = holm([each.p for each in found])
    heads = ("difference", "corrupted", "p", "p, Holm", "is", "the paper's", "clean")
    print("\n" + row(*heads))
    for contrast, apart, p in zip(CONTRASTS, found, corrected, strict=True):
        says = "supported" if p <= 0.05 and apart.mean > 0 else "undecided"
        says = "refuted" if apart.high < 0 else says
        of_paper = contrast.printed and contrast.printed["corrupted"]
        printed = said_of_printed(of_paper, apart.low, apart.high)
        clean = with_interval(arms.difference(contrast.arm, contrast.other, "clean"))
        numbers = (with_interval(apart), f"{apart.p:.4f}", f"{p:.4f}")
        print(row(name_of(contrast), *numbers, says, printed, clean))


def said_of_printed(printed: float | None, low: float, high: float) -> str:
    """Return the paper's difference, and whether an interval leaves it out."""
    if printed is None:
        return ""
    return f"{printed:.2f}, {'within' if low <= printed <= high else 'left out'}"


def name_of(contrast: Contrast) -> str:
    """Return what a table calls a difference."""
    return f"{LABELS[contrast.arm]} less {LABELS[contrast.other]}"


def _detected(result: dict[str, Any], score: str) -> str:
    found = result.get("unfamiliar", {}).get("cifar100")
    return f"{found[score]:.3f}" if found else ""


def _points(share: float) -> str:
    return f"{100 * share:.2f}"


if __name__ == "__main__":
    main(*folders_asked_for(RESULTS))
