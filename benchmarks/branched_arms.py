"""Trains the ensembles that a decision asks for, first parts once for several arms.

FOLDER holds ``cifar-10-batches-bin`` or ``-py``, for decision 004 ``cifar-100-binary``
or ``-python``. Blocks in the order given, one file per ensemble; what is there already
is not trained again, and where run folders are kept, what was ended goes on:

    PYTHONPATH=src python3 benchmarks/branched_arms.py run 002 --data FOLDER --out rules

What is asked for stands in ``decision_designs.py``; ``--arms`` trains some of it.
"""

import argparse
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from decision_designs import DESIGNS, METHODS, Design
from decision_runs import (
    add_options,
    begin,
    check_data,
    found_of,
    go_on,
    last_weights,
    passed_on,
    training_and_held_out,
)

import tepui
from tepui.core.spec import document
from tepui.core.storage import write_json
from tepui.data import Arrays
from tepui.methods import Method


@dataclass(frozen=True)
class Job:
    """What one process trains: an ensemble from its first part, or a first part.

    Attributes:
        out: Folder of all results.
        decision: Which decision asks for it.
        block: The seed that members' seeds derive from.
        arm: What it is called in ``METHODS``.
        epochs: Length of the run.
        begins: Whether it is the first part, which other arms may share.
    """

    out: Path
    decision: str
    block: int
    arm: str
    epochs: int
    begins: bool = False

    @property
    def design(self) -> Design:
        """What the decision asks for."""
        return DESIGNS[self.decision]

    def method_of(self, arm: str) -> Method:
        """Return the method of an arm, averaged if the decision says so."""
        return replace(METHODS[arm], average=self.design.average)

    @property
    def family(self) -> str:
        """The arm that it trains as at first."""
        return self.design.first_part(self.arm, self.epochs)[0]

    @property
    def until(self) -> int:
        """The epoch at which the first part ends."""
        return self.design.first_part(self.arm, self.epochs)[1]

    @property
    def first_part(self) -> "Job":
        """The job that must be done before."""
        return replace(self, begins=True)

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        name = f"{self.family}_until_{self.until}" if self.begins else self.arm
        return self.out / "runs" / f"block{self.block}_{name}"

    @property
    def results(self) -> list[Path]:
        """The files of what was found; of a first part, a mark that it is done."""
        if self.begins:
            return [self.folder.with_name(f"{self.folder.name}.done")]
        ends = self.design.ends(self.arm)
        return [self.out / f"rules_block{self.block}_{end}.json" for end in ends]

    @property
    def done(self) -> bool:
        """Whether there is nothing left to do."""
        return all(file.exists() for file in self.results)

    @property
    def ready(self) -> bool:
        """Whether it can begin."""
        return self.begins or self.first_part.done


def train(arguments: argparse.Namespace) -> None:
    """Train a first part; or train an ensemble from there and examine it."""
    given = (arguments.decision, arguments.block, arguments.arm, arguments.epochs)
    job = Job(arguments.out, *given, arguments.begins)
    arguments.dataset = job.design.dataset
    data, held_out = training_and_held_out(arguments)
    how: dict[str, Any] = {"seed": job.block, "epochs": job.epochs}
    how |= {"width": arguments.width}
    if job.begins:
        begin(data, job.method_of(job.family), job.folder, until=job.until, **how)
        job.results[0].touch()
        return
    run = go_on(data, job.method_of(job.arm), job.folder, job.first_part.folder, **how)
    examine(job, run, held_out, arguments)


