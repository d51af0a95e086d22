"""A shortcut that is perfect in training and broken in the test.

Measured at small size (n = 5; aarch64, torch 2.13.0+cpu): accuracy on painted_digits:
deep_ensemble 0.5 ± 0, a2d 0.9228 ± 0.0051, a2d_parallel 0.7394 ± 0.036, divdis 0.875 ±
0.0086.

Digits of scikit-learn, 0 to 4 against 5 to 9, are painted in one of two colors. On
labeled images the color equals the class, so that two hypotheses fit: color, which
is easy, and shape. The unlabeled images are others, each in a random color; the test
shows every image in both, so that a member which follows the color is right on exactly
half of them. Two members per ensemble, a perceptron with one hidden layer.

References:
    Pagliardini et al. (2023), Agree to Disagree: Diversity through Disagreement for
    Better Transferability, ICLR.
    Lee, Yao and Finn (2023), Diversify and Disambiguate: Learning from Underspecified
    Data, ICLR.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, final, get_args

import torch
from torch import Tensor

from tepui.core.checks import one_of
from tepui.core.seeding import generator, member_seeds
from tepui.data import Arrays, Digits, split
from tepui.evaluation.stored_logits import StoredLogits
from tepui.methods import A2D, DeepEnsemble, DivDis, Method
from tepui.metrics import accuracy, disagreement, individual_accuracy
from tepui.models import MLP
from tepui.papers.recipe import Numbers, Order, Recipe, Size
from tepui.report.scatter import Cloud, Scatter, scatter_panels
from tepui.studies import (
    DataSource,
    Departure,
    EvaluationSpec,
    Job,
    Record,
    Results,
    Store,
    Trial,
    averaged,
)
from tepui.studies.specifications import DataStore
from tepui.training import AdamW, MultiStep, TrainingSpec
from tepui.training.numerics import Precision

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Color = Literal["label", "random", "both"]
PaintedPart = Literal["labeled", "unlabeled", "test"]
MEMBERS = 2
PRECISION: Precision = "float32"  # of training


class Length(NamedTuple):
    """How long the study takes."""

    first: int  # the first of the consecutive seeds, one per ensemble
    ensembles: int
    epochs: int  # passes over the labeled images that each member sees


class Variant(NamedTuple):
    """One row of the study."""

    method: Method  # how the members are trained
    # into how many equal parts the members divide a run, one after the other; the run
    # is as many times longer
    shares: int = 1


# Seeds below 100 were used to choose A2D's weight.
LENGTHS: Mapping[Size, Length] = {
    "paper": Length(100, 5, 60),
    "small": Length(100, 5, 60),
    "smoke": Length(0, 2, 2),
}
VARIANTS = {
    "deep_ensemble": Variant(DeepEnsemble()),
    "a2d": Variant(A2D(weight=0.5, parallel=False), shares=MEMBERS),
    "a2d_parallel": Variant(A2D(weight=0.5)),
    "divdis": Variant(DivDis(weight=10.0, regularizer=10.0)),
}


@final
class PaintedDigits(Arrays):
    """Digits below 5 (class 0) and others (class 1), painted in two colors.

    Example:
        >>> test = PaintedDigits(Digits(train=False), "both")
        >>> tuple(test.inputs.shape), colors_of(test.inputs).float().mean()
        ((720, 2, 8, 8), tensor(0.5000))
    """

    def __init__(self, digits: Arrays, color: Color, seed: int = 0) -> None:
        one_of("color", color, get_args(Color))
        assert isinstance(digits.inputs, Tensor)
        images, classes = digits.inputs, (digits.targets >= 5).long()
        colors = classes
        if color == "random":
            # A key: another spelling would draw other colors.
            stream = generator(seed, "shortcut", "colours")
            colors = torch.randint(2, classes.shape, generator=stream)
        elif color == "both":
            images, classes = torch.cat([images, images]), classes.repeat(2)
            colors = torch.arange(2).repeat_interleave(len(colors))
        names = ("0 to 4", "5 to 9")
        super().__init__(painted(images, colors), classes, classes=names)


def painted(images: Tensor, colors: Tensor) -> Tensor:
    """Put each image into the channel of its color.

    Example:
        >>> painted(torch.ones(2, 1, 1, 1), torch.tensor([0, 1])).flatten(1)
        tensor([[1., 0.],
                [0., 1.]])
    """
    return images * torch.eye(2)[colors][:, :, None, None]


def colors_of(images: Any) -> Tensor:
    """Return the color of each image, read from the image."""
    colors: Tensor = images.sum((2, 3)).argmax(1)
    return colors


@final
@dataclass(frozen=True)
class Painted(DataSource):
    """Labeled, unlabeled or test images; no digit is in two of them."""

    part: PaintedPart  # color as the class, at random, or each image in both colors
    seed: int  # what the split and the random colors derive from

    def load(self, store: DataStore) -> Arrays:
        """Return the images."""
        if self.part == "test":
            return PaintedDigits(Digits(train=False), "both")
        labeled, others = split(Digits(), 0.5, seed=self.seed)
        if self.part == "labeled":
            return PaintedDigits(labeled, "label")
        return PaintedDigits(others, "random", self.seed)


def numbers(order: Order) -> Iterator[Numbers]:
    """Return what members and ensembles do where the shortcut is broken, by method."""
    length = LENGTHS[order.size]._replace(**order.lengths)
    for name, variant in order.choose(VARIANTS).items():
        yield of_variant(name, variant, length)


def of_variant(name: str, variant: Variant, length: Length) -> Numbers:
    """Return what one method's members and ensembles do."""
    seeds = range(length.first, length.first + length.ensembles)
    unlabeled = variant.method.needs_unlabeled
    runs = [
        Trial(
            data=Painted("labeled", seed),
            model=partial(MLP, in_features=128, hidden=(64,), num_classes=2),
            training=TrainingSpec(
                method=variant.method,
                epochs=length.epochs * variant.shares,
                batch_size=128,
                optimizer=AdamW(lr=3e-3),
                schedule=MultiStep(),
                precision=PRECISION,
            ),
            seeds=member_seeds(seed, MEMBERS),
            unlabeled=Painted("unlabeled", seed) if unlabeled else None,
        )
        for seed in seeds
    ]
    labeled = [Painted("labeled", seed) for seed in seeds]
    tests = [
        EvaluationSpec(Painted("test", 0), ood=(("labeled", source),), logits_read=True)
        for source in labeled
    ]
    pairs = [*zip(runs, tests, strict=True)]

    def records(store: Store) -> Iterator[Record]:
        images = store.dataset(Painted("test", 0)).inputs  # type: ignore[attr-defined]
        rows = [
            scores(
                store.logits(trial, test),
                colors_of(images),
                store.dataset(trial.data).targets,  # type: ignore[attr-defined]
            )
            for trial, test in pairs
        ]
        for metric, member in rows[0]:
            yield averaged(
                [row[metric, member] for row in rows],
                runs,
                item="ours/shortcut",
                dataset="painted_digits",
                architecture="mlp",
                method=name,
                metric=metric,
                unit="fraction",
                at={"member": member} if member else {},
            )

    return Numbers([Job(trial, (test,)) for trial, test in pairs], records)


