r"""Figure 7(a) and (d) of SharpBalance: CIFAR-10 as published, with fewer epochs.

Trains by the recipe of the figure at its ``paper`` size, only for fewer epochs and
ensembles. One command per method, which goes on where it was stopped, and one for the
figure; ``TEPUI_DATA`` names the folder of the data:

    export PYTHONPATH=src
    python3 benchmarks/cifar10_figure7.py train sam --epochs 80 --ensembles 1 \
        --json sam.json
    python3 benchmarks/cifar10_figure7.py gather *.json --out figure7
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tepui.core.checks import require
from tepui.methods import Method, SharpBalance
from tepui.papers.recipe import load
from tepui.papers.reproduce import write
from tepui.papers.sharpbalance.figure7 import PANELS
from tepui.papers.sharpbalance.protocol import (
    SCALES,
    Scale,
    exam,
    methods,
    settings,
    trials,
)
from tepui.papers.sharpbalance.scores import METRICS, score_records
from tepui.studies.results import Record, Results
from tepui.studies.store import Store
from tepui.training.run_folder import environment_of

ITEM, DATASET, SHOWN = "sharpbalance/figure7", "cifar10", ("a", "d")
PAPER = SCALES["paper"][DATASET]
METHODS: dict[str, Method] = {
    **methods(PAPER),
    # The released rule's sets, in batches that a graph can replay.
    "sharpbalance_released": SharpBalance.released(
        DATASET, rho=PAPER.rho, stratified=True, off_by_one=False
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("train", help="train and test one method")
    one.add_argument("method", choices=METHODS)
    one.add_argument("--epochs", type=int, default=PAPER.epochs)
    one.add_argument("--ensembles", type=int, default=PAPER.ensembles)
    one.add_argument("--store", type=Path, default=Path("runs/store"))
    one.add_argument("--json", type=Path, required=True)
    one.set_defaults(run=train)
    every = commands.add_parser("gather", help="make the figure of several methods")
    every.add_argument("files", type=Path, nargs="+")
    every.add_argument("--out", type=Path, required=True)
    every.set_defaults(run=gather)
    arguments = parser.parse_args()
    arguments.run(arguments)


def train(arguments: argparse.Namespace) -> None:
    scale = PAPER._replace(epochs=arguments.epochs, ensembles=arguments.ensembles)
    method = METHODS[arguments.method]
    started = time.perf_counter()
    store = Store(arguments.store)
    runs = [store.run(trial, on_epoch=tell) for trial in trials(scale, method)]
    records = records_of(store, scale, arguments.method)
    found = {
        "method": arguments.method,
        "epochs": scale.epochs,
        "ensembles": scale.ensembles,
        "environment": environment_of(store.device),
        "epoch_seconds": [[each.seconds for each in run.history] for run in runs],
        "loss": [[list(each.loss) for each in run.history] for run in runs],
        "sets": [run.summary for run in runs],
        "records": [record.document() for record in records],
    }
    arguments.json.write_text(json.dumps(found, indent=1) + "\n")
    show(f"{arguments.method}: {time.perf_counter() - started:.0f} s", records)


def tell(record) -> None:
    if record.epoch % 10 == 9:
        losses = ", ".join(f"{loss:.3f}" for loss in record.loss)
        print(f"epoch {record.epoch + 1}: {losses}, {record.seconds:.1f} s", flush=True)


def records_of(store: Store, scale: Scale, name: str) -> list[Record]:
    """Return all scores of one method's ensembles, by panel."""
    runs = trials(scale, METHODS[name])
    scores = [store.evaluation(trial, exam(scale)) for trial in runs]
    return [
        record
        for letter in SHOWN
        for record in score_records(
            [
                each["shifted" if PANELS[letter].corrupted else "clean"]
                for each in scores
            ],
            METRICS,
            runs,
            item=f"{ITEM}{letter}",
            dataset=f"{DATASET}_c" if PANELS[letter].corrupted else DATASET,
            architecture="resnet18",
            method=name,
            at={"ensemble_size": scale.members},
        )
    ]


def gather(arguments: argparse.Namespace) -> None:
    read = [json.loads(file.read_text()) for file in arguments.files]
    for part in read:
        del part["environment"]["command"]  # one for each method
    parts = {part["method"]: part for part in read}
    require(len(parts) == len(read), "files", "hold each method once", [*parts])
    epochs, ensembles = shared(parts, "epochs"), shared(parts, "ensembles")
    environment = shared(parts, "environment")
    ordered = [parts[name] for name in METHODS if name in parts]
    about = settings("paper", [DATASET])
    about[DATASET] |= {"epochs": epochs, "ensembles": ensembles}
    seconds = {part["method"]: sum(map(sum, part["epoch_seconds"])) for part in ordered}
    short = (
        f"{epochs} of {PAPER.epochs} epochs, {ensembles} of {PAPER.ensembles} ensembles"
    )
    command = "python benchmarks/cifar10_figure7.py train METHOD"
    command += f" --epochs {epochs} --ensembles {ensembles} --json METHOD.json"
    found = Results(
        ITEM,
        load(ITEM).title,
        "paper",
        {
            "panels": list(SHOWN),
            **about,
            "differs": f"{short}; {about['differs']}",
            "command": command,
            "epoch_seconds": {
                name: each / epochs / ensembles for name, each in seconds.items()
            },
            "sets": {name: parts[name]["sets"] for name in seconds},
        },
        {**environment, "command": command},
        tuple(Record.of(row) for part in ordered for row in part["records"]),
    )
    write(arguments.out, found, load(ITEM).draw)


def shared(parts: dict[str, dict], name: str) -> Any:
    """Return what all parts say of something; methods are compared on equal terms."""
    said = {method: part[name] for method, part in parts.items()}
    first = next(iter(said.values()))
    same = all(each == first for each in said.values())
    require(same, name, "be the same in all files", said)
    return first


def show(title: str, records: list[Record]) -> None:
    table = Table(title=title)
    for heading in ("data", *METRICS):
        table.add_column(heading, justify="right")
    for letter in SHOWN:
        own = [record for record in records if record.item.endswith(letter)]
        table.add_row(own[0].dataset, *(f"{record.value:.4g}" for record in own))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
