"""What a step of A2D, DivDis and SED costs as members are added.

Linear heads on cached features of width 768, AdamW, random data. On a CPU times are
those of the processor, on one thread, which other work on the machine lengthens least.
Four questions:

- SED's step with 50 members over that with 5, two of them active;
- how step and loss grow with the number of members, as exponents;
- five heads trained in the fastest way against one after the other, eagerly;
- the peak memory of DivDis's mutual information, forward and backward.

    PYTHONPATH=src python3 benchmarks/diversification.py --device cpu --json FILE
"""

import argparse
import json
import math
import multiprocessing
import resource
import time
from itertools import pairwise
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

import tepui
from tepui.data import Arrays
from tepui.losses import cross_entropy
from tepui.methods import A2D, SED, CoupledBatch, DeepEnsemble, DivDis
from tepui.methods.divdis import divdis_mutual_information

FEATURES = 768
SIZES = (2, 4, 8, 16)


def features(samples: int, classes: int, seed: int = 0) -> Arrays:
    stream = torch.Generator().manual_seed(seed)
    inputs = torch.randn(samples, FEATURES, generator=stream)
    return Arrays(inputs, torch.randint(classes, (samples,), generator=stream))


def step_time(method, members: int, arguments, **how) -> float:
    """Return milliseconds per step, the shortest of several epochs."""
    classes, device = arguments.classes, arguments.device
    data = features(arguments.batch * arguments.steps, classes)
    if method.needs_unlabeled:
        how["unlabeled"] = features(arguments.batch * 4, classes, seed=1)
    ensemble = tepui.Ensemble.build(
        lambda: nn.Linear(FEATURES, classes), members=members, seed=13
    )
    marks: list[float] = []
    tepui.fit(
        ensemble,
        data,
        method=method,
        epochs=1 + arguments.epochs,
        batch_size=arguments.batch,
        optimizer=tepui.AdamW(),
        schedule=tepui.Constant(),
        device=device,
        precision="float32",
        compile=False,
        callbacks=[lambda record: marks.append(clock(device))],
        progress="none",
        **how,
    )
    seconds = min(end - start for start, end in pairwise(marks))
    return 1e3 * seconds / arguments.steps


def loss_time(method, members: int, arguments) -> float:
    """Return milliseconds that the loss alone takes, forward and backward."""
    shape = (members, arguments.batch, arguments.classes)
    outputs = torch.randn(shape, device=arguments.device, requires_grad=True)
    targets = torch.zeros(arguments.batch, dtype=torch.int64, device=arguments.device)
    losses = torch.stack([cross_entropy(one, targets) for one in outputs]).detach()
    times = []
    for _ in range(2 + arguments.epochs):
        started = clock(arguments.device)
        total = method.loss(CoupledBatch(outputs, losses, targets, outputs))
        torch.autograd.grad(total, outputs)
        times.append(clock(arguments.device) - started)
    return 1e3 * min(times[2:])


def clock(device: str) -> float:
    """Return seconds: of this process on a CPU, of the world after a GPU's work."""
    if device == "cpu":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def flatness(arguments) -> dict[str, float]:
    """Return SED's step times with few and many members, measured in turn."""
    rounds = [
        {members: step_time(SED(active=2), members, arguments) for members in (5, 50)}
        for _ in range(arguments.rounds)
    ]
    few, many = (min(times[members] for times in rounds) for members in (5, 50))
    return {
        "SED, 5 members (ms)": few,
        "SED, 50 members (ms)": many,
        "ratio": many / few,
    }


def exponents(arguments) -> dict[str, dict[str, float]]:
    """Return step times by number of members, and the slope of their logarithms."""
    methods = {
        "A2D": A2D(),
        "DivDis": DivDis(),
        "SED": SED(active=2),
        "deep ensemble": DeepEnsemble(),
    }
    found = {}
    for name, method in methods.items():
        found[name] = row_of(
            {size: step_time(method, size, arguments) for size in SIZES}
        )
    for name in ("A2D", "DivDis"):
        found[f"{name}, loss alone"] = row_of(
            {size: loss_time(methods[name], size, arguments) for size in SIZES}
        )
    return found


