"""Pieces of work that write files, each to be begun or continued in a folder.

Whatever disturbs them, the last undisturbed attempt must leave what an undisturbed run
leaves: the same files with the same content, but for times.
"""

import json
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open

import tepui
from damage_cases import DATA, LARGER, ensemble
from faults.children import ended, forked, last_words
from faults.once import made_once
from faults.shim import at_operations
from processes import search_path
from study_cases import EXAM, MEASURE, TRIAL
from tepui.cli.main import main
from tepui.core.lease import LEASE
from tepui.core.storage import raw_bytes
from tepui.data import corrupted
from tepui.data.corruptions.files import write_corrupted
from tepui.evaluation import write_predictions
from tepui.methods import SAM, DeepEnsemble, SharpBalance
from tepui.modules.features import cached_features
from tepui.studies.job import Job
from tepui.studies.jobs import carry_out
from tepui.studies.store import Store

SMALL = ["--members", "2", "--model", "MLP(hidden=[4])"]
PLAIN = ["--set", "progress=none", "device=cpu"]
# Which checkpoint a member's file is of: interruptions make more of them.
GENERATION = re.compile(r"(checkpoint/member\d+-)\d+")
PAGES = (".html", ".svg", ".png", ".md")
# Names, in documents, of what may differ between two undisturbed runs.
TIMES = (
    "second",
    "timeline",
    "environment",
    "sha256",
    "folder",
    "branched_from",
    "generation",
    "cost",
    "memory",
)


def fit(folder: Path, method: Any, **how: Any) -> None:
    """Train a small ensemble, or go on with it."""
    how = {"epochs": 3, "validation": 0.25, "keep": "best", "batch_size": 4, **how}
    tepui.fit(
        ensemble(),
        DATA,
        method=method,
        device="cpu",
        progress="none",
        out=folder / "run",
        resume=True,
        **how,
    )


def evaluate(folder: Path) -> None:
    """Test an ensemble on clean and shifted data, and keep all logits."""
    shifted = {("bright", 1): DATA}
    tepui.evaluate(ensemble(), DATA, shifted=shifted, out=folder / "e", overwrite=True)


def store(folder: Path) -> None:
    """Train, test and measure what a store does not have."""
    carry_out([Job(TRIAL, (EXAM,), (MEASURE,))], Store(folder / "store", device="cpu"))


def compare(folder: Path) -> None:
    """Compare three methods by the command."""
    out = str(folder / "compare")
    words = ["compare", *SMALL, "--epochs", "2", "--ensembles", "1", "--resume"]
    main([*words, *PLAIN, "sharpness=10", "corruptions=none", "--out", out])


def reproduce(folder: Path) -> None:
    """Make a panel of a paper, two ensembles at a time."""
    words = ["reproduce", "sharpbalance/figure7a", "--size", "smoke"]
    main([*words, "--workers", "2", "--device", "cpu", *_places(folder)])


def sweep(folder: Path) -> None:
    """Choose a hyperparameter."""
    words = ["sweep", *SMALL, "--method", "SAM", "--grid", "rho=0.05,0.2"]
    words += ["--epochs", "2", "--workers", "1", "--set", "device=cpu"]
    main([*words, *_places(folder)])


def _places(folder: Path) -> list[str]:
    return ["--out", f"{folder}/out", "--store", f"{folder}/store", "--overwrite"]


def started(folder: Path) -> None:
    """Train by the command in a fresh interpreter, which has all to import."""
    words = ["train", *SMALL, "--epochs", "1", *PLAIN, "--resume"]
    command = [sys.executable, "-m", "tepui", *words, "--out", str(folder / "run")]
    os.execve(
        sys.executable,
        command,
        {**os.environ, "PYTHONPATH": search_path(), "OMP_NUM_THREADS": "1"},
    )


def save(folder: Path) -> None:
    """Write an ensemble."""
    ensemble().save(folder / "saved", overwrite=True)


def copies(folder: Path) -> None:
    """Write corrupted copies of a data set."""
    made = corrupted(LARGER, types=["fog", "contrast"])
    if not (folder / "copies").exists():
        write_corrupted(made, folder / "copies")


def predict(folder: Path) -> None:
    """Write predictions into a table."""
    how = {"batch_size": 3, "overwrite": True}
    write_predictions(ensemble(), DATA, folder / "predictions.csv", **how)


def features(folder: Path) -> None:
    """Keep what an extractor makes of a data set."""
    cached_features(torch.nn.Flatten(), DATA, folder / "features")


