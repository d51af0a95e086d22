"""How the paper's ensembles are trained, at four sizes; shared by its recipes.

``paper`` size is as published, but for what results declare: the paper's text, its
Appendix D and the code that was released beside it do not agree in everything, and
where they differ, the code made the printed numbers. ``medium``, for one hour of a GPU,
is how decisions 001 to 004 of the documents train: CIFAR-10 and CIFAR-100 themselves,
with a ResNet-18 of half the width, a fifth of the epochs, and the radius that was
chosen there on held-out data. At ``small`` size, for two processors, each data set has
a stand-in: scikit-learn's digits for CIFAR-10, a part of Fashion-MNIST for CIFAR-100
and a part of CIFAR-10 for TinyImageNet, with a small convolutional network for its
ResNet-18 and the radius of decision 006. ``smoke`` is for tests of the code.

Differs from the paper:

- members are joined by their mean probabilities, in the paper by their logits (the
  released code averages probabilities in every test)
- every batch of SharpBalance holds the same numbers of sharp and of normal samples, in
  the released code as they come (steps of one shape can be replayed on a GPU; the
  expected gradient is the same)
- SharpBalance's sets begin with the epoch of the switch, by either rule, in the
  released code with the epoch after it (the paper does not say which; with one epoch
  for both, the rules differ only by their sets)
- on CIFAR-10 SharpBalance begins after half of the run, as in Table 1 of the paper,
  where its Appendix D.3 says epoch 10 (the table is of figure 7)
- seeds are 0, 1, 2, 1000, ... for 13, 17, 27, 113, ... (equal numbers would not give
  equal networks, whose random numbers come from elsewhere)
- at paper and medium size trained in bfloat16 with float32 weights and tested in TF32,
  in the released code both in float32 (a step on an H200 takes a sixth of the time)
- at paper and medium size the tenth of CIFAR's training images that is held out is
  drawn by tepui, in the released code it is a list (both train on the other tenths)
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from tepui.data import (
    CIFAR10,
    CIFAR10C,
    CIFAR100,
    CIFAR100C,
    STANDARD,
    Augmentation,
    Digits,
    FashionMNIST,
    HorizontalFlip,
    RandomCrop,
    TinyImageNet,
    TinyImageNetC,
)
from tepui.methods import GSAM, SAM, DeepEnsemble, Method, SharpBalance
from tepui.models import ConvNet, ResNet18
from tepui.papers.recipe import (
    DIFFERS,
    Diagram,
    Order,
    Size,
    described,
    differing,
    installed,
    made_copies,
)
from tepui.studies import (
    EvaluationSpec,
    Record,
    Results,
    Samples,
    Trial,
    averaged,
    seeds,
)
from tepui.training import SGD, MultiStep, Schedule, TrainingSpec
from tepui.training.numerics import Precision
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
    held_out: float = 0.0  # share of the training samples that is not trained on
    precision: Precision = "float32"  # of training
    statistics: bool = False  # whether perturbed passes update BatchNorm's, too
    # the class of the corrupted copies that were released; None where there are none
    released_copies: Callable[..., Any] | None = None

    def methods(self) -> dict[str, Method]:
        """Return the paper's three methods by their names in its numbers."""
        return {
            "deep_ensemble": DeepEnsemble(),
            "sam": self.sam(self.rho),
            "sharpbalance": self.balanced(),
        }

    def sam(self, rho: float | tuple[float, ...]) -> SAM:
        """Return SAM of some radius, or one for each member."""
        return SAM(rho=rho, update_statistics=self.statistics)

    def gsam(self) -> GSAM:
        """Return GSAM of the protocol's radius."""
        return GSAM(rho=self.rho, update_statistics=self.statistics)

    def balanced(self, **changes: Any) -> SharpBalance:
        """Return SharpBalance with the protocol's values, or others."""
        values = {
            "rho": self.rho,
            "fraction": self.fraction,
            "switch_at": self.switch,
            "base": self._base,
        }
        return SharpBalance.paper(**{**values, **changes})

    def released(self, dataset: str) -> dict[str, Method]:
        """Return the released rule's sets, in batches that a graph can replay."""
        method = SharpBalance.released(
            dataset,
            rho=self.rho,
            base=self._base,
            stratified=True,
            off_by_one=False,
        )
        return {"sharpbalance_released": method}

    @property
    def _base(self) -> SAM:
        """What SharpBalance does with its sharp samples; the radius is its own."""
        return SAM(update_statistics=self.statistics)

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
            precision=self.precision,
            **changes,
        )
        samples = Samples(self.dataset, held_out=self.held_out, count=self.train)
        size = members or self.members
        return [
            Trial(samples, model or self.model, training, seeds(repetition, size))
            for repetition in range(self.ensembles)
        ]

    def evaluation_spec(self) -> EvaluationSpec:
        """Return the clean and corrupted test of the data set."""
        test = Samples(self.dataset, part="test", count=self.test)
        copies = installed(self.released_copies)
        return EvaluationSpec(
            test, types=self.types, strength=self.strength, released=copies
        )