def scores(
    stored: StoredLogits, colors: Tensor, labels: Tensor
) -> dict[tuple[str, str], float]:
    """Return shares of test images by metric and member; the best is an oracle's."""
    logits, classes = stored.clean
    intact = colors == classes
    correct = individual_accuracy(logits, classes)
    follow = individual_accuracy(logits, colors)
    order = correct.argsort()
    upper = (logits[:, ~intact].argmax(-1) == 1).double().mean(1)
    unbroken = individual_accuracy(logits[:, intact], classes[intact])
    trained = individual_accuracy(stored.ood["labeled"], labels)
    return {
        ("accuracy", "best"): float(correct.max()),
        ("accuracy", "worst"): float(correct.min()),
        ("ensemble_accuracy", ""): float(accuracy(logits, classes)),
        ("disagreement", ""): float(disagreement(logits)),
        # How differently members lean where color and class conflict.
        ("one_sidedness", ""): float(upper.max() - upper.min()),
        ("accuracy_shortcut_intact", "best"): float(unbroken.max()),
        ("accuracy_labeled_images", "worst"): float(trained.min()),
        ("predicts_color", "best"): float(follow[order[-1]]),
        ("predicts_color", "worst"): float(follow[order[0]]),
    }


def draw(results: Results) -> "Figure":
    """Return each member by how often it predicts the color and how often the class."""

    def values(metric: str, method: str) -> list[float | None]:
        return [
            value
            for member in ("worst", "best")
            for value in results.one(method=method, metric=metric, member=member).values
        ]

    methods = dict.fromkeys(record.method for record in results.records)
    clouds = tuple(
        Cloud(name, values("predicts_color", name), values("accuracy", name))
        for name in methods
    )
    axes = ("predicts the color", "predicts the class")
    return scatter_panels([Scatter("members, shares of test images", *axes, clouds)])


def settings(order: Order) -> dict[str, Any]:
    """Return how the study is made."""
    length = LENGTHS[order.size]._replace(**order.lengths)
    return {
        "data": "scikit-learn's digits, painted",
        "model": "MLP(hidden=(64,))",
        "members": MEMBERS,
        "seeds": [*range(length.first, length.first + length.ensembles)],
        "precision": PRECISION,
        "epochs of each member": length.epochs,
        "optimizer": "AdamW, learning rate 0.003",
        "differs": [Departure("a study of our own", "no paper prints its numbers")],
    }


RECIPE = Recipe(
    title="A2D and DivDis where a shortcut is broken",
    numbers=numbers,
    settings=settings,
    draw=draw,
    overrides=("epochs", "ensembles", "methods"),
)
