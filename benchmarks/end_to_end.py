"""From the command to the result: where every second of whole runs goes.

ResNet-18 on CIFAR-10, three members, batch 128, a checkpoint every ten epochs; each
case in a process of its own, whose start, imports, data and exam count. Kernels that
earlier runs compiled are out of its reach, unless ``--warm`` is given.

    PYTHONPATH=src python3 benchmarks/end_to_end.py --data FOLDER --json times.json

``--epochs`` cuts the runs to a length and reckons what whole ones take: what happens
once counts once, and the mean epoch before the switch, the mean epoch after it and the
mean checkpoint as often as they would come.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from training_step import images, synchronize

import tepui
from tepui.data import CIFAR10, Arrays, HorizontalFlip, RandomCrop, corrupted
from tepui.methods import DeepEnsemble, Method, SharpBalance
from tepui.models import ResNet18
from tepui.training.batches import steps_per_epoch
from tepui.training.numerics import numerics_of
from tepui.training.prepare import compiles
from tepui.training.run_folder import environment_of

CHECKPOINT_EVERY = 10
BEFORE = ("starting", "loading", "building")  # what comes before training
REPEATED = ("validating", "other")  # what every epoch does again


@dataclass(frozen=True)
class Case:
    """A run, and how long it may take."""

    method: Method
    epochs: int
    minutes: float  # the bound
    exam: bool = False  # whether the ensemble is examined in the same process


CASES = {
    "deep_ensemble": Case(DeepEnsemble(), 200, 7.5),
    "late_sharpbalance": Case(SharpBalance(before="plain"), 200, 11),
    "sharpbalance": Case(SharpBalance(before="sam"), 200, 15),
    "late_sharpbalance_exam": Case(SharpBalance(before="plain"), 80, 5.5, exam=True),
}


def run_case(name: str, arguments: argparse.Namespace) -> None:
    """Train one case in this process, and write down where the time went."""
    case, spent = CASES[name], {}
    spent["starting"] = time.time() - arguments.began
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with timed(spent, "loading", device):
        train = dataset(arguments, train=True)
    with timed(spent, "building", device):
        ensemble = tepui.Ensemble.build(
            lambda: ResNet18(width=arguments.width), members=arguments.members
        )
    run = fitted(ensemble, train, case, arguments)
    if case.exam:
        examine(ensemble, arguments, spent, device)
    document = {
        "case": name,
        "epochs": len(run.history),
        "peak_memory": run.history[-1].peak_memory,
        "spent": spent,
        "timeline": run.timeline,
        "steps": [record.seconds for record in run.history],
        "scored": [i for i, r in enumerate(run.history) if r.exchange_seconds],
        "environment": environment_of(device),
        "ended": time.time(),
    }
    (arguments.out / "times.json").write_text(json.dumps(document))


def fitted(
    ensemble: tepui.Ensemble, train: Arrays, case: Case, arguments: argparse.Namespace
) -> tepui.Run:
    """Train as the whole run would, for as many epochs as were asked for."""
    steps = steps_per_epoch(len(train), arguments.batch) * case.epochs
    numerics = numerics_of(None, "auto", deterministic=False)
    return tepui.fit(
        ensemble,
        train,
        method=case.method,
        epochs=length(case, arguments),
        batch_size=arguments.batch,
        optimizer=tepui.SGD(lr=0.1, momentum=0.9, weight_decay=5e-4),
        schedule=tepui.MultiStep(),
        augment=(RandomCrop(), HorizontalFlip()),
        compile=compiles(None, numerics, steps * arguments.members, ensemble.members),
        checkpoint_every=CHECKPOINT_EVERY,
        out=arguments.out / "run",
        progress="none",
    )


def examine(
    ensemble: tepui.Ensemble,
    arguments: argparse.Namespace,
    spent: dict[str, float],
    device: torch.device,
) -> None:
    """Score an ensemble on clean images and on all corrupted copies of them."""
    with timed(spent, "corrupting", device):
        test = dataset(arguments, train=False).to(device)
        copies = dict(corrupted(test))
    with timed(spent, "examining", device):
        tepui.evaluate(ensemble, test, shifted=copies)


def dataset(arguments: argparse.Namespace, *, train: bool) -> Arrays:
    """Return CIFAR-10, or random images of its size."""
    if arguments.data is None:
        return images(min(50_000 if train else 10_000, arguments.samples))
    whole = CIFAR10(arguments.data, train=train)
    return whole.subset(torch.arange(min(len(whole), arguments.samples)))


def length(case: Case, arguments: argparse.Namespace) -> int:
    return min(case.epochs, arguments.epochs or case.epochs)


@contextmanager
def timed(spent: dict[str, float], what: str, device: torch.device) -> Iterator[None]:
    began = time.perf_counter()
    yield
    synchronize(device)
    spent[what] = time.perf_counter() - began


def measured(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run a case in a process of its own; return where all of its time went."""
    with tempfile.TemporaryDirectory() as folder:
        caches = {
            variable: str(Path(folder) / variable)
            for variable in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
        }
        environment = {**os.environ, **({} if arguments.warm else caches)}
        began = time.time()
        options = [f"--out={folder}", f"--began={began}", *passed_on(arguments)]
        subprocess.run(
            [sys.executable, __file__, "--case", name, *options],
            env=environment,
            check=True,
        )
        ended = time.time()
        found: dict[str, Any] = json.loads((Path(folder) / "times.json").read_text())
    found["spent"]["leaving"] = ended - found["ended"]
    return {**found, "wall": ended - began}


