"""Train and examine the arms of ``equal_price.md``, block by block.

python research/equal_price.py --data FOLDER --out FOLDER --seeds 201 202
"""

import argparse
import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import tepui
from tepui.data import CIFAR10, Arrays, HorizontalFlip, RandomCrop, corrupted, split
from tepui.methods import DeepEnsemble, SharpBalance
from tepui.metrics import accuracy, ece, nll, temperature
from tepui.models import ResNet18

PLAIN = (RandomCrop(), HorizontalFlip())
SEVERITIES = (1, 3, 5)
POINTS = 200
SURE = 0.9
# Members trained, epochs, method, and how many of the members are examined together.
ARMS = {
    "plain": (6, 40, DeepEnsemble(), (1, 3, 4, 5, 6)),
    "epochs": (3, 60, DeepEnsemble(), (1, 3)),
    "sharpbalance": (3, 40, SharpBalance(), (1, 3)),
}
Outputs = dict[str, list[Tensor]]


def trained(
    data: Arrays, members: int, epochs: int, method: Any, seed: int, **how: Any
) -> Any:
    """Return a run of an arm."""
    how = {"augment": PLAIN, **how}
    ensemble = tepui.Ensemble.build(
        lambda: ResNet18(width=32), members=members, seed=seed
    )
    return tepui.fit(
        ensemble,
        data,
        method=method,
        epochs=epochs,
        batch_size=128,
        optimizer=tepui.SGD(lr=0.1, momentum=0.9, weight_decay=5e-4),
        schedule=tepui.MultiStep(),
        precision="bfloat16",
        compile=False,
        progress="none",
        **how,
    )


def logits(ensemble: Any, images: Arrays) -> Tensor:
    """Return the members' logits of images in bytes."""
    parts = images.inputs.split(2000)
    return torch.cat([ensemble.logits(images.normalize(x)) for x in parts], dim=1)


def examined(outputs: Outputs, labels: Tensor) -> Iterator[tuple[str, Any]]:
    """Yield measures by kind of damage, with one value per severity."""
    for name, measure in (("accuracy", accuracy), ("nll", nll), ("ece", ece)):
        yield (
            name,
            {
                kind: [round(float(measure(one, labels)), 5) for one in severities]
                for kind, severities in outputs.items()
            },
        )


def judged(outputs: list[Tensor], labels: Tensor) -> Iterator[tuple[str, Any]]:
    """Yield what users see of the answers to some sets of images together."""
    probs = torch.cat([one.softmax(-1) for one in outputs], dim=1)
    truth = labels.repeat(len(outputs))
    confidence, answer = probs.mean(0).max(-1)
    wrong = answer != truth
    kept = wrong[confidence.argsort(descending=True)].double().cumsum(0)
    ends = (torch.arange(1, POINTS + 1) * len(truth) // POINTS).to(truth.device)
    yield "error_by_share_kept", [round(float(e), 5) for e in kept[ends - 1] / ends]
    yield (
        "sure_and_wrong",
        round(float((wrong & (confidence > SURE)).double().mean()), 6),
    )
    if len(probs) > 1:
        votes = probs.argmax(-1)
        agree = (votes == votes[0]).all(0)
        yield "agreeing", round(float(agree.double().mean()), 5)
        for name, rows in (("agreeing", agree), ("differing", ~agree)):
            yield f"accuracy_{name}", round(float(1 - wrong[rows].double().mean()), 5)


def records(run: Any, sizes: tuple[int, ...], exam: Any, held_out: Arrays) -> Any:
    """Yield the number of members, the measure, and its value."""
    all_outputs: Outputs = {}
    for (kind, _), images in exam.items():
        all_outputs.setdefault(kind, []).append(logits(run.ensemble, images))
    held, labels = logits(run.ensemble, held_out), exam["clean", 0].targets
    for size in sizes:
        # Networks by themselves are the first three, one by one.
        members = 3 if size == 1 else 1
        for first in range(members):
            taken = slice(first, first + size)
            outputs = {
                kind: [one[taken] for one in ones] for kind, ones in all_outputs.items()
            }
            scale = float(temperature(held[taken], held_out.targets))
            scaled = {k: [one / scale for one in ones] for k, ones in outputs.items()}
            which = {"member": first} if size == 1 else {}
            for name, value in examined(outputs, labels):
                yield {"members": size, **which, "measure": name, "value": value}
            for name, value in list(examined(scaled, labels))[1:]:
                measure = f"{name}_at_temperature"
                yield {"members": size, **which, "measure": measure, "value": value}
            clean = outputs.pop("clean")
            damaged = [one for ones in outputs.values() for one in ones]
            for data, ones in (("clean", clean), ("corrupted", damaged)):
                for name, value in judged(ones, labels):
                    shown = {"data": data, "measure": name, "value": value}
                    yield {"members": size, **which, **shown}


def materials(folder: Path) -> tuple[Arrays, Arrays, Any]:
    """Return training images, held-out images, and the exam."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = True
    training, held_out = split(CIFAR10(folder), 0.1, seed=0)
    test = CIFAR10(folder, train=False).to(device)
    copies = corrupted(test, severities=SEVERITIES).items()
    return training, held_out.to(device), {("clean", 0): test, **dict(copies)}


def lines_of(run: Any, about: Any, sizes: tuple[int, ...], exam: Any, held: Any) -> Any:
    """Yield the lines of a run: what it took, then what it is worth."""
    seconds = {
        "steps": round(sum(r.seconds for r in run.history), 2),
        "exchange": round(sum(r.exchange_seconds or 0 for r in run.history), 2),
    }
    members = {"members": len(run.ensemble)}
    yield {**about, **members, "measure": "seconds", "value": seconds}
    for one in records(run, sizes, exam, held):
        yield {**about, **one}


def keep(lines: list[Any], file: Path) -> None:
    """Write a file of records, whole or not at all."""
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    partial = file.with_suffix(".partial")
    partial.write_text(text)
    partial.replace(file)
    print(file, lines[0]["value"], flush=True)


def main(arms: Any = ARMS) -> None:
    """Train what has no file yet: one for each seed and arm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--arms", nargs="+", choices=arms, default=[*arms])
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    training, *examination = materials(options.data)
    for seed, name in product(options.seeds, options.arms):
        file = options.out / f"{seed}-{name}.jsonl"
        if not file.exists():
            members, epochs, method, sizes, *how = arms[name]
            run = trained(training, members, epochs, method, seed, **dict(*how))
            about = {"arm": name, "seed": seed, "epochs": epochs}
            keep([*lines_of(run, about, sizes, *reversed(examination))], file)
            del run
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