def row_of(times: dict[int, float]) -> dict[str, float]:
    row = {f"{size} members (ms)": time for size, time in times.items()}
    return {**row, "exponent": slope(times)}


def slope(times: dict[int, float]) -> float:
    """Return the least-squares slope of log time on log members."""
    x = torch.tensor([math.log(size) for size in times], dtype=torch.float64)
    y = torch.tensor([math.log(time) for time in times.values()], dtype=torch.float64)
    return float(((x - x.mean()) * y).sum() / (x - x.mean()).square().sum())


def side_by_side(arguments) -> dict[str, float]:
    """Return samples per second of five heads, members and samples multiplied."""
    runners = ["eager"] + (["graph"] if arguments.device == "cuda" else [])
    found = {}
    for name, method in {"deep ensemble": DeepEnsemble(), "SED": SED(active=2)}.items():
        learning = 5 if name == "deep ensemble" else 2
        for runner in runners:
            time = step_time(method, 5, arguments, runner=runner)
            rate = 1e3 * learning * arguments.batch / time
            found[f"{name}, {runner} (samples/s)"] = rate
        if len(runners) == 2:
            rates = [found[f"{name}, {runner} (samples/s)"] for runner in runners]
            found[f"{name}, graph over eager"] = rates[1] / rates[0]
    return found


def memory(arguments) -> dict[str, float]:
    """Return the peak memory in MB beyond the outputs, in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        megabytes = pool.apply(peak, (5, 256, 1000, arguments.device))
    return {"DivDis, 5 heads, 1000 classes, batch 256 (MB)": megabytes}


def peak(heads: int, samples: int, classes: int, device: str) -> float:
    torch.set_num_threads(1)
    warm = torch.randn(2, 8, 8, device=device, requires_grad=True)
    torch.autograd.grad(divdis_mutual_information(warm.log_softmax(-1)).sum(), warm)
    logits = torch.randn(heads, samples, classes, device=device, requires_grad=True)
    before = used(device)
    value = divdis_mutual_information(logits.log_softmax(-1)).mean()
    torch.autograd.grad(value, logits)
    return (used(device) - before) / 1e6


def used(device: str) -> int:
    """Return the most memory used so far, in bytes."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # Linux


def show(title: str, rows: dict[str, dict[str, float]]) -> None:
    table = Table(title=title)
    table.add_column("")
    for column in next(iter(rows.values())):
        table.add_column(column, justify="right")
    for name, row in rows.items():
        table.add_row(name, *(f"{value:.4g}" for value in row.values()))
    Console(width=140).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = "cuda" if torch.cuda.is_available() else "cpu"
    on_cuda = default == "cuda"
    parser.add_argument("--device", choices=("cpu", "cuda"), default=default)
    parser.add_argument("--classes", type=int, default=1000 if on_cuda else 100)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--steps", type=int, default=200 if on_cuda else 20)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", help="also write the numbers to this file")
    arguments = parser.parse_args()
    if arguments.device == "cpu":
        torch.set_num_threads(1)
    results = {
        "memory": memory(arguments),
        "flatness": flatness(arguments),
        "exponents": exponents(arguments),
        "side by side": side_by_side(arguments),
    }
    hardware = torch.cuda.get_device_name() if arguments.device == "cuda" else "CPU"
    show(
        f"milliseconds per step, {arguments.classes} classes, batch {arguments.batch}, "
        f"torch {torch.__version__}, {hardware}",
        results["exponents"],
    )
    for name in ("flatness", "side by side", "memory"):
        rows = {key: {"value": value} for key, value in results[name].items()}
        show(name, rows)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
