"""What suites of faults came to so far: counts of outcomes over seeds, in one file.

A seed counts once. What was wrong is kept with its seed until it is tried again.
"""

import json
import sys
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import torch

from tepui.core.replacing import write_bytes

WRONG = "WRONG"  # the beginning of every outcome that must not be

VERSIONS = (
    f"Python {'.'.join(map(str, sys.version_info[:2]))}, "
    f"torch {'.'.join(torch.__version__.split('.')[:2])}"
)
LONGEST = 500  # characters that are kept of such an outcome


@dataclass
class Totals:
    """The seeds of a suite that were tried, and what came of them."""

    seeds: set[int] = field(default_factory=set)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: dict[int, tuple[str, str]] = field(default_factory=dict)
    days: set[str] = field(default_factory=set)
    versions: set[str] = field(default_factory=set)

    def add(self, seed: int, group: str, end: str) -> None:
        """Count what came of a seed."""
        if end.startswith(WRONG):
            self.wrong[seed] = group, end[:LONGEST]
            end = WRONG
        self.seeds.add(seed)
        self.counts[group, end] += 1
        self.days.add(datetime.now(UTC).date().isoformat())
        self.versions.add(VERSIONS)

    def forget_wrong(self) -> None:
        """Let the seeds whose outcome was wrong be tried again."""
        for seed, (group, _) in self.wrong.items():
            self.seeds.discard(seed)
            self.counts[group, WRONG] -= 1
        self.counts = +self.counts
        self.wrong = {}

    def by_outcome(self) -> Counter[str]:
        """Return the counts of all groups together."""
        found: Counter[str] = Counter()
        for (_, end), count in self.counts.items():
            found[end] += count
        return found

    def by_group(self) -> dict[str, Counter[str]]:
        """Return the counts of every group."""
        found: dict[str, Counter[str]] = {}
        for (group, end), count in sorted(self.counts.items()):
            found.setdefault(group, Counter())[end] += count
        return found

    def document(self) -> dict[str, object]:
        """Return the totals for a JSON document."""
        return {
            "seeds": ranges(self.seeds),
            "days": sorted(self.days),
            "versions": sorted(self.versions),
            "counts": [[*key, count] for key, count in sorted(self.counts.items())],
            "wrong": [[seed, *what] for seed, what in sorted(self.wrong.items())],
        }


def read_totals(file: Path) -> dict[str, Totals]:
    """Return what a file holds, by suite; nothing if there is none."""
    if not file.exists():
        return {}
    return {
        suite: Totals(
            {seed for first, end in found["seeds"] for seed in range(first, end)},
            Counter({(group, end): n for group, end, n in found["counts"]}),
            {seed: (group, end) for seed, group, end in found["wrong"]},
            set(found["days"]),
            set(found["versions"]),
        )
        for suite, found in json.loads(file.read_text()).items()
    }


def write_totals(file: Path, totals: dict[str, Totals]) -> None:
    """Write totals, whole or not at all."""
    found = {suite: each.document() for suite, each in sorted(totals.items())}
    write_bytes(file, (_readable(found) + "\n").encode())


def _readable(found: dict[str, dict[str, object]]) -> str:
    """Return JSON with a line for every count."""
    suites = []
    for suite, parts in found.items():
        lines = [
            f"    {json.dumps(name)}: {_list(part)}" for name, part in parts.items()
        ]
        suites.append(f"  {json.dumps(suite)}: {{\n" + ",\n".join(lines) + "\n  }")
    return "{\n" + ",\n".join(suites) + "\n}"


def _list(part: object) -> str:
    rows = [f"      {json.dumps(row)}" for row in part]
    return "[\n" + ",\n".join(rows) + "\n    ]" if rows else "[]"


def ranges(seeds: set[int]) -> list[list[int]]:
    """Return numbers as ranges of a first one and the one after the last."""
    found: list[list[int]] = []
    for seed in sorted(seeds):
        if found and found[-1][1] == seed:
            found[-1][1] = seed + 1
        else:
            found.append([seed, seed + 1])
    return found
