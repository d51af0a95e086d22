"""A training step on a CPU: `fit` against loops that one writes by hand.

Three models: a small ResNet, whose convolutions take nearly all of the time, and two
MLPs whose step takes a millisecond or less, so that whatever `fit` does beside it
shows; the smaller one also in short runs. Two loops: over a `DataLoader`, as in most
scripts, and over a permutation that cuts batches out of the tensors, the least that a
loop can do. Everything is timed from the call to the trained weights. All run in one
process and in turn (A B C A B C ...); a ratio is the median over the rounds of the
ratios within a round, so that other work on the machine, which disturbs neighbors
alike, cancels. Needs torch and rich only:

    OMP_NUM_THREADS=1 PYTHONPATH=src python3 benchmarks/cpu_step.py
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import tepui
from tepui.methods import SAM, DeepEnsemble
from tepui.models import MLP, ResNet18
from tepui.training import SGD, Constant

RHO = 0.05
METHODS = {"deep ensemble": DeepEnsemble(), "SAM": SAM(rho=RHO)}
HYPERPARAMETERS = {"lr": 0.05, "momentum": 0.9, "weight_decay": 5e-4}
LOADER, CUT, FIT = "loader loop", "cutting loop", "fit"


@dataclass(frozen=True)
class Case:
    """A model, its data and how long to train."""

    build: Callable[[], nn.Module]
    shape: tuple[int, ...]  # of one sample
    steps: int  # per epoch
    epochs: int
    batch: int = 128
    classes: int = 10

    def data(self) -> TensorDataset:
        """Return as many random samples as an epoch has steps for."""
        stream, samples = torch.Generator().manual_seed(0), self.batch * self.steps
        inputs = torch.randn(samples, *self.shape, generator=stream)
        targets = torch.randint(self.classes, (samples,), generator=stream)
        return TensorDataset(inputs, targets)


def small() -> nn.Module:
    return MLP(12, (32,), 3)


CASES = {
    "ResNet-18 of width 8, 16 px": Case(lambda: ResNet18(width=8), (3, 16, 16), 8, 1),
    "MLP 64-64-10": Case(lambda: MLP(64, (64,)), (64,), 100, 5),
    "MLP 12-32-3": Case(small, (12,), 100, 10, batch=64, classes=3),
    "MLP 12-32-3, short": Case(small, (12,), 6, 6, batch=64, classes=3),
}


def loaded(data: TensorDataset, batch: int) -> Callable[[], Iterator]:
    loader = DataLoader(data, batch_size=batch, shuffle=True)
    return lambda: iter(loader)


def cut(data: TensorDataset, batch: int) -> Callable[[], Iterator]:
    def epoch() -> Iterator[tuple[Tensor, Tensor]]:
        inputs, targets = data.tensors
        for index in torch.randperm(len(data)).split(batch):
            yield inputs[index], targets[index]

    return epoch


def loop(case: Case, epoch: Callable[[], Iterator], sam: bool) -> None:
    """Train as a script would."""
    model = case.build().train()
    parameters = list(model.parameters())
    optimizer = torch.optim.SGD(parameters, **HYPERPARAMETERS)
    for _ in range(case.epochs):
        for x, y in epoch():
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            if sam:
                before = climb(parameters)
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                restore(parameters, before)
            optimizer.step()


@torch.no_grad()
def climb(parameters: list[Tensor]) -> list[Tensor]:
    """Move the weights uphill; return what they were."""
    norm = torch.stack([p.grad.norm() for p in parameters]).norm()
    before = [p.clone() for p in parameters]
    for p in parameters:
        p.add_(p.grad * (RHO / (norm + 1e-12)))
    return before


@torch.no_grad()
def restore(parameters: list[Tensor], before: list[Tensor]) -> None:
    for p, old in zip(parameters, before, strict=True):
        p.copy_(old)


def fitted(case: Case, data: TensorDataset, method) -> None:
    tepui.fit(
        tepui.Ensemble.build(case.build, members=1),
        data,
        method=method,
        epochs=case.epochs,
        batch_size=case.batch,
        optimizer=SGD(**HYPERPARAMETERS),
        schedule=Constant(),
        device="cpu",
        progress="none",
    )


def variants(case: Case, method) -> dict[str, Callable[[], None]]:
    data, sam = case.data(), isinstance(method, SAM)
    return {
        LOADER: lambda: loop(case, loaded(data, case.batch), sam),
        CUT: lambda: loop(case, cut(data, case.batch), sam),
        FIT: lambda: fitted(case, data, method),
    }


def measure(case: Case, method, rounds: int) -> dict[str, list[float]]:
    """Return milliseconds per step of every variant in every round."""
    runs = variants(case, method)
    for run in runs.values():
        run()
    milliseconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            started = time.perf_counter()
            run()
            seconds = time.perf_counter() - started
            milliseconds[name].append(1e3 * seconds / (case.steps * case.epochs))
    return milliseconds


def ratio(milliseconds: dict[str, list[float]], ours: str, other: str) -> float:
    """Return the median over rounds of the ratios of two times."""
    rounds = zip(milliseconds[ours], milliseconds[other], strict=True)
    return median(first / second for first, second in rounds)


def show(results: dict[str, dict[str, list[float]]], rounds: int) -> None:
    table = Table(
        title=f"Milliseconds per step, medians of {rounds} rounds; "
        f"threads: {torch.get_num_threads()}, torch {torch.__version__}"
    )
    table.add_column("model, method")
    names, pairs = (LOADER, CUT, FIT), ((FIT, LOADER), (FIT, CUT))
    for heading in (*names, *(f"{ours} / {other}" for ours, other in pairs)):
        table.add_column(heading, justify="right")
    for label, row in results.items():
        medians = [f"{median(row[name]):.2f}" for name in names]
        table.add_row(label, *medians, *(f"{ratio(row, *pair):.2f}" for pair in pairs))
    Console(width=150).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="", help="a part of a model's name")
    parser.add_argument("--json", help="also write all times to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    results = {
        f"{name}, {label}": measure(case, method, arguments.rounds)
        for name, case in CASES.items()
        if arguments.only in name
        for label, method in METHODS.items()
    }
    show(results, arguments.rounds)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
