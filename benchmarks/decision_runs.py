"""What the scripts of ``docs/decisions`` share: data, training, exam and files.

An ensemble's first half is trained once, and several methods go on from there.
"""

import argparse
import copy
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import tepui
from tepui.core.replacing import replacing
from tepui.core.storage import read_json
from tepui.data import (
    CIFAR10,
    CIFAR100,
    Arrays,
    HorizontalFlip,
    RandomCrop,
    corrupted,
    split,
)
from tepui.ensembles.outputs import dataset_logits
from tepui.methods import Method
from tepui.metrics import auroc, ood_scores, temperature
from tepui.models import ResNet18
from tepui.modules.state import load_tensor_state
from tepui.tasks import Scores
from tepui.tasks.scores import mean_scores
from tepui.training.run_folder import RunFolder, environment_of

MEMBERS = 3
CHECKPOINT_EVERY = 20  # epochs
SEVERITIES = (1, 3, 5)
CLEAN = ("clean", 0)
COPIES = "test_copies.safetensors"
DATASETS = {"cifar10": CIFAR10, "cifar100": CIFAR100}
UNFAMILIAR = {"cifar10": "cifar100", "cifar100": "cifar10"}

Exam = Mapping[tuple[str, int], Arrays]
Outputs = Mapping[tuple[str, int], tuple[Tensor, Tensor]]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what every command that trains can be told."""
    parser.add_argument("--data", type=Path, required=True, help="holds the images")
    parser.add_argument("--out", type=Path, required=True, help="one file per ensemble")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--samples", type=int, help="use so many samples only")
    parser.set_defaults(dataset="cifar10")


def passed_on(arguments: argparse.Namespace) -> list[str]:
    """Return those options for another process."""
    names = ("data", "out", "epochs", "width", "samples")
    values = {name: getattr(arguments, name) for name in names}
    return [f"--{name}={value}" for name, value in values.items() if value is not None]


def the_device() -> torch.device:
    """Return where ensembles are trained and examined."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def images_of(arguments: argparse.Namespace, *, train: bool) -> Arrays:
    """Return a data set's training or test images, or the first of them."""
    data = DATASETS[arguments.dataset](arguments.data, train=train)
    if arguments.samples is None:
        return data
    return data.subset(torch.arange(arguments.samples))


def check_data(arguments: argparse.Namespace) -> None:
    """End the command where its data folder lacks the images, before workers start."""
    try:
        images_of(arguments, train=False)
    except FileNotFoundError as error:
        rule = f"be a folder that holds {DATASETS[arguments.dataset].__name__}"
        message = f"--data must {rule}, got {arguments.data}: {error}"
        raise SystemExit(message) from None


def training_and_held_out(arguments: argparse.Namespace) -> tuple[Arrays, Arrays]:
    """Return the training images and the tenth of them that is held out."""
    return split(images_of(arguments, train=True), 0.1, seed=0)


def begin(
    data: Arrays, method: Method, folder: Path, *, until: int, **how: Any
) -> None:
    """Train an ensemble up to an epoch, or on to it, and leave it in its folder."""
    _fit(data, method, folder, stop_after=until, resume=True, **how)


def go_on(
    data: Arrays, method: Method, folder: Path, first_part: Path, **how: Any
) -> tepui.Run:
    """Train an ensemble from a first part that its method would have made too.

    Where this was interrupted, it goes on from there.
    """
    return _fit(data, method, folder, branch_from=first_part, resume=True, **how)


def _fit(
    data: Arrays,
    method: Method,
    folder: Path,
    *,
    width: int,
    seed: int,
    epochs: int,
    **how: Any,
) -> tepui.Run:
    classes = len(data.classes)
    ensemble = tepui.Ensemble.build(
        lambda: ResNet18(num_classes=classes, width=width), members=MEMBERS, seed=seed
    )
    return tepui.fit(
        ensemble,
        data,
        method=method,
        epochs=epochs,
        batch_size=128,
        optimizer=tepui.SGD(lr=0.1, momentum=0.9, weight_decay=5e-4),
        schedule=tepui.MultiStep(),
        augment=(RandomCrop(), HorizontalFlip()),
        compile=False,  # SharpBalance's shapes differ between members
        out=folder,
        checkpoint_every=CHECKPOINT_EVERY,
        progress="none",
        **how,
    )


def recorded(run: tepui.Run) -> dict[str, Any]:
    """Return what is known of a run besides its ensemble."""
    assert run.path is not None
    config = RunFolder(run.path).recorded()["config"]
    return {
        "seeds": list(run.ensemble.seeds),
        "precision": config["precision"],
        "data": config["data"],
        "training": {
            name: config[name] for name in ("batch_size", "optimizer", "schedule")
        },
        "environment": environment_of(the_device()),
        "loss": [list(record.loss) for record in run.history],
        "epoch_seconds": [round(record.seconds, 3) for record in run.history],
        "exchange_seconds": sum(r.exchange_seconds or 0 for r in run.history),
        "sets": dict(run.summary),
    }


