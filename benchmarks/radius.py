r"""How large a radius? Trains what ``docs/decisions/001_radius.md`` asks for.

FOLDER holds ``cifar-10-batches-bin`` or ``-py``. The whole design in its order until
the time is over, one file per ensemble; then all of them in one file:

    export PYTHONPATH=src
    python3 benchmarks/radius.py run --data FOLDER --out radius --minutes 24
    python3 benchmarks/radius.py gather radius --json results.json
"""

import argparse
import json
import shutil
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

import torch
import torch.nn.functional as F
from torch import Tensor

import tepui
from tepui.core.storage import read_json, write_document, write_json
from tepui.data import CIFAR10, Arrays, HorizontalFlip, RandomCrop, corrupted, split
from tepui.evaluation.dataset_logits import dataset_logits
from tepui.evaluation.scores import mean_scores, scores
from tepui.methods import SAM, DeepEnsemble, Method, SharpBalance
from tepui.models import ResNet18
from tepui.training.run_folder import RunFolder, environment_of, to_jsonable

RADII, ADAPTIVE_RADII = (0.05, 0.1, 0.2, 0.3), (0.5, 1.0, 2.0)
SEVERITIES = (1, 3, 5)
MEMBERS = 3
CHECKPOINT, HALF = ("checkpoint.json", "checkpoint"), "half"
BOTH = ("sam", "sharpbalance")

Exam = dict[tuple[str, int], Arrays]


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
        return {"sam": SAM(rho=self.rho), "sharpbalance": SharpBalance(rho=self.rho)}

    def options(self) -> list[str]:
        """Return the command line's form."""
        named = [f"--rho={self.rho}", f"--block={self.block}", f"--width={self.width}"]
        return [*named, "--adaptive"] if self.adaptive else named

    def file(self, method: str) -> str:
        """Return the name of the file for one of its methods."""
        return f"width{self.width}_block{self.block}_rho{self.rho}_{method}.json"


def train(arguments: argparse.Namespace) -> None:
    """Train and examine the ensembles of one cell."""
    cell = Cell(arguments.rho, arguments.block, arguments.width, arguments.adaptive)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = CIFAR10(arguments.data)
    if arguments.samples is not None:
        data = data.subset(torch.arange(arguments.samples))
    data, held_out = split(data, 0.1, seed=0)
    exam = exam_of(held_out.to(device))
    with tempfile.TemporaryDirectory(dir=arguments.out) as folder:
        first, *_ = folders = [Path(folder) / name for name in cell.methods()]
        for place, (name, method) in zip(folders, cell.methods().items(), strict=True):
            if place != first:
                take_over(first, place, method, len(data))
            run = fit(cell, data, method, arguments.epochs, place)
            found = {
                "method": name,
                "rho": cell.rho,
                "block": cell.block,
                "width": cell.width,
                "epochs": arguments.epochs,
                "to_jsonable": to_jsonable(method),
                "branched_from": None if place == first else first.name,
                **recorded(run, device),
                **examined(run.ensemble, exam),
            }
            write_json(arguments.out / cell.file(name), found)


def exam_of(held_out: Arrays) -> Exam:
    """Return clean images, under ``("clean", 0)``, and corrupted copies, all kept."""
    return {("clean", 0): held_out, **corrupted(held_out, severities=SEVERITIES)}


def fit(
    cell: Cell, data: Arrays, method: Method, epochs: int, folder: Path
) -> tepui.Run:
    """Train one ensemble, from the checkpoint in its folder if there is one."""
    ensemble = tepui.Ensemble.build(
        lambda: ResNet18(width=cell.width), members=MEMBERS, seed=cell.block
    )
    half = epochs // 2

    def keep_half(record: tepui.EpochRecord) -> None:
        # The checkpoint of the first half is the last one until the end.
        if record.epoch == half:
            for name in CHECKPOINT:
                copy(folder / name, folder / HALF / name)

    return tepui.fit(
        ensemble,
        data,
        method=method,
        epochs=epochs,
        batch_size=128,
        schedule=tepui.MultiStep(),
        augment=(RandomCrop(), HorizontalFlip()),
        compile=False,  # SharpBalance's shapes differ between members
        out=folder,
        resume=True,
        checkpoint_every=half,
        callbacks=[keep_half],
        progress="none",
    )