Protocols = Mapping[Size, Mapping[str, Protocol]]
_CIFAR10 = Protocol(
    CIFAR10,
    partial(ResNet18, num_classes=10, width=64),
    augment=(RandomCrop(padding=4), HorizontalFlip()),
    held_out=0.1,
    precision="bfloat16",
    statistics=True,
    released_copies=CIFAR10C,
)
_CIFAR100 = _CIFAR10._replace(
    dataset=CIFAR100,
    model=partial(ResNet18, num_classes=100, width=64),
    fraction=0.5,
    released_copies=CIFAR100C,
)
_MEDIUM: Mapping[str, Any] = {
    "epochs": 40,
    "ensembles": 5,
    "rho": 0.05,
    "statistics": False,
}
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
        "cifar100": _CIFAR100,
        "tiny_imagenet": _CIFAR10._replace(
            dataset=TinyImageNet,
            model=partial(
                ResNet18,
                num_classes=200,
                width=64,
                stem="64px",
                scaled_shortcut=True,
            ),
            fraction=0.3,
            strength="tiny_imagenet",
            held_out=0.0,
            released_copies=TinyImageNetC,
        ),
    },
    "medium": {
        "cifar10": _CIFAR10._replace(
            model=partial(ResNet18, num_classes=10, width=32), **_MEDIUM
        ),
        "cifar100": _CIFAR100._replace(
            model=partial(ResNet18, num_classes=100, width=32), **_MEDIUM
        ),
    },
    "small": {
        "cifar10": _DIGITS._replace(rho=0.01),
        "cifar100": _PART._replace(
            dataset=FashionMNIST,
            model=partial(ConvNet, stride=2, width=8),
            rho=0.01,
        ),
        "tiny_imagenet": _PART._replace(
            dataset=CIFAR10,
            model=partial(ConvNet, in_channels=3, stride=2, width=8),
            rho=0.01,
        ),
    },
    "smoke": {
        "cifar10": _SMOKE,
        "cifar100": _SMOKE._replace(train=120),
        "tiny_imagenet": _SMOKE._replace(train=100),
    },
}
# Studies of many methods train two ensembles of each at the smaller sizes.
FEW: Protocols = {
    size: {
        name: protocol._replace(ensembles={"paper": 3, "medium": 5}.get(size, 2))
        for name, protocol in protocols.items()
    }
    for size, protocols in PROTOCOLS.items()
}
LENGTHS = ("epochs", "ensembles", "members")  # what an order can override
SIZES: tuple[Size, ...] = ("paper", "medium", "small", "smoke")
REAL = ("paper", "medium")  # sizes that train on the paper's own data


def compared(order: Order, protocol: Protocol, dataset: str) -> dict[str, Method]:
    """Return the methods that an order compares: all four, or those it names.

    They are the paper's three and SharpBalance by the released rule.
    """
    return order.choose({**protocol.methods(), **protocol.released(dataset)})


def protocol_of(
    order: Order, dataset: str, protocols: Protocols = PROTOCOLS
) -> Protocol:
    """Return how an order trains on a data set."""
    return protocols[order.size][dataset]._replace(**order.lengths)


def title_of(results: Results, dataset: str, *, corrupted: bool = False) -> str:
    """Return what a panel says of its data, with what stands in for them."""
    name = f"{dataset}_c" if corrupted else dataset
    if results.size.startswith(REAL):
        return name
    return f"{name}\nstand-in: {results.settings[dataset]['trained on']}"


def settings(
    order: Order,
    datasets: Sequence[str],
    *notes: str,
    protocols: Protocols = PROTOCOLS,
    **further: Any,
) -> dict[str, Any]:
    """Return how a study is made, with what differs from the paper at every size."""
    used = {name: protocol_of(order, name, protocols) for name in datasets}
    made = [
        made_copies(protocol.released_copies, f"of {name} ")
        for name, protocol in used.items()
        if protocol.types and installed(protocol.released_copies) is None
    ]
    return {
        **{name: described(protocol) for name, protocol in used.items()},
        **further,
        DIFFERS: [*differing(__doc__), *made, *notes],
    }


Scored = Mapping[str, Any]
# Metric: field of the scores, unit, and what the field is multiplied by.
METRICS = {
    "individual_accuracy": ("individual_accuracy", "percent", 100),
    "ensemble_accuracy": ("accuracy", "percent", 100),
    "ensemble_improvement": ("improvement", "percentage points", 100),
    "eir": ("eir", "fraction", 1),
    "der": ("der", "ratio", 1),
    "kl": ("mean_kl", "none", 1),
    "variance": ("logit_variance", "none", 1),
    "ece": ("ece", "fraction", 1),
    "nll": ("nll", "none", 1),
}


def metric_values(scores: Iterable[Scored], metric: str) -> list[float | None]:
    """Return one metric of several ensembles.

    Example:
        >>> metric_values([{"accuracy": 0.5}, {"accuracy": None}], "ensemble_accuracy")
        [50.0, None]
    """
    field, _, factor = METRICS[metric]
    values = [ensemble[field] for ensemble in scores]
    return [None if value is None else factor * value for value in values]


def score_records(
    scores: Sequence[Scored],
    metrics: Iterable[str],
    trials: Sequence[Trial],
    members: Sequence[float] = (),
    **names: Any,
) -> Iterator[Record]:
    """Return a record per metric, averaged over ensembles, with members' accuracy."""
    for metric in metrics:
        values, unit = metric_values(scores, metric), METRICS[metric][1]
        of_members = tuple(members) if metric == "individual_accuracy" else ()
        more = {"unit": unit, "members": of_members, **names}
        yield averaged(values, trials, metric=metric, **more)


RECIPES = {
    "figure6": Diagram(
        "how SharpBalance divides the training set; see docs/sharpbalance.md"
    )
}
