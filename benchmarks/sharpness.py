"""Sharpness measures against what one would write first.

Worst-case sharpness (APGD) of an ensemble of ResNet-18 against a loop that clones
dictionaries of parameters and reads the loss at every step, and relative flatness
against an evaluation pass, for 10 and for 200 classes. All is measured in this one
process, as ratios.

    PYTHONPATH=src:tests python3 benchmarks/sharpness.py --device cuda
"""

import argparse
import json
import time
from functools import partial
from pathlib import Path

import torch
from naive_worst_case import naive_worst_case
from rich.console import Console
from rich.table import Table
from training_step import images, synchronize

import tepui
from tepui.core.seeding import generator
from tepui.data.loading import in_order
from tepui.losses import cross_entropy
from tepui.models import ResNet18
from tepui.modules.running import evaluating, forward
from tepui.sharpness import relative_flatness, worst_case
from tepui.sharpness.measurement import select

RHO = 0.5


def seconds(work, device) -> tuple[float, object]:
    """Return how long work takes, and what it returns."""
    synchronize(device)
    started = time.perf_counter()
    found = work()
    synchronize(device)
    return time.perf_counter() - started, found


def shortest(works: dict, device, repeats: int) -> dict[str, float]:
    """Return the shortest of several runs of each, taken in turns."""
    times = {name: [] for name in works}
    for _ in range(repeats + 1):  # the first warms up
        for name, work in works.items():
            times[name].append(seconds(work, device)[0])
    return {name: min(found[1:]) for name, found in times.items()}


def ascents(arguments, device) -> dict[str, float]:
    """Return seconds for all batches and members, by tepui and by the naive loop."""
    samples = arguments.batches * arguments.batch_size
    data = images(samples).to(device)
    ensemble = tepui.Ensemble.build(
        lambda: ResNet18(width=arguments.width), arguments.members, seed=0
    ).to(device)
    measure = partial(
        worst_case,
        rho=RHO,
        num_steps=arguments.steps,
        num_samples=samples,
        batch_size=arguments.batch_size,
    )
    ours, found = seconds(lambda: tepui.measure(ensemble, data, measure), device)
    few = arguments.naive_batches
    chosen = select(
        ensemble.members[0],
        data,
        cross_entropy,
        batch_size=arguments.batch_size,
        num_samples=samples,
        generator=generator(0, "measure", "worst_case"),
        mixed=True,
    )
    batches = [(batch.inputs, batch.targets) for batch in chosen][:few]

    def naive():
        return [
            float(naive_worst_case(member, batches, RHO, arguments.steps).mean())
            for member in ensemble.members
        ]

    loop, values = seconds(naive, device)
    loop *= arguments.batches / len(batches)
    return {
        "tepui": ours,
        "naive loop": loop,
        "ratio": loop / ours,
        "value, tepui": found["worst_case"].mean,
        f"value, naive loop, first {few} batches": sum(values) / len(values),
    }


def flatness(arguments, classes, device) -> dict[str, float]:
    """Return seconds for relative flatness and for an evaluation pass."""
    data = images(arguments.samples).to(device)
    model = ResNet18(classes, width=arguments.width).to(device)

    def evaluation():
        right = torch.zeros((), device=device)
        with evaluating(model), torch.no_grad():
            for batch in in_order(data, arguments.pass_size, device=device):
                predicted = forward(model, batch.inputs).argmax(1)
                right += (predicted == batch.targets).sum()
        return float(right)

    def measure():
        return relative_flatness(model, data, batch_size=arguments.pass_size)

    works = {"relative flatness": measure, "evaluation pass": evaluation}
    found = shortest(works, device, arguments.repeats)
    return {**found, "ratio": found["relative flatness"] / found["evaluation pass"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    on_cuda = torch.cuda.is_available()
    parser.add_argument("--device", default="cuda" if on_cuda else "cpu")
    parser.add_argument("--width", type=int, default=64 if on_cuda else 8)
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--batches", type=int, default=100 if on_cuda else 4)
    parser.add_argument("--batch-size", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument(
        "--naive-batches",
        type=int,
        default=20 if on_cuda else 4,
        help="batches the naive loop is timed on; its time is scaled to all",
    )
    parser.add_argument("--samples", type=int, default=50_000 if on_cuda else 512)
    parser.add_argument("--pass-size", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", help="also write the numbers to this file")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    results = {
        "worst case": ascents(arguments, device),
        "10 classes": flatness(arguments, 10, device),
        "200 classes": flatness(arguments, 200, device),
    }
    show(results, arguments, device)
    if arguments.json:
        document = {"arguments": vars(arguments), "results": results}
        Path(arguments.json).write_text(json.dumps(document, indent=2))


def show(results, arguments, device) -> None:
    hardware = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    table = Table(
        title=f"ResNet-18 width {arguments.width}, {arguments.members} members, "
        f"{arguments.batches} batches of {arguments.batch_size}, {arguments.steps} "
        f"steps; passes over {arguments.samples} samples; "
        f"torch {torch.__version__}, {hardware}"
    )
    for title in ("part", "quantity", "value"):
        table.add_column(title)
    for part, row in results.items():
        for name, value in row.items():
            table.add_row(part, name, f"{value:.4g}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