def take_over(first: Path, place: Path, method: Method, samples: int) -> None:
    """Begin a run with another's first half, which its method would have made too."""
    document = RunFolder(first).recorded()
    document["config"]["method"] = to_jsonable(method)
    new, half = RunFolder(place), RunFolder(first / HALF).load_checkpoint()
    assert half is not None
    write_document(new.description, "run", document)
    for index in range(MEMBERS):
        tensors, state = half.member(index)
        # Until the switch every sample of SharpBalance is sharpness-aware.
        tensors["method/sharp"] = torch.ones(samples, dtype=torch.bool)
        new.write_member(index, half.generation, tensors, state)
    new.commit(half.generation, MEMBERS, half.history)


def copy(source: Path, target: Path) -> None:
    """Copy a file or a folder."""
    target.parent.mkdir(parents=True, exist_ok=True)
    (shutil.copytree if source.is_dir() else shutil.copy)(source, target)


def recorded(run: tepui.Run, device: torch.device) -> dict[str, Any]:
    """Return what is known of a run besides its ensemble."""
    assert run.path is not None
    config = RunFolder(run.path).recorded()["config"]
    return {
        "seeds": list(run.ensemble.seeds),
        "precision": config["precision"],
        "data": config["data"],
        "environment": environment_of(device),
        "loss": [list(record.loss) for record in run.history],
        "epoch_seconds": [round(record.seconds, 3) for record in run.history],
        "exchange_seconds": sum(r.exchange_seconds or 0 for r in run.history),
        "sets": dict(run.summary),
    }


def examined(ensemble: tepui.Ensemble, exam: Exam) -> dict[str, Any]:
    """Return the scores of the ensemble and of each member, clean and corrupted."""
    torch.backends.cudnn.benchmark = True
    outputs = {key: dataset_logits(ensemble, data) for key, data in exam.items()}
    found = {key: scores(*output) for key, output in outputs.items()}
    alone = {key: member_scores(*output) for key, output in outputs.items()}
    clean, copies = ("clean", 0), [key for key in exam if key[1]]
    return {
        "clean": {**found[clean].document(), "members": alone[clean]},
        "corrupted": {
            **mean_scores(found[key] for key in copies).document(),
            "members": {
                name: [fmean(each) for each in zip(*lists, strict=True)]
                for name in ("accuracy", "nll")
                if (lists := [alone[key][name] for key in copies])
            },
        },
        "copies": {
            f"{kind}/{level}": found[kind, level].accuracy for kind, level in copies
        },
    }


def member_scores(logits: Tensor, labels: Tensor) -> dict[str, list[float]]:
    """Return accuracy and likelihood of each member on its own."""
    right = (logits.argmax(-1) == labels).double().mean(1)
    nll = [float(F.cross_entropy(own.double(), labels)) for own in logits]
    return {"accuracy": right.tolist(), "nll": nll}


def run(arguments: argparse.Namespace) -> None:
    """Train cells in the order of the design until the time is over."""
    began = time.monotonic()
    ends = began + 60 * arguments.minutes
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
    command = [sys.executable, __file__, "train", *cell.options()]
    command += [f"--data={arguments.data}", f"--out={arguments.out}"]
    command += [f"--epochs={arguments.epochs}"]
    if arguments.samples is not None:
        command.append(f"--samples={arguments.samples}")
    started = time.monotonic()
    try:
        done = subprocess.run(command, timeout=max(ends - started, 1), check=False)
        outcome = f"exit {done.returncode}"
    except subprocess.TimeoutExpired:
        outcome = "out of time"
    print(f"{cell}: {outcome} after {time.monotonic() - started:.0f} s", flush=True)


def read(folder: Path) -> list[dict[str, Any]]:
    """Return what was found of every ensemble that is complete."""
    return [read_json(file) for file in sorted(folder.glob("width*.json"))]


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
        each.add_argument("--data", type=Path, required=True)
        each.add_argument("--out", type=Path, required=True)
        each.add_argument("--epochs", type=int, default=40)
        each.add_argument("--width", type=int, default=32)
        each.add_argument("--samples", type=int, help="use so many samples only")
    join = commands.add_parser("gather", help="join the files of all ensembles")
    join.add_argument("folder", type=Path)
    join.add_argument("--json", type=Path, required=True)
    join.set_defaults(call=gather)
    arguments = parser.parse_args()
    arguments.call(arguments)


if __name__ == "__main__":
    main()