def examine(
    job: Job, run: tepui.Run, held_out: Arrays, arguments: argparse.Namespace
) -> None:
    """Examine what a run ended with, and write down what was found."""
    ends = job.design.ends(job.arm).items()
    for (arm, averaged), file in zip(ends, job.results, strict=True):
        plain = job.design.average is None or averaged
        ensemble = run.ensemble if plain else last_weights(run)
        how = {"ensemble": ensemble, "severities": job.design.severities}
        found: dict[str, Any] = {
            "arm": arm,
            "block": job.block,
            "width": arguments.width,
            "epochs": job.epochs,
            "described": document(METHODS[job.arm]),
            "branched_from": None if job.arm == job.family else job.family,
            **found_of(run, held_out, arguments, **how),
        }
        if averaged:
            found["average"] = job.design.average
        write_json(file, found)


def run(arguments: argparse.Namespace) -> None:
    """Train blocks, several ensembles at a time, until all are done or time is over.

    First parts come first, since others wait for them.
    """
    began = time.monotonic()
    design = DESIGNS[arguments.decision]
    arguments.epochs = arguments.epochs or design.epochs
    arguments.width = arguments.width or design.width
    arguments.dataset = design.dataset
    check_data(arguments)
    waiting = list(all_to_train(arguments, design))
    running: dict[Job, subprocess.Popen[bytes]] = {}
    while time.monotonic() < began + 60 * arguments.minutes:
        for job, process in list(running.items()):
            if process.poll() is not None:
                after, code = time.monotonic() - began, process.returncode
                print(f"{after:6.0f} s {job.folder.name}: exit {code}", flush=True)
                del running[job]
        ready = [job for job in waiting if job.ready]
        startable = sorted(ready, key=lambda job: not job.begins)
        for job in startable[: arguments.workers - len(running)]:
            running[job] = started(job, arguments)
            waiting.remove(job)
        if not running:
            break
        time.sleep(0.5)
    for process in running.values():
        process.kill()
    left = [job.folder.name for job in (*running, *waiting)]
    print(f"ended after {time.monotonic() - began:.0f} s; left: {left}", flush=True)


def all_to_train(arguments: argparse.Namespace, design: Design) -> Iterator[Job]:
    """Yield what the blocks and arms that are asked for lack."""
    for block in arguments.blocks or design.blocks:
        arms = arguments.arms or design.arms
        given = (arguments.out, arguments.decision, block)
        yield from to_train(Job(*given, arm, arguments.epochs) for arm in arms)


def to_train(jobs: Iterable[Job]) -> Iterator[Job]:
    """Yield what is missing: all that share a first part where that is gone too."""
    sharing: dict[Path, list[Job]] = {}
    for job in jobs:
        sharing.setdefault(job.first_part.folder, []).append(job)
    for several in sharing.values():
        missing = [job for job in several if not job.done]
        if missing and not missing[0].ready:
            for job in several:
                shutil.rmtree(job.folder, ignore_errors=True)
            missing = [several[0].first_part, *several]
        yield from missing


def started(job: Job, arguments: argparse.Namespace) -> "subprocess.Popen[bytes]":
    """Do a job in a process of its own."""
    command = [sys.executable, __file__, "train", job.decision, *passed_on(arguments)]
    command += [f"--block={job.block}", f"--arm={job.arm}"]
    return subprocess.Popen([*command, "--begins"] if job.begins else command)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("train", help="train one ensemble from its first part")
    one.add_argument("--block", type=int, required=True)
    one.add_argument("--arm", choices=METHODS, required=True)
    one.add_argument("--begins", action="store_true", help="train the first part")
    one.set_defaults(call=train)
    all_ = commands.add_parser("run", help="train blocks")
    all_.add_argument("--blocks", type=int, nargs="+")
    all_.add_argument("--arms", choices=METHODS, nargs="+", help="all by default")
    all_.add_argument("--minutes", type=float, default=float("inf"))
    all_.add_argument("--workers", type=int, default=4, help="processes at a time")
    all_.set_defaults(call=run)
    for each in (one, all_):
        each.add_argument("decision", choices=DESIGNS)
        add_options(each)
    all_.set_defaults(epochs=None, width=None)
    arguments = parser.parse_args()
    arguments.call(arguments)


if __name__ == "__main__":
    main()
