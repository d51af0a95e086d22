"""Do scores in less precision choose the samples that float64 chooses?

A ResNet-18 on CIFAR-10; FOLDER holds ``cifar-10-batches-bin`` or ``-py``. Of some
training samples: the share of the 40 % of highest and of lowest Fisher trace in float64
that each precision finds, after training plainly and with SAM.

    PYTHONPATH=src python3 benchmarks/score_precision.py --data FOLDER --json out.json
"""

import argparse
import json
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from score_agreement import common

import tepui
from tepui.data import CIFAR10, Arrays, HorizontalFlip, RandomCrop
from tepui.methods import SAM, DeepEnsemble
from tepui.models import ResNet18
from tepui.sharpness import sample_fisher_trace

METHODS = {"deep ensemble": DeepEnsemble(), "SAM": SAM(rho=0.05)}
PRECISIONS = {"float32": "highest", "tf32": "high"}


def scored(module: torch.nn.Module, data: Arrays) -> dict[str, torch.Tensor]:
    """Return the scores of a model in every precision."""
    exact = Arrays(data.prepare(data.inputs).double(), data.targets)
    found = {"float64": sample_fisher_trace(module.double(), exact)}
    module.float()
    for name, matmul in PRECISIONS.items():
        torch.set_float32_matmul_precision(matmul)
        torch.backends.cudnn.allow_tf32 = matmul == "high"
        found[name] = sample_fisher_trace(module, data)
    found["bfloat16"] = sample_fisher_trace(module, data, autocast=torch.bfloat16)
    return found


def overlaps(scores: dict[str, torch.Tensor]) -> dict[str, dict[str, float]]:
    """Return what each precision has in common with float64 at both ends."""
    exact = scores["float64"]
    return {
        name: {
            "highest": common(exact, values, highest=True),
            "lowest": common(exact, values, highest=False),
            "zeros": float((values == 0).double().mean()),
        }
        for name, values in scores.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--samples", type=int, default=10_000, help="that are scored")
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train = CIFAR10(arguments.data)
    few = train.subset(torch.arange(arguments.samples)).to(device)
    table = Table(title=f"in common with float64, {arguments.epochs} epochs")
    for title in ("method", "precision", "highest 40 %", "lowest 40 %", "zeros"):
        table.add_column(title, justify="right")
    found = {}
    for name, method in METHODS.items():
        ensemble = tepui.Ensemble.build(
            lambda: ResNet18(width=arguments.width), members=1, seed=13
        )
        tepui.fit(
            ensemble,
            train,
            method=method,
            epochs=arguments.epochs,
            batch_size=128,
            optimizer=tepui.SGD(lr=0.1, momentum=0.9, weight_decay=5e-4),
            schedule=tepui.MultiStep(),
            augment=(RandomCrop(), HorizontalFlip()),
            progress="none",
        )
        found[name] = overlaps(scored(ensemble.members[0].to(device), few))
        for precision, shares in found[name].items():
            table.add_row(name, precision, *(f"{v:.4f}" for v in shares.values()))
    about = {"epochs": arguments.epochs, "width": arguments.width}
    about |= {"samples": arguments.samples, "torch": torch.__version__}
    arguments.json.write_text(json.dumps({**about, "common": found}, indent=2) + "\n")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
