r"""How large a radius? Trains what ``docs/decisions/001_radius.md`` asks for.

FOLDER holds ``cifar-10-batches-bin`` or ``-py``. The whole design in its order until
the time is over, one file per ensemble; then all of them in one file:

    export PYTHONPATH=src
    python3 benchmarks/radius.py run --data FOLDER --out radius --minutes 24
    python3 benchmarks/radius.py gather radius --json radius/runs.json
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from decision_runs import (
    add_options,
    begin,
    check_data,
    exam_of,
    examined,
    go_on,
    logits_of,
    passed_on,
    read,
    recorded,
    the_device,
    training_and_held_out,
)

from tepui.core.spec import document
from tepui.core.storage import write_json
from tepui.methods import SAM, DeepEnsemble, Method, SharpBalance

RADII, ADAPTIVE_RADII = (0.05, 0.1, 0.2, 0.3), (0.5, 1.0, 2.0)
BOTH = ("sam", "sharpbalance")


@dataclass(frozen=True)
class Cell:
    """What one process trains: a radius with a seed, by SAM and from its half.

    Attributes:
        rho: The radius; 0 is the deep ensemble.
        block: The seed that members' seeds derive from.
        width: Channels of ResNet-18's first stage.
        adaptive: Whether the radius is relative to each weight, for SAM alone.
    """

    rho: float
    block: int
    width: int = 32
    adaptive: bool = False

    def methods(self) -> dict[str, Method]:
        """Return what is trained, the branch after what it branches from."""
        if self.rho == 0:
            return {"deep_ensemble": DeepEnsemble()}
        if self.adaptive:
            return {"asam": SAM(rho=self.rho, adaptive=True)}
        balanced = SharpBalance(rho=self.rho, before="sam")
        return {"sam": SAM(rho=self.rho), "sharpbalance": balanced}

    def file(self, method: str) -> str:
        """Return the name of the file for one of its methods."""
        return f"width{self.width}_block{self.block}_rho{self.rho}_{method}.json"


def train(arguments: argparse.Namespace) -> None:
    """Train and examine the ensembles of one cell."""
    cell = Cell(arguments.rho, arguments.block, arguments.width, arguments.adaptive)
    data, held_out = training_and_held_out(arguments)
    exam = exam_of(held_out.to(the_device()))
    how = {"width": cell.width, "seed": cell.block, "epochs": arguments.epochs}
    first, *_ = methods = cell.methods()
    with tempfile.TemporaryDirectory(dir=arguments.out) as folder:
        first_half = Path(folder) / "first_half"
        begin(data, methods[first], first_half, until=how["epochs"] // 2, **how)
        for name, method in methods.items():
            run = go_on(data, method, Path(folder) / name, first_half, **how)
            found = {
                "method": name,
                "rho": cell.rho,
                "block": cell.block,
                "width": cell.width,
                "epochs": arguments.epochs,
                "described": document(method),
                "branched_from": None if name == first else first,
                **recorded(run),
                **examined(logits_of(run.ensemble, exam)),
            }
            write_json(arguments.out / cell.file(name), found)


def run(arguments: argparse.Namespace) -> None:
    """Train cells in the order of the design until the time is over."""
    began = time.monotonic()
    ends = began + 60 * arguments.minutes
    check_data(arguments)
    narrow, wide = arguments.width, 2 * arguments.width
    arguments.out.mkdir(parents=True, exist_ok=True)

    def carry_out(cells: Sequence[Cell]) -> float:
        started = time.monotonic()
        with ThreadPoolExecutor(arguments.workers) as pool:
            list(pool.map(lambda cell: carry_out_one(cell, arguments, ends), cells))
        return time.monotonic() - started

    first = carry_out([*block(0, narrow), *block(1, narrow)])
    leading = ranked(read(arguments.out), narrow)[:2]
    print(f"two blocks took {first:.0f} s; leading: {leading}", flush=True)
    carry_out([Cell(rho, 0, wide) for rho in leading])
    later = [(first / 2, block(number, narrow)) for number in range(2, 10)]
    for number in range(10):
        cells = [Cell(rho, number, narrow, adaptive=True) for rho in ADAPTIVE_RADII]
        later.append((first / 4, cells))
    for seconds, cells in later:
        if time.monotonic() + seconds < ends:
            carry_out(cells)
    print(f"ended after {time.monotonic() - began:.0f} s", flush=True)


def block(number: int, width: int) -> list[Cell]:
    """Return the cells of one block, and the deep ensemble beside it."""
    return [Cell(rho, number, width) for rho in (*RADII, 0)]


def carry_out_one(cell: Cell, arguments: argparse.Namespace, ends: float) -> None:
    """Train a cell in a process of its own, which ends when the time is over."""
    own = [f"--rho={cell.rho}", f"--block={cell.block}", f"--width={cell.width}"]
    own += ["--adaptive"] if cell.adaptive else []
    command = [sys.executable, __file__, "train", *passed_on(arguments), *own]
    started = time.monotonic()
    try:
        done = subprocess.run(command, timeout=max(ends - started, 1), check=False)
        outcome = f"exit {done.returncode}"
    except subprocess.TimeoutExpired:
        outcome = "out of time"
    print(f"{cell}: {outcome} after {time.monotonic() - started:.0f} s", flush=True)


def balanced(found: dict[str, Any]) -> float:
    """Return the balanced accuracy of an ensemble, in points."""
    return 50 * (found["clean"]["accuracy"] + found["corrupted"]["accuracy"])


def blocks_by_radius(
    results: Sequence[dict[str, Any]], width: int, methods: Sequence[str] = BOTH
) -> dict[float, list[float]]:
    """Return balanced accuracy, averaged over methods, of every complete block."""
    known = {
        (found["method"], found["rho"], found["block"]): balanced(found)
        for found in results
        if found["width"] == width
    }
    blocks = sorted({number for _, _, number in known})
    complete = [
        number
        for number in blocks
        if all((name, rho, number) in known for name in methods for rho in RADII)
    ]
    return {
        rho: [
            fmean(known[name, rho, number] for name in methods) for number in complete
        ]
        for rho in RADII
    }


def ranked(results: Sequence[dict[str, Any]], width: int) -> list[float]:
    """Return the radii by their mean over complete blocks, the best first."""
    table = blocks_by_radius(results, width)
    if not table[RADII[0]]:
        return []
    return sorted(RADII, key=lambda rho: fmean(table[rho]), reverse=True)


def gather(arguments: argparse.Namespace) -> None:
    """Join the files of all ensembles."""
    results = read(arguments.folder)
    arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    print(f"{len(results)} ensembles")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("train", help="train the ensembles of one cell")
    one.add_argument("--rho", type=float, required=True)
    one.add_argument("--block", type=int, required=True)
    one.add_argument("--adaptive", action="store_true")
    one.set_defaults(call=train)
    all_ = commands.add_parser("run", help="train the whole design")
    all_.add_argument("--minutes", type=float, required=True)
    all_.add_argument("--workers", type=int, default=5, help="processes at a time")
    all_.set_defaults(call=run)
    for each in (one, all_):
        add_options(each)
    join = commands.add_parser("gather", help="join the files of all ensembles")
    join.add_argument("folder", type=Path)
    join.add_argument("--json", type=Path, required=True)
    join.set_defaults(call=gather)
    arguments = parser.parse_args()
    arguments.call(arguments)


if __name__ == "__main__":
    main()
