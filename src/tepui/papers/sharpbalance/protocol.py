"""How the paper's ensembles are trained, at three sizes; shared by its recipes.

At ``paper`` size everything is the paper's. At ``small`` size, for two processors, each
of its data sets has a stand-in: scikit-learn's digits for CIFAR-10, a part of
Fashion-MNIST for CIFAR-100 and a part of CIFAR-10 for TinyImageNet, with a small
convolutional network for its ResNet-18. ``smoke`` is for tests of the code.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

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
from tepui.papers.recipe import Order, Size
from tepui.studies import EvaluationSpec, Results, Samples, Trial, seeds
from tepui.training import SGD, MultiStep, Schedule, TrainingSpec
from tepui.training.optimizer import Optimizer

DATASETS = ("cifar10", "cifar100", "tiny_imagenet")


class Protocol(NamedTuple):
    """How ensembles are trained and tested on one data set."""

    dataset: Callable[..., Any]  # what is trained on
    model: partial[Any]  # returns a member; a class with its arguments
    train: int | None = None  # training samples; None takes all
    test: int | None = None  # test samples; None takes all
    types: tuple[str, ...] = STANDARD  # corruptions of the test samples
    epochs: int = 200  # length of a run
    ensembles: int = 3
    members: int = 3
    batch_size: int = 128  # samples per step and member
    optimizer: Optimizer = SGD(lr=0.1, momentum=0.9, weight_decay=5e-4)
    schedule: Schedule = MultiStep()  # of the learning rate
    rho: float = 0.2  # radius of the sharpness-aware methods
    fraction: float = 0.4  # share of sharp samples that SharpBalance trains others on
    switch: float = 0.5  # when SharpBalance begins, as a share of the run
    augment: tuple[Augmentation, ...] = ()  # random changes of the training images
    strength: str = "cifar"  # whose parameters corruptions take

    def methods(self) -> dict[str, Method]:
        """Return the paper's three methods by their names in its numbers."""
        return {
            "deep_ensemble": DeepEnsemble(),
            "sam": SAM(rho=self.rho),
            "sharpbalance": self.balanced(),
        }

    def balanced(self, **changes: Any) -> SharpBalance:
        """Return SharpBalance with the protocol's values, or others."""
        values = {"rho": self.rho, "fraction": self.fraction, "switch_at": self.switch}
        return SharpBalance.paper(**{**values, **changes})

    def released(self, dataset: str) -> dict[str, Method]:
        """Return the released rule's sets, in batches that a graph can replay."""
        method = SharpBalance.released(
            dataset, rho=self.rho, stratified=True, off_by_one=False
        )
        return {"sharpbalance_released": method}

    def trials(
        self,
        method: Method,
        *,
        members: int | None = None,
        model: Callable[..., Any] | None = None,
        **changes: Any,
    ) -> list[Trial]:
        """Return an ensemble per repetition; repetitions share seeds across methods."""
        training = TrainingSpec(
            method=method,
            epochs=self.epochs,
            batch_size=self.batch_size,
            optimizer=self.optimizer,
            schedule=self.schedule,
            augment=self.augment,
            **changes,
        )
        samples, size = Samples(self.dataset, count=self.train), members or self.members
        return [
            Trial(samples, model or self.model, training, seeds(repetition, size))
            for repetition in range(self.ensembles)
        ]

    def evaluation_spec(self) -> EvaluationSpec:
        """Return the clean and corrupted test of the data set."""
        test = Samples(self.dataset, part="test", count=self.test)
        return EvaluationSpec(test, types=self.types, strength=self.strength)