def passed_on(arguments: argparse.Namespace) -> list[str]:
    names = ("data", "epochs", "width", "members", "batch", "samples")
    values = {name: getattr(arguments, name) for name in names}
    return [f"--{name}={value}" for name, value in values.items() if value is not None]


def whole_run(found: Mapping[str, Any], case: Case) -> dict[str, float]:
    """Return the seconds of a whole run by what they went to.

    Example:
        >>> cut = {"epochs": 1, "wall": 7.0, "spent": {"leaving": 2.0}, "scored": []}
        >>> cut |= {"timeline": {"stepping": 3.0}, "steps": [3.0]}
        >>> whole_run(cut, Case(DeepEnsemble(), 200, 7.5))
        {'training: stepping': 600.0, 'leaving': 2.0, 'not recorded': 2.0}
    """
    spent = found["spent"]
    recorded = sum(spent.values()) + sum(found["timeline"].values())
    within = extrapolated(found, case)
    return {
        **{name: spent[name] for name in BEFORE if name in spent},
        **{f"training: {name}": seconds for name, seconds in within.items()},
        **{name: spent[name] for name in spent if name not in BEFORE},
        "not recorded": found["wall"] - recorded,
    }


def extrapolated(found: Mapping[str, Any], case: Case) -> dict[str, float]:
    """Return the seconds of each activity in a run of the case's length."""
    epochs, seconds = found["epochs"], {}
    saved = -(-case.epochs // CHECKPOINT_EVERY) / -(-epochs // CHECKPOINT_EVERY)
    for activity, spent in found["timeline"].items():
        if activity == "stepping":
            for phase, (part, times) in phases_of(found, case).items():
                seconds[f"{activity}{phase}"] = times * fmean(found["steps"][part])
        else:
            times = saved if activity == "saving" else 1.0
            times = case.epochs / epochs if activity in REPEATED else times
            seconds[activity] = times * spent
    return seconds


def phases_of(found: Mapping[str, Any], case: Case) -> dict[str, tuple[slice, int]]:
    """Return the epochs of each phase, and how many a whole run has."""
    if not found["scored"]:
        return {"": (slice(None), case.epochs)}
    assert isinstance(case.method, SharpBalance)
    switch, first = case.method.first_exchange(case.epochs), found["scored"][0]
    return {
        ", before the switch": (slice(first), switch),
        ", after the switch": (slice(first, None), case.epochs - switch),
    }


def show(name: str, found: Mapping[str, Any], seconds: Mapping[str, float]) -> None:
    case, total = CASES[name], sum(seconds.values())
    hardware = found["environment"]["hardware"]
    cut = found["epochs"] < case.epochs
    how = f"reckoned from {found['epochs']}" if cut else "measured"
    table = Table(title=f"{name}: {case.epochs} epochs, {how}; {hardware}")
    for heading in ("what", "seconds", "%"):
        justify = "left" if heading == "what" else "right"
        table.add_column(heading, justify=justify)
    for what, value in seconds.items():
        table.add_row(what, f"{value:.2f}", f"{100 * value / total:.1f}")
    kept = "kept" if total <= 60 * case.minutes else "broken"
    bound = f"bound of {case.minutes:g} min: {kept}"
    table.add_section()
    table.add_row(f"all ({bound})", f"{total:.2f}", f"{total / 60:.2f} min")
    Console(width=100).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--data", type=Path, help="holds CIFAR-10")
    source.add_argument("--synthetic", action="store_true", help="random images")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--epochs", type=int, help="cut runs to this length")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--samples", type=int, default=50_000)
    parser.add_argument("--warm", action="store_true", help="use compiled kernels")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    for hidden, kind in (("case", str), ("out", Path), ("began", float)):
        parser.add_argument(f"--{hidden}", type=kind, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case is not None:
        run_case(arguments.case, arguments)
        return
    if arguments.data is None and not arguments.synthetic:
        parser.error("one of --data and --synthetic is needed")
    results = {}
    for name in arguments.cases:
        found = measured(name, arguments)
        seconds = whole_run(found, CASES[name])
        show(name, found, seconds)
        results[name] = {**found, "whole_run": seconds}
        if arguments.json:
            arguments.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
