"""One 3-member ResNet-18 ensemble on CIFAR-10 by one rule, clean and corrupted.

Run once per rule; the folder holds ``cifar-10-batches-bin`` or ``-py``:

    PYTHONPATH=src python3 benchmarks/cifar10_pilot.py sam --data FOLDER --json sam.json
"""

import argparse
import json
import time
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

import tepui
from tepui.core.spec import document
from tepui.data import CIFAR10, Arrays, HorizontalFlip, RandomCrop, corrupted
from tepui.methods import SAM, DeepEnsemble, SharpBalance
from tepui.models import ResNet18
from tepui.sharpness import sample_fisher_trace

RHO = 0.2  # the paper's for CIFAR-10
RULES = {
    "deep_ensemble": DeepEnsemble(),
    "sam": SAM(rho=RHO),
    "sharpbalance_paper": SharpBalance.paper(rho=RHO),
    # The released rule's sets, in batches that a graph can replay.
    "sharpbalance_released": SharpBalance.released(
        "cifar10", rho=RHO, base=SAM(), stratified=True, off_by_one=False
    ),
    "sharpbalance_random": SharpBalance.paper(rho=RHO, select="random"),
}
SEVERITIES = (1, 3, 5)
PRECISIONS = {"float32": "highest", "tf32": "high"}


def overlaps(module, data: Arrays, samples: int) -> dict[str, float]:
    """Return the share of float64's top 40 % that each precision finds."""
    few = data.subset(torch.arange(samples, device=data.targets.device))
    exact = Arrays(few.prepare(few.inputs).double(), few.targets)
    best = highest(sample_fisher_trace(module.double(), exact))
    module.float()
    found = {}
    for name, matmul in PRECISIONS.items():
        torch.set_float32_matmul_precision(matmul)
        torch.backends.cudnn.allow_tf32 = matmul == "high"
        found[name] = agreement(sample_fisher_trace(module, few), best)
    found["bfloat16"] = agreement(
        sample_fisher_trace(module, few, autocast=torch.bfloat16), best
    )
    return found


def highest(scores: torch.Tensor) -> set[int]:
    return set(scores.argsort(descending=True)[: int(0.4 * len(scores))].tolist())


def agreement(scores: torch.Tensor, best: set[int]) -> float:
    return len(highest(scores) & best) / len(best)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rule", choices=RULES)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--seed", type=int, default=13)
    parser.add_argument("--samples", type=int, help="train on so many samples only")
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train, test = CIFAR10(arguments.data), CIFAR10(arguments.data, train=False)
    if arguments.samples is not None:
        train, test = (d.subset(torch.arange(arguments.samples)) for d in (train, test))
    ensemble = tepui.Ensemble.build(
        lambda: ResNet18(width=arguments.width),
        members=arguments.members,
        seed=arguments.seed,
    )
    method = RULES[arguments.rule]
    started = time.perf_counter()
    run = tepui.fit(
        ensemble,
        train,
        method=method,
        epochs=arguments.epochs,
        batch_size=128,
        schedule=tepui.MultiStep(),
        augment=(RandomCrop(), HorizontalFlip()),
        compile=False,  # thirty epochs do not repay it: each rule has its own shapes
        progress="lines",
    )
    seconds = time.perf_counter() - started
    torch.backends.cudnn.benchmark = True
    test = test.to(device)
    started = time.perf_counter()
    evaluation = tepui.evaluate(
        ensemble, test, shifted=corrupted(test, severities=SEVERITIES)
    )
    print(f"evaluated in {time.perf_counter() - started:.0f} s", flush=True)
    found = {
        "name": arguments.rule,
        "method": document(method),
        "epochs": arguments.epochs,
        "members": arguments.members,
        "seed": arguments.seed,
        "hardware": torch.cuda.get_device_name() if device.type == "cuda" else "CPU",
        "torch": torch.__version__,
        "seconds": seconds,
        "epoch_seconds": [record.seconds for record in run.history],
        "loss": [list(record.loss) for record in run.history],
        "sets": run.summary,
        **evaluation.document(),
    }
    if isinstance(method, SAM):
        count = min(len(train), 4096)
        found["overlap"] = overlaps(ensemble.members[0], train.to(device), count)
    arguments.json.write_text(json.dumps(found, indent=1) + "\n")
    show(found)


def show(found: dict) -> None:
    table = Table(title=f"{found['name']}: {found['epochs']} epochs")
    for column in ("data", "members", "ensemble", "improvement", "DER", "ECE", "NLL"):
        table.add_column(column, justify="right")
    keys = ("individual_accuracy", "accuracy", "improvement", "der", "ece", "nll")
    for name in ("clean", "shifted"):
        table.add_row(name, *(f"{found[name][key]:.4f}" for key in keys))
    Console(width=100).print(table)
    Console(width=100).print(
        f"{found['seconds']:.0f} s of training; sets {found['sets'].get('sizes')}; "
        f"overlap {found.get('overlap')}"
    )


if __name__ == "__main__":
    main()