Protocols = Mapping[Size, Mapping[str, Protocol]]
_CIFAR10 = Protocol(
    CIFAR10,
    partial(ResNet18, num_classes=10, width=64),
    augment=(RandomCrop(padding=4), HorizontalFlip()),
)
_DIGITS = Protocol(Digits, partial(ConvNet, width=8), epochs=30, batch_size=64)
_PART = _DIGITS._replace(train=1500, test=300, epochs=8)
_SMOKE = _DIGITS._replace(
    model=partial(ConvNet, width=2),
    train=160,
    test=60,
    types=("gaussian_noise", "contrast"),
    epochs=2,
    ensembles=2,
    members=2,
)
PROTOCOLS: Protocols = {
    "paper": {
        "cifar10": _CIFAR10,
        "cifar100": _CIFAR10._replace(
            dataset=CIFAR100,
            model=partial(ResNet18, num_classes=100, width=64),
            fraction=0.5,
        ),
        "tiny_imagenet": _CIFAR10._replace(
            dataset=TinyImageNet,
            model=partial(ResNet18, num_classes=200, width=64),
            fraction=0.3,
            strength="tiny_imagenet",
        ),
    },
    "small": {
        "cifar10": _DIGITS,
        "cifar100": _PART._replace(
            dataset=FashionMNIST, model=partial(ConvNet, stride=2, width=8)
        ),
        "tiny_imagenet": _PART._replace(
            dataset=CIFAR10, model=partial(ConvNet, in_channels=3, stride=2, width=8)
        ),
    },
    "smoke": {
        "cifar10": _SMOKE,
        "cifar100": _SMOKE._replace(train=120),
        "tiny_imagenet": _SMOKE._replace(train=100),
    },
}
LENGTHS = ("epochs", "ensembles", "members")  # what an order can override


def compared(order: Order, protocol: Protocol, dataset: str) -> dict[str, Method]:
    """Return the methods that an order compares: the paper's three, or those it names.

    The released rule's SharpBalance is trained only where it is named.
    """
    return order.choose(protocol.methods(), protocol.released(dataset))


def protocol_of(
    order: Order, dataset: str, protocols: Protocols = PROTOCOLS
) -> Protocol:
    """Return how an order trains on a data set."""
    return protocols[order.size][dataset]._replace(**order.lengths)


def few_ensembles(order: Order) -> int:
    """Return how many ensembles studies of many methods train."""
    return order.ensembles or (3 if order.size == "paper" else 2)


def settings(
    order: Order,
    datasets: Sequence[str],
    *notes: str,
    protocols: Protocols = PROTOCOLS,
    architecture: str = "resnet18",
    **further: Any,
) -> dict[str, Any]:
    """Return how a study is made, with all that differs from the paper in words."""
    document: dict[str, Any] = {}
    differs = []
    for name in datasets:
        used, paper = protocol_of(order, name, protocols), protocols["paper"][name]
        document[name] = {
            "trained on": used.dataset.__name__,
            "training samples": used.train or "all",
            "test samples": used.test or "all",
            "model": _called(used.model),
            "members": used.members,
            "ensembles": used.ensembles,
            "epochs": used.epochs,
            "batch size": used.batch_size,
            "learning rate": used.optimizer.lr,  # type: ignore[attr-defined]
            "rho": used.rho,
            "fraction": used.fraction,
            "switch": used.switch,
            "corruptions": list(used.types),
        }
        differs.append(
            f"{used.dataset.__name__} and {made_by(used.model)} of width "
            f"{used.model.keywords['width']}, {used.epochs} epochs, for {name} and "
            f"{architecture} of width {paper.model.keywords['width']}, "
            f"{paper.epochs} epochs"
        )
    if order.size == "paper":
        differs = [
            "seeds are 0, 1, 2, 1000, ... instead of 13, 17, 27, ...; corrupted copies "
            "are made by tepui; SharpBalance begins after half of the run, as in Table "
            "1, although Appendix D.3 says epoch 10 for CIFAR-10"
        ]
    return {**document, "differs": "; ".join([*differs, *notes]), **further}


def few_settings(
    order: Order, datasets: Sequence[str], note: str, **further: Any
) -> dict[str, Any]:
    """Return how a study of many methods is made."""
    count = few_ensembles(order)
    notes = [note] if order.size == "paper" else [note, f"{count} ensembles for 3"]
    further["ensembles of each method"] = count
    return settings(order, datasets, *notes, **further)


def title_of(results: Results, dataset: str, *, corrupted: bool = False) -> str:
    """Return what a panel says of its data, with what stands in for them."""
    name = f"{dataset}_c" if corrupted else dataset
    if results.size.startswith("paper"):
        return name
    return f"{name}\nstand-in: {results.settings[dataset]['trained on']}"


def made_by(model: Callable[..., Any]) -> str:
    """Return the name of what a ``functools.partial`` calls."""
    inner = model.func if isinstance(model, partial) else model
    return str(inner.__name__)


def _called(model: Callable[..., Any]) -> str:
    given = model.keywords if isinstance(model, partial) else {}
    words = (f"{name}={value}" for name, value in given.items())
    return f"{made_by(model)}({', '.join(words)})"
