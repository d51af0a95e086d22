"""How the paper's ensembles are trained, at three sizes; shared by its recipes.

At ``paper`` size everything is the paper's. At ``small`` size, for two processors, each
of its data sets has a stand-in: scikit-learn's digits for CIFAR-10, a part of
Fashion-MNIST for CIFAR-100 and a part of CIFAR-10 for TinyImageNet, with a small
convolutional network for its ResNet-18. ``smoke`` is for tests of the code.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from torch import nn

from tepui.data import (
    CIFAR10,
    CIFAR100,
    STANDARD,
    Augmentation,
    Digits,
    FashionMNIST,
    HorizontalFlip,
    RandomCrop,
    TinyImageNet,
)
from tepui.methods import SAM, DeepEnsemble, Method, SharpBalance
from tepui.models import ConvNet, ResNet18
from tepui.papers.recipe import Size
from tepui.studies.results import Results
from tepui.studies.specifications import EvaluationSpec, Samples, Trial, seeds
from tepui.training import SGD, MultiStep, TrainingSpec

DATASETS = ("cifar10", "cifar100", "tiny_imagenet")
Build = Callable[..., nn.Module]


class Scale(NamedTuple):
    """How large the study of one data set is.

    Attributes:
        dataset: What is trained on.
        train: Training samples; None takes all.
        test: Test samples.
        types: Corruptions of the test samples.
        model: Returns a member of a given width.
        width: Of the members.
        epochs: Length of a run.
        ensembles: Repetitions.
        members: Of an ensemble.
        rate: Peak learning rate.
        batch_size: Samples per step and member.
        rho: Radius of the sharpness-aware methods.
        fraction: Share of sharp samples that SharpBalance trains others on.
        switch: When SharpBalance begins, as a share of the run.
        augment: Random changes of the training images.
        strength: Whose parameters corruptions take.
    """

    dataset: Callable[..., Any]
    train: int | None
    test: int | None
    types: tuple[str, ...]
    model: Build
    width: int
    epochs: int
    ensembles: int
    members: int
    rate: float
    batch_size: int
    rho: float
    fraction: float
    switch: float
    augment: tuple[Augmentation, ...] = ()
    strength: str = "cifar"


def _paper(dataset: Callable[..., Any], classes: int, **other: Any) -> Scale:
    values: dict[str, Any] = {
        "dataset": dataset,
        "train": None,
        "test": None,
        "types": STANDARD,
        "model": partial(ResNet18, num_classes=classes),
        "width": 64,
        "epochs": 200,
        "ensembles": 3,
        "members": 3,
        "rate": 0.1,
        "batch_size": 128,
        "rho": 0.2,
        "fraction": 0.4,
        "switch": 0.5,
        "augment": (RandomCrop(padding=4), HorizontalFlip()),
    }
    return Scale(**{**values, **other})


_DIGITS = Scale(
    dataset=Digits,
    train=None,
    test=None,
    types=STANDARD,
    model=ConvNet,
    width=8,
    epochs=30,
    ensembles=3,
    members=3,
    rate=0.1,
    batch_size=64,
    rho=0.2,
    fraction=0.4,
    switch=0.5,
)
_SMOKE = _DIGITS._replace(
    train=160,
    test=60,
    types=("gaussian_noise", "contrast"),
    width=2,
    epochs=2,
    ensembles=2,
    members=2,
)
SCALES: Mapping[Size, Mapping[str, Scale]] = {
    "paper": {
        "cifar10": _paper(CIFAR10, 10),
        "cifar100": _paper(CIFAR100, 100, fraction=0.5),
        "tiny_imagenet": _paper(
            TinyImageNet, 200, fraction=0.3, strength="tiny_imagenet"
        ),
    },
    "small": {
        "cifar10": _DIGITS,
        "cifar100": _DIGITS._replace(
            dataset=FashionMNIST,
            train=1500,
            test=300,
            epochs=8,
            model=partial(ConvNet, stride=2),
        ),
        "tiny_imagenet": _DIGITS._replace(
            dataset=CIFAR10,
            train=1500,
            test=300,
            epochs=8,
            model=partial(ConvNet, in_channels=3, stride=2),
        ),
    },
    "smoke": {
        "cifar10": _SMOKE,
        "cifar100": _SMOKE._replace(train=120),
        "tiny_imagenet": _SMOKE._replace(train=100),
    },
}


def methods(scale: Scale) -> dict[str, Method]:
    """Return the paper's three methods by their names in its numbers."""
    return {
        "deep_ensemble": DeepEnsemble(),
        "sam": SAM(rho=scale.rho),
        "sharpbalance": SharpBalance.paper(
            rho=scale.rho, fraction=scale.fraction, switch_at=scale.switch
        ),
    }


