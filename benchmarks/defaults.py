"""Trains every method with its former defaults, or candidates, on three real jobs.

What ``docs/decisions/010_defaults.md`` asks for; FOLDER holds CIFAR-10 and CIFAR-100,
flights come from a package. One file per job, which names what ran:

    PYTHONPATH=src python3 benchmarks/defaults.py flights --out runs
"""

import argparse
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from decision_runs import the_device
from torch import nn

import tepui
from tepui.core.storage import write_json
from tepui.data import (
    CIFAR10,
    CIFAR100,
    Arrays,
    HorizontalFlip,
    RandomCrop,
    corrupted,
    split,
)
from tepui.methods import (
    A2D,
    GSAM,
    SAM,
    SED,
    DeepEnsemble,
    DivDis,
    Method,
    SharpBalance,
)
from tepui.models import MLP, ResNet18, split_last_layers
from tepui.studies.compare import compare
from tepui.studies.comparison_plan import labels
from tepui.training.run_folder import environment_of

SEVERITY = 3
# What methods were before this was decided, called without arguments.
DEFAULTS: tuple[Method, ...] = (
    DeepEnsemble(),
    SAM(rho=0.05),
    GSAM(rho=0.2),
    SharpBalance(rho=0.2, before="sam"),
    SED(weight=0.1, active=2),
    A2D(weight=0.1),
    DivDis(weight=10.0, regularizer=10.0),
)
RADII, WEIGHTS = (0.1, 0.05, 0.02), (0.03, 0.01, 0.003)
CANDIDATES: dict[str, list[Method]] = {
    "SAM": [SAM(rho=0.02)],
    "GSAM": [GSAM(rho=rho) for rho in RADII],
    "SharpBalance": [SharpBalance(rho=r, before="sam") for r in RADII],
    "SharpBalance-late": [SharpBalance(rho=0.05, before="plain")],
    "SED": [SED(weight=weight, active=2) for weight in WEIGHTS],
    "SED-all": [SED(weight=weight, active=3) for weight in (0.1, *WEIGHTS)],
    "A2D": [A2D(weight=weight) for weight in WEIGHTS],
    "DivDis": [DivDis(weight=w, regularizer=w) for w in (1.0, 0.1, 0.01)],
    "DivDis-less": [DivDis(weight=w, regularizer=w) for w in (0.003, 0.001)],
}


@dataclass(frozen=True)
class Job:
    """What is learned, how, and on what it is tested.

    Attributes:
        train: Training data.
        test: Test data of the same domain.
        shifted: Test data of others.
        unlabeled: For methods that need them, like the shifted data.
        factory: Returns a new member.
        ensembles: How many of each method.
        training: Arguments of ``tepui.fit``.
        extractor: Frozen, below all members.
    """

    train: Arrays
    test: Arrays
    shifted: Mapping[Any, Arrays]
    unlabeled: Arrays
    factory: Callable[[], nn.Module]
    ensembles: int
    training: Mapping[str, Any] = field(default_factory=dict)
    extractor: nn.Module | None = None


def cifar10(arguments: argparse.Namespace) -> Job:
    """Return small residual networks on images."""
    return Job(
        **images(arguments),
        factory=partial(ResNet18, width=arguments.width or 16),
        ensembles=5,
        training={
            "epochs": 12,
            "optimizer": tepui.SGD(lr=0.1, momentum=0.9, weight_decay=5e-4),
            "schedule": tepui.MultiStep(),
            "augment": (RandomCrop(), HorizontalFlip()),
            "compile": False,
        },
    )


def features(arguments: argparse.Namespace) -> Job:
    """Return perceptrons on the features of a network that learned other classes."""
    width = arguments.width or 32
    return Job(
        **images(arguments),
        factory=partial(MLP, in_features=8 * width, hidden=(128,)),
        ensembles=5,
        training={"epochs": 10, "optimizer": tepui.AdamW(lr=1e-3)},
        extractor=body(arguments, width),
    )


def flights(arguments: argparse.Namespace) -> Job:
    """Return perceptrons on a table whose season changes."""
    from flights import seasons  # which needs pandas

    size = arguments.samples or 20_000
    (train, test), (unlabeled, summer) = seasons((8_000, size), (8_000, size))
    return Job(
        train,
        test,
        {"summer": summer},
        unlabeled,
        partial(MLP, in_features=train.inputs.shape[1], hidden=(64, 64), num_classes=2),
        ensembles=10,
        training={"epochs": 10, "optimizer": tepui.AdamW(lr=0.005)},
    )


JOBS = {"cifar10": cifar10, "features": features, "flights": flights}


