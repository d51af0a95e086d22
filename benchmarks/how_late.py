"""How late can SharpBalance start? Trains what ``docs/decisions/003_how_late.md`` asks.

FOLDER holds ``cifar-10-batches-bin`` or ``-py``. One process per block: it trains the
deep ensemble and branches off where an arm begins to differ. One file per ensemble;
what is there already is not trained again:

    PYTHONPATH=src python3 benchmarks/how_late.py --data FOLDER --out late --blocks 7 8
"""

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

from decision_runs import (
    add_options,
    begin,
    check_data,
    found_of,
    go_on,
    passed_on,
    training_and_held_out,
)

import tepui
from tepui.core.spec import document
from tepui.core.storage import write_json
from tepui.methods import SAM, DeepEnsemble, Method, SharpBalance

RHO = 0.05
BLOCKS = (7, 8, 9, 10, 11)
STARTS = (0.25, 0.5, 0.7, 0.85, 0.9)
ARMS: dict[str, Method] = {
    **{
        f"late_{start}": SharpBalance(rho=RHO, before="plain", switch_at=start)
        for start in STARTS
    },
    "sam_0.85": SAM(rho=RHO, start_at=0.85),
    "deep_ensemble": DeepEnsemble(),
}


def train_block(arguments: argparse.Namespace) -> None:
    """Train all arms of a block that are missing, each from the deep ensemble."""
    data, held_out = training_and_held_out(arguments)
    epochs, runs = arguments.epochs, arguments.out / "runs" / f"block{arguments.block}"
    how = {"width": arguments.width, "seed": arguments.block, "epochs": epochs}
    for arm, method in in_order(epochs):
        if result_of(arguments.out, arguments.block, arm).exists():
            continue
        prefix = runs / "prefix"
        begin(data, DeepEnsemble(), prefix, until=begins(method, epochs), **how)
        run = go_on(data, method, runs / arm, prefix, **how)
        examine(arguments, arm, run, held_out)


def in_order(epochs: int) -> list[tuple[str, Method]]:
    """Return the arms by the epoch at which they leave the deep ensemble."""
    return sorted(ARMS.items(), key=lambda arm: begins(arm[1], epochs))


def begins(method: Method, epochs: int) -> int:
    """Return the epoch until which a method trains as the deep ensemble does."""
    if isinstance(method, DeepEnsemble):
        return epochs - 1
    _, alike = method.prefix(epochs)
    return alike


def result_of(out: Path, block: int, arm: str) -> Path:
    """Return the file of what was found."""
    return out / f"late_block{block}_{arm}.json"


def examine(
    arguments: argparse.Namespace, arm: str, run: tepui.Run, held_out: tepui.data.Arrays
) -> None:
    """Examine an ensemble and write down what was found."""
    found: dict[str, Any] = {
        "arm": arm,
        "block": arguments.block,
        "width": arguments.width,
        "epochs": arguments.epochs,
        "begins": begins(ARMS[arm], arguments.epochs),
        "described": document(ARMS[arm]),
        **found_of(run, held_out, arguments),
    }
    write_json(result_of(arguments.out, arguments.block, arm), found)


def run_blocks(arguments: argparse.Namespace) -> None:
    """Train blocks side by side, each in a process of its own."""
    check_data(arguments)
    command = [sys.executable, __file__, *passed_on(arguments)]
    running = {
        block: subprocess.Popen([*command, f"--block={block}"])
        for block in arguments.blocks
    }
    for block, process in running.items():
        print(f"block {block}: exit {process.wait()}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_options(parser)
    parser.add_argument("--blocks", type=int, nargs="+", default=BLOCKS)
    parser.add_argument("--block", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.block is None:
        run_blocks(arguments)
    else:
        train_block(arguments)


if __name__ == "__main__":
    main()
