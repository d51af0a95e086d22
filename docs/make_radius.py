"""Read the results of decision 001 by its rule: print its tables, draw its picture.

PYTHONPATH=src:benchmarks python3 docs/make_radius.py [FOLDER]
"""

import json
import math
from pathlib import Path
from statistics import fmean

from radius import RADII, balanced, blocks_by_radius
from scipy import stats
from score_tables import (
    DECISIONS,
    SHOWN,
    folders_asked_for,
    member_accuracies,
    panels,
    picture_of,
    row,
    score_cells,
    with_interval,
)

from tepui.report.drawing import COLORS, MARKERS
from tepui.studies.significance import holm, paired_difference

RESULTS = DECISIONS / "001_radius"
WIDTH = 32
FEWEST_BLOCKS = 2  # with which a spread between blocks is known
TAILS = (0.975, 0.025)
LABELS = {
    "deep_ensemble": "deep ensemble",
    "sam": "SAM",
    "sharpbalance": "SharpBalance",
}


def main(folder: Path = RESULTS) -> None:
    results = json.loads((folder / "runs.json").read_text())
    complete = len(blocks_by_radius(results, WIDTH)[RADII[0]])
    if complete < FEWEST_BLOCKS:
        print(f"complete blocks: {complete}, of {FEWEST_BLOCKS} at least: no answer")
        return
    for methods in (("sam", "sharpbalance"), ("sam",), ("sharpbalance",)):
        print(f"\nBalanced accuracy: {', '.join(methods)}")
        rule(blocks_by_radius(results, WIDTH, methods))
    print("\n" + row("method", "ρ", *SHOWN, "balanced accuracy", "training loss"))
    for method in LABELS:
        ensembles(results, method)
    members(results)
    draw(results, picture_of(folder, "decision_001_radius.png"))


def rule(table: dict[float, list[float]]) -> None:
    """Print the answer of the rule for a table of radii and blocks."""
    count, means = len(table[RADII[0]]), {rho: fmean(table[rho]) for rho in RADII}
    by_block = [fmean(values) for values in zip(*table.values(), strict=True)]
    overall, freedom = fmean(by_block), (len(RADII) - 1) * (count - 1)
    squares = sum(
        (value - means[rho] - by_block[number] + overall) ** 2
        for rho in RADII
        for number, value in enumerate(table[rho])
    )
    spread = math.sqrt(squares / freedom)
    error = spread * math.sqrt(2 / count)
    reach = float(stats.t.ppf(0.975, freedom)) * error
    best = max(RADII, key=means.__getitem__)
    answer = min(rho for rho in RADII if means[rho] >= means[best] - error)
    print(
        f"s {spread:.3f}, {freedom} degrees of freedom, error {error:.3f}, half-width "
        f"{reach:.2f}; best {best}, answer {answer}"
    )
    low, high = (
        spread * math.sqrt(freedom / stats.chi2.ppf(q, freedom)) for q in TAILS
    )
    print(f"95 % interval of s: {low:.2f} to {high:.2f}")
    others = [rho for rho in RADII if rho != answer]
    apart = {rho: means[answer] - means[rho] for rho in others}
    p_values = [
        2 * float(stats.t.sf(abs(apart[rho]) / error, freedom)) for rho in others
    ]
    corrected = dict(zip(others, holm(p_values), strict=True))
    for rho in RADII:
        cells = [f"{value:.2f}" for value in table[rho]] + [f"{means[rho]:.2f}"]
        if rho in apart:
            low, high = apart[rho] - reach, apart[rho] + reach
            cells += [f"{apart[rho]:.2f} ({low:.2f} to {high:.2f})"]
            cells += [f"{p_values[others.index(rho)]:.4f}", f"{corrected[rho]:.4f}"]
        print(f"| {rho} | " + " | ".join(cells) + " |")


def chosen(results: list[dict], method: str, rho: float) -> list[dict]:
    """Return the ensembles of a method and a radius, by block."""
    found = [r for r in results if r["method"] == method and r["rho"] == rho]
    return sorted(found, key=lambda result: result["block"])


def ensembles(results: list[dict], method: str) -> None:
    """Print mean and standard error of each score over blocks, for each radius."""
    for rho in sorted({r["rho"] for r in results if r["method"] == method}):
        several = chosen(results, method, rho)
        blocks = ", ".join(f"{balanced(r):.2f}" for r in several)
        losses = ", ".join(f"{r['loss'][-1][0]:.2f}" for r in several)
        cells = [*score_cells(several), blocks, losses]
        print(row(LABELS[method], f"{rho:g}", *cells))


def members(results: list[dict]) -> None:
    """Print differences between members of equal seeds, ρ = 0.05 less the others."""

    def compared(one: tuple[str, float], other: tuple[str, float]) -> list[str]:
        return [
            with_interval(
                paired_difference(
                    member_accuracies(chosen(results, *one), data),
                    member_accuracies(chosen(results, *other), data),
                )
            )
            for data in ("clean", "corrupted")
        ]

    for method in ("sam", "sharpbalance"):
        for rho in (0.0, *RADII[1:]):
            other = "deep_ensemble" if rho == 0 else method
            cells = compared((method, 0.05), (other, rho))
            print(row(LABELS[method], f"{rho:g}", *cells))
    for rho in RADII:
        cells = compared(("sharpbalance", rho), ("sam", rho))
        print(row("SharpBalance less SAM", rho, *cells))


def draw(results: list[dict], file: Path) -> None:
    """Draw accuracy and diversity against the radius, a point for each ensemble."""
    with panels(file) as shown:
        for axis, (data, key, scale) in shown:
            for method, color, marker in zip(LABELS, COLORS, MARKERS, strict=False):
                radii = sorted({r["rho"] for r in results if r["method"] == method})
                values = {
                    rho: [scale * r[data][key] for r in chosen(results, method, rho)]
                    for rho in radii
                }
                for rho in radii:
                    axis.plot(
                        [rho] * len(values[rho]),
                        values[rho],
                        color=color,
                        marker=marker,
                        linestyle="none",
                        alpha=0.6,
                    )
                axis.plot(
                    radii,
                    [fmean(values[rho]) for rho in radii],
                    color=color,
                    marker="_" if len(radii) == 1 else None,
                    markersize=14,
                    label=LABELS[method],
                )
            axis.set_xlabel("radius ρ")
            axis.set_xticks([0, *RADII])


if __name__ == "__main__":
    main(*folders_asked_for(RESULTS))
