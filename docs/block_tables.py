"""Tables and the picture of decisions whose arms were trained in blocks of one seed."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, cycle
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from matplotlib.axes import Axes
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

from tepui.report.drawing import COLORS, MARKERS
from tepui.studies.significance import Difference, paired_difference

SHOWN_BY_BLOCK = (
    "corrupted %",
    "clean %",
    "NLL corrupted",
    "NLL clean",
    "ECE % corrupted",
    "ECE % clean",
    "DER corrupted",
)
LETTERS_BELOW_AN_AXIS = 30
HEIGHT_WITH_SLANTED_NAMES = 5.0  # inches
SCALED = {
    "T": (lambda r: r["scaled"]["temperature"], 3),
    "NLL clean": (lambda r: r["scaled"]["clean"]["nll"], 3),
    "NLL corrupted": (lambda r: r["scaled"]["corrupted"]["nll"], 3),
    "ECE % clean": (lambda r: 100 * r["scaled"]["clean"]["ece"], 2),
    "ECE % corrupted": (lambda r: 100 * r["scaled"]["corrupted"]["ece"], 2),
}
Score = Callable[[dict[str, Any]], float]


@dataclass(frozen=True)
class Arms:
    """What ensembles of several arms scored, one of each arm in every block.

    Attributes:
        results: One mapping per ensemble.
        labels: The arms, and how tables call them.
        blocks: Those that the rule asks for.
    """

    results: Results
    labels: Mapping[str, str]
    blocks: Sequence[int]

    @property
    def complete(self) -> list[int]:
        """The blocks of which every arm is there."""
        there = {(r["arm"], r["block"]) for r in self.results}
        return [n for n in self.blocks if all((arm, n) in there for arm in self.labels)]

    def ensembles(self, arm: str) -> Results:
        """Return the ensembles of an arm, by block."""
        found = [r for r in self.results if r["arm"] == arm]
        return sorted(found, key=lambda result: result["block"])

    def accuracies(self, arm: str, data: str) -> list[float]:
        """Return an arm's accuracies in points, by block."""
        return [100 * r[data]["accuracy"] for r in self.ensembles(arm)]

    def difference(
        self, arm: str, other: str, data: str, confidence: float = 0.95
    ) -> Difference:
        """Return an arm's accuracy less another's, in points."""
        return self.lead(arm, other, lambda r: 100 * r[data]["accuracy"], confidence)

    def lead(
        self, arm: str, other: str, score: Score, confidence: float = 0.95
    ) -> Difference:
        """Return an arm's score less another's of the same blocks."""
        first, second = (list(map(score, self.ensembles(a))) for a in (arm, other))
        return paired_difference(first, second, confidence)

    def begin_page(self, picture: Path) -> bool:
        """Print and draw every ensemble; return whether all blocks are complete."""
        self.print_blocks()
        self.draw(picture)
        return self.all_there()

    def all_there(self) -> bool:
        """Return whether all blocks are complete; say how many are if not."""
        done = self.complete == list(self.blocks)
        if not done:
            count = f"{len(self.complete)} of {len(self.blocks)}"
            print(f"\n{count} blocks are complete: no verdict")
        return done

    def end_page(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Print what is reported beside the verdicts."""
        self.print_scores()
        self.print_unfamiliar()
        for part in ("severity", "corruption"):
            self.print_copies(part)
        self.print_members(pairs)

    def print_blocks(self) -> None:
        """Print the scores of every ensemble."""
        for name in SHOWN_BY_BLOCK:
            data, key, scale, digits = SHOWN[name]
            print("\n" + row(name, *(f"block {number}" for number in self.blocks)))
            for arm, label in self.labels.items():
                ensembles = self.ensembles(arm)
                known = {r["block"]: scale * r[data][key] for r in ensembles}
                shown = {n: f"{value:.{digits}f}" for n, value in known.items()}
                print(row(label, *(shown.get(n, "") for n in self.blocks)))

    def print_scores(self) -> None:
        """Print mean and standard error of scores, before and after scaling."""
        print("\n" + row("arm", *SHOWN))
        for arm, label in self.labels.items():
            print(row(label, *score_cells(self.ensembles(arm))))
        print("\nWith one temperature\n" + row("arm", *SCALED))
        for arm, label in self.labels.items():
            several = self.ensembles(arm)
            cells = [
                mean_and_error([of(r) for r in several], d) for of, d in SCALED.values()
            ]
            print(row(label, *cells))

    def print_unfamiliar(self) -> None:
        """Print how well scores find the other data set's images, if all were shown."""
        if not all(r.get("unfamiliar") for r in self.results):
            return
        (other,) = self.results[0]["unfamiliar"]
        names = list(self.results[0]["unfamiliar"][other])
        print(f"\nAUROC of {other}\n" + row("arm", *names))
        for arm, label in self.labels.items():
            found = [r["unfamiliar"][other] for r in self.ensembles(arm)]
            cells = [mean_and_error([each[n] for each in found], 3) for n in names]
            print(row(label, *cells))

    def print_copies(self, part: str) -> None:
        """Print accuracy on the corrupted copies of each severity or corruption."""

        copies = self.results[0]["copies"]
        names = [name.split("/")[part == "severity"] for name in copies]
        print("\n" + row(part, *self.labels.values()))
        for group in dict.fromkeys(names):
            cells = [
                [on_copies(r, group) for r in self.ensembles(arm)]
                for arm in self.labels
            ]
            print(row(group, *(mean_and_error(each, 2) for each in cells)))

    def print_members(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Print differences between members of equal seeds."""
        print("\n" + row("members", "clean", "corrupted"))
        for arm, other in pairs:
            cells = []
            for data in ("clean", "corrupted"):
                both = (
                    member_accuracies(self.ensembles(a), data) for a in (arm, other)
                )
                cells.append(with_interval(paired_difference(*both)))
            print(row(f"{self.labels[arm]} less {self.labels[other]}", *cells))

    def print_spreads(self) -> None:
        """Print how differences of accuracy vary between blocks, in points."""
        print("\n" + row("standard deviation between blocks", "clean", "corrupted"))
        for arm, other in combinations(self.labels, 2):
            cells = []
            for data in ("clean", "corrupted"):
                both = (self.accuracies(a, data) for a in (arm, other))
                cells.append(stdev(a - b for a, b in zip(*both, strict=True)))
            name = f"{self.labels[arm]} less {self.labels[other]}"
            print(row(name, *(f"{cell:.2f}" for cell in cells)))

    def print_sets(self) -> None:
        """Print which part of the data sharpness-aware sets hold, and pairs share."""
        heads = ("arm", "share of the data", "of all members", "shared by a pair")
        print("\n" + row(*heads))
        for arm, label in self.labels.items():
            found = [r["sets"] for r in self.ensembles(arm)]
            if not all(found):
                continue
            sizes = [[n / each["samples"] for n in each["sizes"]] for each in found]
            members = [size for several in sizes for size in several]
            shared = [overlap(each["overlaps"]) for each in found]
            mean = mean_and_error([fmean(several) for several in sizes], 3)
            reach = f"{min(members):.3f} to {max(members):.3f}"
            print(row(label, mean, reach, mean_and_error(shared, 3)))

    def draw(self, file: Path) -> None:
        """Draw every ensemble, the arms side by side, a line for each block."""
        told_apart = len(self.blocks) <= len(MARKERS)
        with panels(file) as shown:
            for axis, (data, key, scale) in shown:
                styles = zip(self.blocks, cycle(COLORS), cycle(MARKERS), strict=False)
                for n, color, marker in styles:
                    known = {r["arm"]: r for r in self.results if r["block"] == n}
                    values = [
                        scale * known[arm][data][key] if arm in known else math.nan
                        for arm in self.labels
                    ]
                    own = {"color": color, "marker": marker, "label": f"block {n}"}
                    style = own if told_apart else {"color": COLORS[0], "marker": "o"}
                    if known:
                        axis.plot(values, linewidth=0.7, **style)
                name_ticks(axis, list(self.labels.values()))


def on_copies(result: Mapping[str, Any], group: str) -> float:
    """Return the mean accuracy on copies of a severity or corruption, in points."""
    copies = result["copies"].items()
    return 100 * fmean(value for name, value in copies if group in name.split("/"))


def overlap(overlaps: Sequence[Sequence[float]]) -> float:
    """Return the mean over pairs of members."""
    return fmean(overlaps[i][j] for i, j in combinations(range(len(overlaps)), 2))


def name_ticks(axis: Axes, labels: Sequence[str]) -> None:
    """Write names below an axis, slanted where they would run into each other."""
    broken = [label.replace(" ", "\n") for label in labels]
    widths = [max(map(len, label.split("\n"))) for label in broken]
    if sum(widths) <= LETTERS_BELOW_AN_AXIS:
        axis.set_xticks(range(len(labels)), broken)
    else:
        slanted = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
        axis.set_xticks(range(len(labels)), labels, **slanted)
        axis.figure.set_figheight(HEIGHT_WITH_SLANTED_NAMES)
