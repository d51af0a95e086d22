"""Table 5: transformers on images and on pairs of sentences.

The paper fine-tunes pretrained ViT-T/16 on CIFAR-100 and ALBERT-Base on MRPC. At
``small`` size a transformer of one block learns scikit-learn's digits and a small
ALBERT learns a part of MRPC, both from nothing; ``smoke`` needs no files.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn

from tepui.core.seeding import generator
from tepui.data import (
    CIFAR100,
    MRPC,
    STANDARD,
    Arrays,
    Augmentation,
    Digits,
    HorizontalFlip,
    RandomCrop,
    Tokenizer,
)
from tepui.methods import SAM, DeepEnsemble, SharpBalance
from tepui.models import Albert, ViTTiny, from_huggingface, from_timm
from tepui.papers.recipe import Order, Recipe, Size
from tepui.papers.sharpbalance.accuracy_tables import (
    Runs,
    accuracy_records,
    clean_and_corrupted,
)
from tepui.studies.jobs import Job
from tepui.studies.results import Record
from tepui.studies.specifications import EvaluationSpec, Samples, Trial, seeds
from tepui.studies.store import Store
from tepui.training import SGD, AdamW, Cosine, TrainingSpec
from tepui.training.optimizer import Optimizer

WORDS = ("river", "market", "judge", "storm", "bank", "court", "garden", "letter")


class Paraphrases(Arrays):
    """Pairs of three words that are the same words, reordered, or other words."""

    def __init__(self, train: bool = True) -> None:
        tokenizer = Tokenizer.build(WORDS, size=32, buckets=8)
        pairs = [_pair(generator(0, "paraphrases", train, row)) for row in range(60)]
        first, second, labels = zip(*pairs, strict=True)
        super().__init__(
            tokenizer.pairs(first, second, 16),
            torch.tensor(labels),
            classes=("different", "paraphrase"),
        )


class Task(NamedTuple):
    """What the members of one column learn.

    Attributes:
        dataset: The paper's name of the data.
        architecture: The paper's name of the model.
        data: What is trained on.
        train: Training samples; None takes all.
        test: Test samples; None takes all.
        types: Corruptions of the test samples.
        model: Returns a member.
        epochs: Length of a run.
        ensembles: Repetitions.
        members: Of an ensemble.
        batch_size: Samples per step and member.
        optimizer: Of each member.
        augment: Random changes of the training images.
        rho: Radius of the sharpness-aware methods.
    """

    dataset: str
    architecture: str
    data: Callable[..., Arrays]
    train: int | None
    test: int | None
    types: tuple[str, ...]
    model: Callable[[], nn.Module]
    epochs: int
    ensembles: int
    members: int
    batch_size: int
    optimizer: Optimizer
    augment: tuple[Augmentation, ...] = ()
    rho: float = 0.05


IMAGES, TEXT = ("cifar100", "vit_t16_pretrained"), ("mrpc", "albert_base_pretrained")
TASKS: dict[Size, tuple[Task, Task]] = {
    "paper": (
        Task(
            *IMAGES,
            data=CIFAR100,
            train=None,
            test=None,
            types=STANDARD,
            model=partial(
                from_timm,
                name="vit_tiny_patch16_224",
                num_classes=100,
                pretrained=True,
                resize=224,
            ),
            epochs=200,
            ensembles=3,
            members=3,
            batch_size=128,
            optimizer=SGD(lr=0.01, momentum=0.9, weight_decay=5e-4),
            augment=(RandomCrop(padding=4), HorizontalFlip()),
        ),
        Task(
            *TEXT,
            data=partial(MRPC, tokenizer="albert-base-v2"),
            train=None,
            test=None,
            types=(),
            model=partial(from_huggingface, name="albert-base-v2"),
            epochs=10,
            ensembles=3,
            members=3,
            batch_size=32,
            optimizer=AdamW(lr=2e-5),
        ),
    ),
    "small": (
        Task(
            *IMAGES,
            data=Digits,
            train=480,
            test=150,
            types=STANDARD,
            model=partial(ViTTiny, in_channels=1, image_size=8, patch_size=4, depth=1),
            epochs=16,
            ensembles=1,
            members=3,
            batch_size=32,
            optimizer=AdamW(lr=1e-3),
        ),
        Task(
            *TEXT,
            data=partial(MRPC, vocabulary=2048, length=48),
            train=400,
            test=None,
            types=(),
            model=partial(
                Albert, vocabulary=2048, embedding=32, width=64, depth=2, length=48
            ),
            epochs=4,
            ensembles=1,
            members=3,
            batch_size=32,
            optimizer=AdamW(lr=1e-3),
        ),
    ),
    "smoke": (
        Task(
            *IMAGES,
            data=Digits,
            train=32,
            test=20,
            types=("contrast",),
            model=partial(ViTTiny, in_channels=1, image_size=8, patch_size=4, depth=1),
            epochs=2,
            ensembles=2,
            members=2,
            batch_size=16,
            optimizer=AdamW(lr=1e-3),
        ),
        Task(
            *TEXT,
            data=Paraphrases,
            train=None,
            test=None,
            types=(),
            model=partial(
                Albert, vocabulary=32, embedding=4, width=8, depth=1, heads=2, length=16
            ),
            epochs=2,
            ensembles=2,
            members=2,
            batch_size=16,
            optimizer=AdamW(lr=1e-3),
        ),
    ),
}


def runs_of(task: Task) -> Runs:
    """Return the trials of each method."""
    compared = {
        "deep_ensemble": DeepEnsemble(),
        "sam": SAM(rho=task.rho),
        "sharpbalance": SharpBalance.paper(rho=task.rho),
    }
    return {
        name: [
            Trial(
                data=Samples(task.data, count=task.train),
                model=task.model,
                training=TrainingSpec(
                    method=method,
                    epochs=task.epochs,
                    batch_size=task.batch_size,
                    optimizer=task.optimizer,
                    schedule=Cosine(),
                    augment=task.augment,
                ),
                seeds=seeds(repetition, task.members),
            )
            for repetition in range(task.ensembles)
        ]
        for name, method in compared.items()
    }


def exam_of(task: Task) -> EvaluationSpec:
    """Return the clean and, for images, corrupted test."""
    return EvaluationSpec(
        Samples(task.data, part="test", count=task.test), types=task.types
    )


def plan(order: Order) -> list[Job]:
    """Return the ensembles of both columns."""
    return [
        Job(trial, (exam_of(task),))
        for task in TASKS[order.size]
        for own in runs_of(task).values()
        for trial in own
    ]


def records(store: Store, order: Order) -> Iterator[Record]:
    """Return the accuracy of ensembles."""
    for task in TASKS[order.size]:
        runs = runs_of(task)
        found = clean_and_corrupted(store, runs, exam_of(task), task.dataset)
        for tested, values in found.items():
            yield from accuracy_records(
                values,
                runs,
                item="sharpbalance/table5",
                dataset=tested,
                architecture=task.architecture,
            )


def described(order: Order) -> dict[str, Any]:
    """Return how the ensembles are made, and what differs from the paper."""
    tasks = TASKS[order.size]
    document: dict[str, Any] = {
        task.dataset: {
            "trained on": _name(task.data),
            "training samples": task.train or "all",
            "model": _name(task.model),
            "members": task.members,
            "ensembles": task.ensembles,
            "epochs": task.epochs,
            "batch size": task.batch_size,
            "rho": task.rho,
            "corruptions": list(task.types),
        }
        for task in tasks
    }
    notes = ["the paper gives no learning rates, radii and lengths for this table"]
    if order.size != "paper":
        notes += [
            f"{_name(task.data)} and {_name(task.model)}, trained from nothing, for "
            f"{task.dataset} and {task.architecture}"
            for task in tasks
        ]
    return {**document, "differs": "; ".join(notes)}


def _pair(stream: torch.Generator) -> tuple[str, str, int]:
    order = torch.randperm(len(WORDS), generator=stream).tolist()
    same = int(torch.randint(2, (), generator=stream))
    first = [WORDS[place] for place in order[:3]]
    second = first[::-1] if same else [WORDS[place] for place in order[3:6]]
    return " ".join(first), " ".join(second), same


def _name(made_by: Callable[..., Any]) -> str:
    inner = made_by.func if isinstance(made_by, partial) else made_by
    return inner.__name__


RECIPE = Recipe(
    title="transformers on images and on pairs of sentences",
    plan=plan,
    records=records,
    settings=described,
)
