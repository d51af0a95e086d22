"""Does SharpBalance help? Trains what ``docs/decisions/002_which_rule.md`` asks for.

FOLDER holds ``cifar-10-batches-bin`` or ``-py``. Blocks in the order given, one file
per ensemble; what is there already is not trained again:

    cp -r docs/results/decisions/002_which_rule rules
    PYTHONPATH=src python3 benchmarks/which_rule.py run --data FOLDER --out rules
"""

import argparse
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from branches import (
    add_options,
    cifar10,
    exam_of,
    examined,
    examined_at_best_temperature,
    fit,
    has_half,
    logits_of,
    passed_on,
    recorded,
    take_over,
    the_device,
    training_and_held_out,
)

from tepui.core.storage import write_json
from tepui.evaluation.dataset_logits import dataset_logits
from tepui.methods import SAM, DeepEnsemble, Method, SharpBalance
from tepui.training.run_folder import to_jsonable

RHO = 0.05
BLOCKS = (2, 3, 4, 5, 6)
METHODS: dict[str, Method] = {
    "sam": SAM(rho=RHO),
    "released": SharpBalance(rho=RHO),
    "paper": SharpBalance.paper(rho=RHO),
    "deep_ensemble": DeepEnsemble(),
    "late": SharpBalance(rho=RHO),
}
# The first of a family is trained whole, the others from its half.
FAMILIES = (("sam", "released", "paper"), ("deep_ensemble", "late"))
PARENT = {branch: first for first, *branches in FAMILIES for branch in branches}


@dataclass(frozen=True)
class Job:
    """One ensemble to train.

    Attributes:
        out: Folder of all results.
        block: The seed that members' seeds derive from.
        arm: What it is called in ``METHODS``.
    """

    out: Path
    block: int
    arm: str

    @property
    def result(self) -> Path:
        """The file of what was found."""
        return self.out / f"rules_block{self.block}_{self.arm}.json"

    @property
    def folder(self) -> Path:
        """The folder of the run."""
        return self.out / "runs" / f"block{self.block}_{self.arm}"

    @property
    def parent(self) -> "Job | None":
        """The job whose first half this one continues."""
        if self.arm not in PARENT:
            return None
        return Job(self.out, self.block, PARENT[self.arm])

    @property
    def ready(self) -> bool:
        """Whether it can begin."""
        return self.parent is None or has_half(self.parent.folder)


def train(arguments: argparse.Namespace) -> None:
    """Train and examine one ensemble."""
    job = Job(arguments.out, arguments.block, arguments.arm)
    data, held_out = training_and_held_out(arguments)
    method, parent = METHODS[job.arm], job.parent
    if parent is not None and not job.folder.exists():
        take_over(parent.folder, job.folder, method, len(data))
    run = fit(
        data,
        method,
        job.folder,
        width=arguments.width,
        seed=job.block,
        epochs=arguments.epochs,
    )
    began = time.monotonic()
    test = cifar10(arguments, train=False).to(the_device())
    exam = exam_of(test, arguments.out / "test_copies.safetensors")
    outputs = logits_of(run.ensemble, exam)
    on_held_out = dataset_logits(run.ensemble, held_out.to(the_device()))
    found: dict[str, Any] = {
        "arm": job.arm,
        "block": job.block,
        "width": arguments.width,
        "epochs": arguments.epochs,
        "described": to_jsonable(method),
        "branched_from": PARENT.get(job.arm),
        **recorded(run),
        **examined(outputs),
        "scaled": examined_at_best_temperature(outputs, on_held_out),
        "exam_seconds": round(time.monotonic() - began, 3),
    }
    write_json(job.result, found)


def run(arguments: argparse.Namespace) -> None:
    """Train blocks, several ensembles at a time, until all are done or time is over."""
    began = time.monotonic()
    arguments.out.mkdir(parents=True, exist_ok=True)
    waiting = [job for n in arguments.blocks for job in to_train(arguments.out, n)]
    running: dict[Job, subprocess.Popen[bytes]] = {}
    while time.monotonic() < began + 60 * arguments.minutes:
        for job, process in list(running.items()):
            if process.poll() is not None:
                print(
                    f"{time.monotonic() - began:6.0f} s {job.result.name}: "
                    f"exit {process.returncode}",
                    flush=True,
                )
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
    left = [job.result.name for job in (*running, *waiting)]
    print(f"ended after {time.monotonic() - began:.0f} s; left: {left}", flush=True)


def to_train(out: Path, block: int) -> Iterator[Job]:
    """Yield what a block lacks: whole families where their first half is gone too."""
    for arms in FAMILIES:
        family = [Job(out, block, arm) for arm in arms]
        missing = [job for job in family if not job.result.exists()]
        if missing and not has_half(family[0].folder):
            for job in family:
                shutil.rmtree(job.folder, ignore_errors=True)
            missing = family
        yield from missing


def started(job: Job, arguments: argparse.Namespace) -> "subprocess.Popen[bytes]":
    """Train an ensemble in a process of its own."""
    command = [sys.executable, __file__, "train", *passed_on(arguments)]
    return subprocess.Popen([*command, f"--block={job.block}", f"--arm={job.arm}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("train", help="train one ensemble")
    one.add_argument("--block", type=int, required=True)
    one.add_argument("--arm", choices=METHODS, required=True)
    one.set_defaults(call=train)
    all_ = commands.add_parser("run", help="train blocks")
    all_.add_argument("--blocks", type=int, nargs="+", default=BLOCKS)
    all_.add_argument("--minutes", type=float, default=float("inf"))
    all_.add_argument("--workers", type=int, default=4, help="processes at a time")
    all_.set_defaults(call=run)
    for each in (one, all_):
        add_options(each)
    arguments = parser.parse_args()
    arguments.call(arguments)


if __name__ == "__main__":
    main()