def images(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return CIFAR-10: to learn from, to test on, and corrupted."""
    everything, test = (first(CIFAR10, arguments, train=t) for t in (True, False))
    train, held_out = split(everything, 0.1, seed=0)
    shifted = corrupted(test, severities=(SEVERITY,))
    unlabeled = mixed(held_out)
    return {"train": train, "test": test, "shifted": shifted, "unlabeled": unlabeled}


def first(dataset: Any, arguments: argparse.Namespace, *, train: bool) -> Arrays:
    """Return a data set, or as many of its first samples as were asked for."""
    data = dataset(arguments.data, train=train)
    if arguments.samples is None:
        return data
    return data.subset(torch.arange(arguments.samples))


def mixed(images: Arrays) -> Arrays:
    """Return every image under one of the corruptions, in turn."""
    copies = list(corrupted(images, severities=(SEVERITY,)).values())
    taken = [copy.inputs[number :: len(copies)] for number, copy in enumerate(copies)]
    targets = [images.targets[number :: len(copies)] for number in range(len(copies))]
    return images.like(torch.cat(taken), torch.cat(targets))


def body(arguments: argparse.Namespace, width: int) -> nn.Module:
    """Return a network without its last layer that learned CIFAR-100."""
    data = first(CIFAR100, arguments, train=True)
    factory = partial(ResNet18, num_classes=100, width=width)
    ensemble = tepui.Ensemble.build(factory, members=1, seed=0)
    tepui.fit(
        ensemble,
        data,
        method=DeepEnsemble(),
        epochs=arguments.epochs or 20,
        batch_size=128,
        augment=(RandomCrop(), HorizontalFlip()),
        progress="none",
    )
    return split_last_layers(ensemble.members[0]).extractor


def run(arguments: argparse.Namespace) -> None:
    """Train and test all methods on a job, and write down their accuracies."""
    job = JOBS[arguments.job](arguments)
    methods, name = chosen(arguments), arguments.job
    if arguments.candidates:
        words = re.findall(r"[\w.=-]+", " ".join(arguments.candidates))
        kind = "alone" if arguments.alone else "candidates"
        name = "_".join([arguments.job, kind, *words])
    for_unlabeled = any(method.needs_unlabeled for method in methods)
    given = {"epochs": arguments.epochs} if arguments.epochs else {}
    training = {"batch_size": 128, **job.training, **given}
    comparison = compare(
        methods,
        job.factory,
        job.train,
        job.test,
        shifted=job.shifted,
        unlabeled=job.unlabeled if for_unlabeled else None,
        extractor=job.extractor,
        ensembles=arguments.ensembles or job.ensembles,
        out=arguments.out / name,
        resume=True,
        at_once=arguments.at_once,
        announce=partial(print, flush=True),
        checkpoint_every=training["epochs"],
        progress="none",
        **training,
    )
    results = {result.label: found_of(result) for result in comparison.methods}
    by_label = zip(labels(methods), methods, strict=True)
    found = {
        "job": arguments.job,
        "methods": {named(method): results[label] for label, method in by_label},
        "settings": comparison.settings,
        "environment": environment_of(the_device()),
    }
    write_json(arguments.out / f"{name}.json", found)


def chosen(arguments: argparse.Namespace) -> list[Method]:
    """Return former defaults, or candidates, mostly beside a deep ensemble."""
    if not arguments.candidates:
        return list(DEFAULTS)
    several = [*DEFAULTS, *chain.from_iterable(CANDIDATES.values())]
    by_name = {named(method): [method] for method in several}
    lists = [{**CANDIDATES, **by_name}[name] for name in arguments.candidates]
    beside = [] if arguments.alone else [DEFAULTS[0]]
    return [*beside, *chain.from_iterable(lists)]


def named(method: Method) -> str:
    """Return a method with its radius or weights, defaults or not."""
    names = ["rho", "weight", "regularizer"]
    if isinstance(method, SED) and method.active != 2:
        names.append("active")
    if isinstance(method, SharpBalance) and method.before == "plain":
        names.append("before")
    given = [f"{n}={getattr(method, n)!r}" for n in names if hasattr(method, n)]
    return f"{type(method).__name__}({', '.join(given)})"


def found_of(result: Any) -> dict[str, Any]:
    """Return what a method's ensembles scored in domain and under shift."""
    evaluations = [trained.evaluation for trained in result.ensembles]
    shifted = [e["cells"] for e in evaluations]
    return {
        "hyperparameters": result.hyperparameters,
        "accuracy": [e["clean"]["accuracy"] for e in evaluations],
        "nll": [e["clean"]["nll"] for e in evaluations],
        "shifted_accuracy": [_mean(cells, "accuracy") for cells in shifted],
        "shifted_nll": [_mean(cells, "nll") for cells in shifted],
        "members": [e["clean"]["member_accuracies"] for e in evaluations],
    }


def _mean(cells: list[dict[str, Any]], name: str) -> float:
    return sum(float(cell[name]) for cell in cells) / len(cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("job", choices=JOBS)
    parser.add_argument("--data", type=Path, help="holds the images")
    parser.add_argument("--out", type=Path, required=True)
    theirs = "train candidates of these methods, or values such as 'SAM(rho=0.02)'"
    parser.add_argument("--candidates", nargs="+", help=theirs)
    alone = "without deep ensembles beside the candidates"
    parser.add_argument("--alone", action="store_true", help=alone)
    parser.add_argument("--ensembles", type=int)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--width", type=int)
    parser.add_argument("--samples", type=int, help="use so many samples only")
    parser.add_argument("--at-once", type=int, default=1, help="ensembles at a time")
    run(parser.parse_args())


if __name__ == "__main__":
    main()
