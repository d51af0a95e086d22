"""Try seeds of the fault suites, add to the totals, print the table.

PYTHONPATH=src:tests python -m faults --suite kills --seeds 0:100 --minutes 10

Exits with 1 if anything was wrong.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"  # names that nobody has are not looked for online

import torch

from faults.engine import pending, tried
from faults.scenarios import warm_up
from faults.suites import SUITES
from faults.totals import WRONG, Totals, read_totals, write_totals


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """Return what was asked for."""
    parser = argparse.ArgumentParser(prog="faults", description=__doc__)
    parser.add_argument("--suite", nargs="+", choices=SUITES, default=[*SUITES])
    parser.add_argument("--seeds", default="0:40", type=_range, help="FIRST:END")
    parser.add_argument("--workers", default=1, type=int, help="processes at a time")
    parser.add_argument(
        "--minutes", default=float("inf"), type=float, help="for each suite"
    )
    parser.add_argument("--totals", default="faults.json", type=Path)
    parser.add_argument("--again", action="store_true", help="what was wrong first")
    return parser.parse_args(words)


def _range(text: str) -> tuple[int, int]:
    first, _, end = text.partition(":")
    return int(first), int(end)


def main(words: list[str] | None = None) -> int:
    """Try what was asked for; return 1 if anything was wrong."""
    asked = arguments(words)
    torch.set_num_threads(1)
    totals = read_totals(asked.totals)
    with tempfile.TemporaryDirectory() as folder:
        if {"kills", "disk", "resumes"} & {*asked.suite}:
            warm_up(Path(folder))
        for name in asked.suite:
            found = totals.setdefault(name, Totals())
            if asked.again:
                found.forget_wrong()
            until = time.monotonic() + 60 * asked.minutes
            seeds = pending(found, *asked.seeds)
            root = Path(folder).resolve() / name
            root.mkdir()
            for seed, group, end in tried(
                SUITES[name], seeds, root, workers=asked.workers, until=until
            ):
                found.add(seed, group, end)
                if end.startswith(WRONG):
                    sys.stderr.write(f"{name} {seed}: {group}: {end}\n")
                write_totals(asked.totals, totals)
    sys.stdout.write(table(totals))
    return int(any(found.wrong for found in totals.values()))


def table(totals: dict[str, Totals]) -> str:
    """Return counts by suite and outcome."""
    rows = [
        (SUITES[suite].about if n == 0 else "", end, str(count))
        for suite in SUITES
        if suite in totals
        for n, (end, count) in enumerate(sorted(totals[suite].by_outcome().items()))
    ]
    widths = [max((len(row[n]) for row in rows), default=0) for n in range(3)]
    return "".join(
        f"{a:{widths[0]}}  {b:{widths[1]}}  {c:>{widths[2]}}\n" for a, b, c in rows
    )


if __name__ == "__main__":
    sys.exit(main())