def trials(
    scale: Scale,
    method: Method,
    *,
    members: int | None = None,
    width: int | None = None,
    **changes: Any,
) -> list[Trial]:
    """Return an ensemble per repetition; repetitions share seeds across methods."""
    first = Trial(
        data=Samples(scale.dataset, count=scale.train),
        model=partial(scale.model, width=width or scale.width),
        training=TrainingSpec(
            method=method,
            epochs=scale.epochs,
            batch_size=scale.batch_size,
            optimizer=SGD(lr=scale.rate, momentum=0.9, weight_decay=5e-4),
            schedule=MultiStep(),
            augment=scale.augment,
            **changes,
        ),
        seeds=(0,),
    )
    size = members or scale.members
    return [replace(first, seeds=seeds(each, size)) for each in range(scale.ensembles)]


def exam(scale: Scale) -> EvaluationSpec:
    """Return the clean and corrupted test of a data set."""
    test = Samples(scale.dataset, part="test", count=scale.test)
    return EvaluationSpec(test, types=scale.types, strength=scale.strength)


def settings(
    size: Size,
    datasets: Sequence[str],
    *,
    scales: Mapping[Size, Mapping[str, Scale]] = SCALES,
    architecture: str = "resnet18",
) -> dict[str, Any]:
    """Return how a study of some data sets is made, for its results."""
    own, paper = scales[size], scales["paper"]
    document: dict[str, Any] = {}
    for name in datasets:
        scale = own[name]
        document[name] = {
            "trained on": scale.dataset.__name__,
            "training samples": scale.train or "all",
            "test samples": scale.test or "all",
            "model": _called(scale.model, scale.width),
            "members": scale.members,
            "ensembles": scale.ensembles,
            "epochs": scale.epochs,
            "batch size": scale.batch_size,
            "learning rate": scale.rate,
            "rho": scale.rho,
            "fraction": scale.fraction,
            "switch": scale.switch,
            "corruptions": list(scale.types),
        }
    if size == "paper":
        document["differs"] = (
            "seeds are 0, 1, 2, 1000, ... instead of 13, 17, 27, ...; corrupted copies "
            "are made by tepui; SharpBalance begins after half of the run, as in Table "
            "1, although Appendix D.3 says epoch 10 for CIFAR-10"
        )
    else:
        document["differs"] = "; ".join(
            f"{own[name].dataset.__name__} and {_name(own[name].model)} of width "
            f"{own[name].width}, {own[name].epochs} epochs, for {name} and "
            f"{architecture} of width {paper[name].width}, {paper[name].epochs} epochs"
            for name in datasets
        )
    return document


def title_of(found: Results, dataset: str, *, corrupted: bool = False) -> str:
    """Return what a panel says of its data, with what stands in for them."""
    name = f"{dataset}_c" if corrupted else dataset
    if found.size == "paper":
        return name
    return f"{name}\nstand-in: {found.settings[dataset]['trained on']}"


def _name(model: Build) -> str:
    inner = model.func if isinstance(model, partial) else model
    return inner.__name__


def _called(model: Build, width: int) -> str:
    given = model.keywords if isinstance(model, partial) else {}
    words = (f"{name}={value}" for name, value in {**given, "width": width}.items())
    return f"{_name(model)}({', '.join(words)})"