class Scenario(NamedTuple):
    """A piece of work."""

    work: Callable[[Path], None]
    in_this_process: bool = True  # its file operations can be watched


SCENARIOS = {
    "training": Scenario(lambda folder: fit(folder, SAM(rho=0.1))),
    "exchange": Scenario(
        lambda folder: fit(folder, SharpBalance(switch_at=1, refresh_every=1, rho=0.1))
    ),
    "checkpoint": Scenario(
        lambda folder: fit(folder, DeepEnsemble(), epochs=6, batch_size=12)
    ),
    "evaluation": Scenario(evaluate),
    "store": Scenario(store),
    "compare": Scenario(compare),
    "sweep": Scenario(sweep),
    "reproduce with workers": Scenario(reproduce, in_this_process=False),
    "import": Scenario(started, in_this_process=False),
    "saving": Scenario(save),
    "corrupted copies": Scenario(copies),
    "predictions": Scenario(predict),
    "features": Scenario(features),
}


class Reference(NamedTuple):
    """An undisturbed run: what it left, how long it took, its file operations."""

    contents: dict[str, Any]
    seconds: float
    operations: int


def warm_up(root: Path) -> None:
    """Import, in this process, what every forked one would have to."""
    for name in ("exchange", "evaluation", "store"):
        SCENARIOS[name].work(root / "warm")


def reference(name: str, root: Path) -> Reference:
    """Return the undisturbed run of a scenario, made once in a folder."""

    def make(folder: Path) -> None:
        (folder / "about.json").write_text(json.dumps(_undisturbed(name, folder)))

    folder = made_once(root / "references" / name, make)
    about = json.loads((folder / "about.json").read_text())
    return Reference(contents(folder / "whole"), *about)


def _undisturbed(name: str, place: Path) -> tuple[float, int]:
    scenario, folder, counted = SCENARIOS[name], place / "whole", place / "operations"
    folder.mkdir()

    def work() -> None:
        if not scenario.in_this_process:
            return scenario.work(folder)
        count = 0

        def note(number: int, operation: str, path: Path) -> None:
            nonlocal count
            count = number

        with at_operations(folder, note):
            scenario.work(folder)
        counted.write_text(str(count))
        return None

    began = time.monotonic()
    log = place / "log"
    code = ended(forked(work, log))
    if code:
        raise RuntimeError(f"{name} undisturbed ended with {code}: {last_words(log)}")
    operations = int(counted.read_text()) if counted.exists() else 0
    return time.monotonic() - began, operations


def contents(folder: Path) -> dict[str, Any]:
    """Return the content of all files below a folder, but for times.

    Leases are there with their names alone, as one says how often it was taken.
    """
    found: dict[str, Any] = {}
    for file in sorted(folder.rglob("*")):
        name = str(file.relative_to(folder))
        if LEASE not in file.parent.name:
            name = GENERATION.sub(r"\1n", name)
            found[name] = None if file.is_dir() else _content(file)
    return found


def _content(file: Path) -> Any:
    try:
        if file.suffix == ".safetensors":
            return _tensors(file)
        if file.suffix in (".json", ".jsonl"):
            return [_timeless(json.loads(line)) for line in _documents(file)]
    except (SafetensorError, ValueError):
        return "damaged", file.read_bytes()
    return "page" if file.suffix in PAGES else file.read_bytes()


def _tensors(file: Path) -> dict[str, Any]:
    with safe_open(file, "pt") as opened:
        names = [*opened.keys()]
        tensors = {name: opened.get_tensor(name) for name in names}
    return {
        name: (t.dtype, t.shape, raw_bytes(t).numpy().tobytes())
        for name, t in tensors.items()
    }


def _documents(file: Path) -> list[str]:
    text = file.read_text()
    return text.splitlines() if file.suffix == ".jsonl" else [text]


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _timeless(part)
            for name, part in value.items()
            if not any(word in name for word in TIMES)
        }
    return [_timeless(part) for part in value] if isinstance(value, list) else value


def differences(found: dict[str, Any], whole: dict[str, Any]) -> str:
    """Return what differs between two folders, in words; nothing if nothing does."""
    if left := sorted(found.keys() - whole.keys()):
        return f"left behind: {left}"
    if missing := sorted(whole.keys() - found.keys()):
        return f"missing: {missing}"
    other = [name for name in whole if found[name] != whole[name]]
    return f"other content: {other}" if other else ""