def last_weights(run: tepui.Run) -> tepui.Ensemble:
    """Return the ensemble as training left it, of a run that averaged its weights."""
    assert run.path is not None
    checkpoint = RunFolder(run.path).load_checkpoint()
    assert checkpoint is not None
    ensemble, start = copy.deepcopy(run.ensemble), "module/"
    for index, member in enumerate(ensemble.members):
        tensors, _ = checkpoint.member(index)
        names = [name for name in tensors if name.startswith(start)]
        state = {name.removeprefix(start): tensors[name] for name in names}
        load_tensor_state(member, state, f"checkpoint of member {index}")
    return ensemble


def found_of(
    run: tepui.Run,
    held_out: Arrays,
    arguments: argparse.Namespace,
    *,
    ensemble: tepui.Ensemble | None = None,
    severities: Sequence[int] = SEVERITIES,
) -> dict[str, Any]:
    """Return what is known of a run, and what an ensemble of it scores in the exam."""
    began = time.monotonic()
    ensemble = ensemble or run.ensemble
    test = images_of(arguments, train=False).to(the_device())
    exam = exam_of(test, arguments.out / COPIES, severities)
    outputs = logits_of(ensemble, exam)
    on_held_out = dataset_logits(ensemble, held_out.to(the_device()))
    return {
        **recorded(run),
        **examined(outputs),
        "scaled": examined_at_best_temperature(outputs, on_held_out),
        "unfamiliar": detected(ensemble, test, outputs[CLEAN][0], arguments),
        "exam_seconds": round(time.monotonic() - began, 3),
    }


def detected(
    ensemble: tepui.Ensemble,
    test: Arrays,
    logits: Tensor,
    arguments: argparse.Namespace,
) -> dict[str, dict[str, float]]:
    """Return how well scores find test images of the other data set, if that is there.

    Its classes are others, its images of the same kind: AUROC, by data set and score.
    """
    other = UNFAMILIAR[arguments.dataset]
    there = argparse.Namespace(**{**vars(arguments), "dataset": other})
    try:
        images = images_of(there, train=False).to(the_device())
    except (FileNotFoundError, ValueError) as error:  # missing, or damaged
        print(f"no unfamiliar images: {error}", flush=True)
        return {}
    no_labels = torch.zeros_like(images.targets)
    others = test.like(images.inputs, no_labels)
    unfamiliar = ood_scores(dataset_logits(ensemble, others)[0])
    familiar = ood_scores(logits)
    return {other: {n: float(auroc(familiar[n], unfamiliar[n])) for n in familiar}}


def exam_of(
    images: Arrays, file: Path | None = None, severities: Sequence[int] = SEVERITIES
) -> Exam:
    """Return clean images and corrupted copies, all kept; from a file if it is there.

    Processes that share a file make the copies once.
    """
    lazy = corrupted(images, severities=severities)
    if file is not None and file.exists():
        copies = load_file(file, device=str(images.device))
    else:
        # In one layout, made or read: a convolution's last bits depend on it.
        copies = {name_of(key): lazy[key].inputs.contiguous() for key in lazy}
        if file is not None:
            with replacing(file) as temporary:
                save_file(copies, temporary)
    made = {key: images.like(copies[name_of(key)], images.targets) for key in lazy}
    return {CLEAN: images, **made}


def logits_of(ensemble: tepui.Ensemble, exam: Exam) -> Outputs:
    """Return members' logits and the labels on the images of an exam."""
    torch.backends.cudnn.benchmark = True
    return {key: dataset_logits(ensemble, data) for key, data in exam.items()}


def examined(outputs: Outputs) -> dict[str, Any]:
    """Return the scores of the ensemble and of each member, clean and corrupted."""
    found = {key: Scores.of(*output) for key, output in outputs.items()}
    clean = found.pop(CLEAN)
    return {
        "clean": with_members(clean),
        "corrupted": with_members(mean_scores(found.values())),
        "copies": {name_of(key): copy.accuracy for key, copy in found.items()},
    }


def examined_at_best_temperature(
    outputs: Outputs, held_out: tuple[Tensor, Tensor]
) -> dict[str, Any]:
    """Return likelihood and calibration with one temperature, fit on other images."""
    best = float(temperature(*held_out))
    scaled = {key: (logits / best, y) for key, (logits, y) in outputs.items()}
    found = examined(scaled)
    shown = {part: found[part] for part in ("clean", "corrupted")}
    kept = {part: {n: shown[part][n] for n in ("nll", "ece")} for part in shown}
    return {"temperature": best, **kept}


def with_members(found: Scores) -> dict[str, Any]:
    """Return scores as JSON holds them, those of members in a place of their own."""
    document = found.document()
    accuracies, nlls = document.pop("member_accuracies"), document.pop("member_nlls")
    return {**document, "members": {"accuracy": accuracies, "nll": nlls}}


def name_of(key: tuple[str, int]) -> str:
    """Return what a corrupted copy is called in files."""
    return f"{key[0]}/{key[1]}"


def read(folder: Path) -> list[dict[str, Any]]:
    """Return what was found of every ensemble that is complete."""
    return [read_json(file) for file in sorted(folder.glob("*_block*.json"))]
