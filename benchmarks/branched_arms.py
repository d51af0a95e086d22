"""Trains the ensembles that decisions 002, 004 and 005 in ``docs`` ask for.

FOLDER holds ``cifar-10-batches-bin`` or ``-py``, for decision 004 ``cifar-100-binary``
or ``-python``. Blocks in the order given, one file per ensemble; what is there already
is not trained again:

    cp -r docs/results/decisions/002_which_rule rules
    PYTHONPATH=src python3 benchmarks/branched_arms.py run 002 --data FOLDER --out rules
"""

import argparse
import hashlib
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from decision_runs import (
    DATASETS,
    add_options,
    begin,
    found_of,
    go_on,
    passed_on,
    training_and_held_out,
)
from torch import Tensor, nn
from torch.utils.data import Dataset

from tepui.core.storage import write_json
from tepui.data.loading import length
from tepui.methods import SAM, DeepEnsemble, Method, SharpBalance
from tepui.training.described import to_jsonable
from tepui.training.run_folder import RunFolder

RHO = 0.05


def random_scores(module: nn.Module, dataset: Dataset[Any]) -> Tensor:
    """Return scores that say nothing of the samples, others for each member."""
    first = next(module.parameters()).detach().float().cpu().contiguous()
    digest = hashlib.sha256(first.numpy().tobytes()).digest()
    stream = torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))
    return torch.rand(length(dataset), generator=stream)


METHODS: dict[str, Method] = {
    "sam": SAM(rho=RHO),
    "released": SharpBalance(rho=RHO),
    "paper": SharpBalance.paper(rho=RHO),
    "random": SharpBalance(rho=RHO, score=random_scores),
    "deep_ensemble": DeepEnsemble(),
    "late": SharpBalance(rho=RHO, before="plain"),
}


FIRST_HALVES = {
    "sam": "sam",
    "released": "sam",
    "paper": "sam",
    "random": "sam",
    "deep_ensemble": "deep_ensemble",
    "late": "deep_ensemble",
}


@dataclass(frozen=True)
class Design:
    """What a decision asks for.

    Attributes:
        folder: Of its results, in ``docs/results/decisions``.
        dataset: What is learned.
        blocks: The seeds that members' seeds derive from.
        arms: What is trained in every block.
    """

    folder: str
    dataset: str
    blocks: tuple[int, ...]
    arms: tuple[str, ...] = ("sam", "released", "paper", "deep_ensemble", "late")


DESIGNS = {
    "002": Design("002_which_rule", "cifar10", (2, 3, 4, 5, 6)),
    "004": Design("004_hundred_classes", "cifar100", (12, 13, 14)),
    "005": Design(
        "005_random_scores", "cifar10", tuple(range(15, 27)), ("released", "random")
    ),
}


@dataclass(frozen=True)
class Job:
    """What one process trains: an ensemble from a first half, or a first half.

    Attributes:
        out: Folder of all results.
        block: The seed that members' seeds derive from.
        arm: What it is called in ``METHODS``.
        begins: Whether it is the first half of the arm's family.
    """

    out: Path
    block: int
    arm: str
    begins: bool = False

    @property
    def family(self) -> str:
        """The arm whose first half it shares."""
        return FIRST_HALVES[self.arm]

    @property
    def first_half(self) -> "Job":
        """The job that must be done before."""
        return replace(self, arm=self.family, begins=True)

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        part = "_first_half" if self.begins else ""
        return self.out / "runs" / f"block{self.block}_{self.arm}{part}"

    @property
    def result(self) -> Path:
        """The file of what was found; of a first half, its checkpoint."""
        if self.begins:
            return RunFolder(self.folder).checkpoint
        return self.out / f"rules_block{self.block}_{self.arm}.json"

    @property
    def ready(self) -> bool:
        """Whether it can begin."""
        return self.begins or self.first_half.result.exists()


def train(arguments: argparse.Namespace) -> None:
    """Train a first half; or train an ensemble from there and examine it."""
    job = Job(arguments.out, arguments.block, arguments.arm, arguments.begins)
    data, held_out = training_and_held_out(arguments)
    epochs, width, method = arguments.epochs, arguments.width, METHODS[job.arm]
    how = {"width": width, "seed": job.block, "epochs": epochs}
    if job.begins:
        begin(data, method, job.folder, until=epochs // 2, **how)
        return
    run = go_on(data, method, job.folder, job.first_half.folder, **how)
    found: dict[str, Any] = {
        "arm": job.arm,
        "block": job.block,
        "width": width,
        "epochs": epochs,
        "described": to_jsonable(method),
        "branched_from": None if job.arm == job.family else job.family,
        **found_of(run, held_out, arguments),
    }
    write_json(job.result, found)


def run(arguments: argparse.Namespace) -> None:
    """Train blocks, several ensembles at a time, until all are done or time is over."""
    began = time.monotonic()
    design = DESIGNS[arguments.decision]
    arguments.dataset = design.dataset
    blocks = arguments.blocks or design.blocks
    waiting = [job for n in blocks for job in to_train(arguments.out, n, design.arms)]
    running: dict[Job, subprocess.Popen[bytes]] = {}
    while time.monotonic() < began + 60 * arguments.minutes:
        for job, process in list(running.items()):
            if process.poll() is not None:
                after, code = time.monotonic() - began, process.returncode
                print(f"{after:6.0f} s {job.folder.name}: exit {code}", flush=True)
                del running[job]
        startable = [job for job in waiting if job.ready]
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


def to_train(out: Path, block: int, arms: Sequence[str]) -> Iterator[Job]:
    """Yield what a block lacks: whole families where their first half is gone too."""
    for first in dict.fromkeys(FIRST_HALVES[arm] for arm in arms):
        family = [Job(out, block, arm) for arm in arms if FIRST_HALVES[arm] == first]
        missing = [job for job in family if not job.result.exists()]
        if missing and not missing[0].ready:
            missing = [missing[0].first_half, *family]
        for job in missing:
            shutil.rmtree(job.folder, ignore_errors=True)
        yield from missing


def started(job: Job, arguments: argparse.Namespace) -> "subprocess.Popen[bytes]":
    """Do a job in a process of its own."""
    command = [sys.executable, __file__, "train", *passed_on(arguments)]
    command += [f"--dataset={arguments.dataset}"]
    command += [f"--block={job.block}", f"--arm={job.arm}"]
    return subprocess.Popen([*command, "--begins"] if job.begins else command)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("train", help="train one ensemble from its first half")
    one.add_argument("--block", type=int, required=True)
    one.add_argument("--arm", choices=METHODS, required=True)
    one.add_argument("--dataset", choices=DATASETS)
    one.add_argument("--begins", action="store_true", help="train the first half")
    one.set_defaults(call=train)
    all_ = commands.add_parser("run", help="train blocks")
    all_.add_argument("decision", choices=DESIGNS)
    all_.add_argument("--blocks", type=int, nargs="+")
    all_.add_argument("--minutes", type=float, default=float("inf"))
    all_.add_argument("--workers", type=int, default=4, help="processes at a time")
    all_.set_defaults(call=run)
    for each in (one, all_):
        add_options(each)
    arguments = parser.parse_args()
    arguments.call(arguments)


if __name__ == "__main__":
    main()
