"""Member-steps per second: a plain loop, tepui's eager runner, tepui's graph runner.

ResNet-18 for 32-pixel images, batch 128, three members, SGD with momentum, random crop
and flip; deep ensemble and SAM. All variants run in this one process, so that ratios
hold on a noisy machine. Needs torch, numpy and rich only:

    make bench PYTHON=python3
"""

import argparse
import json
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table

import tepui
from tepui.data import Arrays, HorizontalFlip, Normalize, RandomCrop
from tepui.methods import SAM, DeepEnsemble
from tepui.models import ResNet18

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
RHO = 0.2
METHODS = {"deep ensemble": DeepEnsemble(), "SAM": SAM(rho=RHO)}


def images(samples: int) -> Arrays:
    stream = torch.Generator().manual_seed(0)
    pixels = torch.randint(
        256, (samples, 3, 32, 32), dtype=torch.uint8, generator=stream
    )
    labels = torch.randint(10, (samples,), generator=stream)
    return Arrays(pixels, labels, Normalize(MEAN, STD))


def plain_loop(width: int, members: int, batch: int, steps: int, device, sam: bool):
    """Return seconds for ``steps`` steps of each member in an ordinary float32 loop.

    The batch is ready on the device and is not augmented: the loop is spared that
    work, which the runners do.
    """
    data = images(batch).to(device)
    x, y = data.prepare(data.inputs), data.targets
    total = 0.0
    for _ in range(members):
        model = ResNet18(width=width).to(device)
        parameters = list(model.parameters())
        optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=5e-4)

        def step(model=model, parameters=parameters, optimizer=optimizer):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            if sam:
                with torch.no_grad():
                    norm = torch.stack([p.grad.norm() for p in parameters]).norm()
                    before = [p.clone() for p in parameters]
                    for p in parameters:
                        p.add_(p.grad * (RHO / (norm + 1e-12)))
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                with torch.no_grad():
                    for p, old in zip(parameters, before, strict=True):
                        p.copy_(old)
            optimizer.step()

        for _ in range(3):
            step()
        synchronize(device)
        started = time.perf_counter()
        for _ in range(steps):
            step()
        synchronize(device)
        total += time.perf_counter() - started
    return total


def fitted(width, members, batch, steps, device, method, **how) -> float:
    """Return seconds for ``steps`` steps of each member under ``tepui.fit``."""
    ensemble = tepui.Ensemble.build(lambda: ResNet18(width=width), members=members)
    run = tepui.fit(
        ensemble,
        images(batch * steps),
        method=method,
        epochs=3,
        batch_size=batch,
        augment=(RandomCrop(), HorizontalFlip()),
        device=device,
        progress="none",
        **how,
    )
    return min(record.seconds for record in run.history[1:])


def synchronize(device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    on_cuda = torch.cuda.is_available()
    parser.add_argument("--width", type=int, default=64 if on_cuda else 8)
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--steps", type=int, default=100 if on_cuda else 4)
    parser.add_argument("--json", help="also write the numbers to this file")
    arguments = parser.parse_args()
    device = torch.device("cuda" if on_cuda else "cpu")
    sizes = (arguments.width, arguments.members, arguments.batch, arguments.steps)
    variants = {
        "plain loop, float32": lambda method: plain_loop(
            *sizes, device, isinstance(method, SAM)
        ),
        "eager runner, float32": lambda method: fitted(
            *sizes, device, method, runner="eager", precision="float32", compile=False
        ),
    }
    if on_cuda:
        variants |= {
            "eager runner, bfloat16": lambda method: fitted(
                *sizes, device, method, runner="eager", compile=False
            ),
            "graph runner, float32": lambda method: fitted(
                *sizes,
                device,
                method,
                runner="graph",
                precision="float32",
                compile=False,
            ),
            "graph runner, bfloat16": lambda method: fitted(
                *sizes, device, method, runner="graph", compile=False
            ),
            "graph runner, bfloat16, compiled": lambda method: fitted(
                *sizes, device, method, runner="graph", compile=True
            ),
        }
    results = measure(variants, arguments)
    show(results, arguments, device)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(results, indent=2))


def measure(variants, arguments) -> dict[str, dict[str, float]]:
    """Return milliseconds per member-step by variant and method."""
    member_steps = arguments.members * arguments.steps
    return {
        name: {
            label: 1e3 * run(method) / member_steps for label, method in METHODS.items()
        }
        for name, run in variants.items()
    }


def show(results, arguments, device) -> None:
    hardware = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    table = Table(
        title=f"ResNet-18 width {arguments.width}, batch {arguments.batch}, "
        f"{arguments.members} members, torch {torch.__version__}, {hardware}"
    )
    table.add_column("variant")
    for method in METHODS:
        table.add_column(f"{method}: ms per member-step", justify="right")
        table.add_column("member-steps/s", justify="right")
        table.add_column("ratio", justify="right")
    base = results["plain loop, float32"]
    for name, row in results.items():
        cells = []
        for method in METHODS:
            ms = row[method]
            cells += [f"{ms:.2f}", f"{1e3 / ms:.1f}", f"{base[method] / ms:.2f}×"]
        table.add_row(name, *cells)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
