"""How the paper's ensembles are trained and tested, at three sizes.

All members are heads on one frozen extractor. At ``paper`` size everything is the
paper's: the last layers of DeiT-3 Base on ImageNet. At ``small`` size, for two
processors, a convolutional network learns from some images of Fashion-MNIST and is
frozen, and heads with one hidden layer learn from its features of others. Each of the
paper's test sets has a stand-in:

- ``imagenet_val``: test images of Fashion-MNIST;
- ``imagenet_a``: those that the extractor of another repetition gets wrong, as
  ImageNet-A was chosen;
- ``imagenet_r``: their stencils, white where an image is lighter than its mean;
- ``imagenet_c1`` and ``imagenet_c5``: their copies under the standard corruptions;
- ``inaturalist``: scikit-learn's digits, enlarged;
- ``openimages_o``: the test images with light and dark exchanged.

As in the released code, all heads of an ensemble start from the same weights (up to one
per cent of noise, which lets coupled members part): the mean of their weights means
something only then. Each repetition has an extractor, images and a start of its own,
which all methods share. ``smoke`` is for tests of the code.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, final

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from tepui.data import (
    STANDARD,
    Digits,
    FashionMNIST,
    ImageNet,
    ImageNetA,
    ImageNetC,
    ImageNetR,
    UnlabeledFolder,
    restricted,
)
from tepui.data.sources import data_folder
from tepui.engine import AdamW, Constant
from tepui.experiments.derived import (
    Changed,
    Copies,
    Features,
    Misjudged,
    ReleasedCopies,
)
from tepui.experiments.store import Store
from tepui.experiments.trials import Exam, Samples, Source, Trial, seeds
from tepui.experiments.work import Work
from tepui.hyperparameters import hyperparameter_grid
from tepui.losses import CrossEntropy
from tepui.methods import A2D, SED, DeepEnsemble, DivDis, Method
from tepui.metrics import auroc, ood_scores
from tepui.models import MLP, ConvNet, split_last_layers, timm
from tepui.recipes.base import Size
from tepui.seeding import seeded

ARCHITECTURE = "deit3_base_last2"
LAMBDA = 0.1
DETECTED = ("imagenet_c1", "imagenet_c5", "inaturalist", "openimages_o")
LABELLED = ("imagenet_val", "imagenet_a", "imagenet_r", "imagenet_c1", "imagenet_c5")
GRID = {
    "lr": (3e-4, 1e-3, 3e-3),
    "weight_decay": (1e-4, 1e-2, 1e-1),
    "label_smoothing": (0.0, 0.1),
}
METHODS: Mapping[str, Method] = {
    "deep_ensemble": DeepEnsemble(),
    "deep_ensemble_varied": DeepEnsemble(),
    "divdis": DivDis(),
    "a2d": A2D(weight=LAMBDA),
    "sed_a2d": SED(weight=LAMBDA),
}
# Members of these know nothing of each other: a small ensemble is part of a large one.
INDEPENDENT = ("deep_ensemble", "deep_ensemble_varied")
LARGE = (*INDEPENDENT, "sed_a2d")
# How far heads of one ensemble start from each other.
SPREAD = 0.01


class Scale(NamedTuple):
    """How large the study is.

    Attributes:
        repetitions: Extractors, each with images and heads of its own.
        members: Of an ordinary ensemble.
        large: Of a large one.
        sizes: Ensemble sizes whose detection is compared.
        lambdas: Weights of SED's disagreement that are compared.
        epochs: Passes of a head over its data.
        longer: Train SED longer by members over active members, so that each of its
            heads has as many updates as in other methods.
        batch_size: Samples per step.
        images: Source of the images of each set, by the paper's name, for one
            repetition; ``"train"`` is what heads learn from.
        extractor: What makes features, for one repetition.
        layers: How many of its last layers are cut off.
        head: Returns a new head; takes the repetition as ``start``.
        partial: Sets that hold only some of the classes.
    """

    repetitions: int
    members: int
    large: int
    sizes: tuple[int, ...]
    lambdas: tuple[float, ...]
    epochs: int
    longer: bool
    batch_size: int
    images: Callable[[int], Mapping[str, Source]]
    extractor: Callable[[int], Trial | Callable[[], nn.Module]]
    layers: int
    head: Callable[..., nn.Module]
    partial: tuple[str, ...] = ()


@final
@dataclass(frozen=True)
class Folder(Source):
    """Unlabelled images in a folder below the data folder.

    Attributes:
        name: The folder's.
    """

    name: str

    def load(self, store: Store) -> Dataset[Any]:
        """Return the images at ImageNet's size."""
        return UnlabeledFolder(data_folder() / self.name, size=224)


def stencils(images: Tensor) -> Tensor:
    """Return white where an image is lighter than its mean, black elsewhere.

    Args:
        images: Floats ``(samples, channels, height, width)``.

    Returns:
        Zeros and ones of the same shape.

    Example:
        >>> stencils(torch.tensor([[[[0.0, 0.2, 1.0]]]]))
        tensor([[[[0., 0., 1.]]]])
    """
    return (images > images.mean((1, 2, 3), keepdim=True)).to(images.dtype)


def inverted(images: Tensor) -> Tensor:
    """Return images in [0, 1] with light and dark exchanged."""
    return 1 - images


def halves_exchanged(images: Tensor) -> Tensor:
    """Return images whose left and right halves have changed places."""
    return images.roll(images.shape[-1] // 2, -1)


def near_start(start: int, in_features: int, hidden: int) -> MLP:
    """Return a head near the one that all heads with this start share.

    Args:
        start: Which of the shared heads.
        in_features: Numbers in one sample.
        hidden: Width of the hidden layer.

    Returns:
        The shared head, with noise drawn from torch's global generator.
    """
    make = partial(MLP, in_features=in_features, hidden=(hidden,))
    head = make()
    with seeded(start, "shared head"):
        shared = make()
    with torch.no_grad():
        for own, first in zip(head.parameters(), shared.parameters(), strict=True):
            own.mul_(SPREAD).add_(first)
    return head


def deit3() -> nn.Module:
    """Return DeiT-3 Base, trained on ImageNet-21k, with its published weights."""
    return timm("deit3_base_patch16_224.fb_in22k_ft_in1k", pretrained=True)


def deit3_tail(start: int, layers: int) -> nn.Module:
    """Return a copy of the last layers of DeiT-3; the start is the published one."""
    return split_last_layers(deit3(), layers).tail()


def _stand_ins(
    dataset: Callable[..., Any],
    count: int,
    tested: int,
    width: int,
    epochs: int,
    types: tuple[str, ...],
    other: Source | None,
    repetitions: int,
) -> dict[str, Any]:
    """Return the fields of a scale for which a small network is the extractor."""

    def extractor(repetition: int) -> Trial:
        drawn = {"count": count, "held_out": 0.5, "seed": repetition}
        return Trial(
            Samples(dataset, **drawn),
            partial(ConvNet, width=width),
            DeepEnsemble(),
            seeds(repetition, 1),
            epochs,
        )

    def images(repetition: int) -> dict[str, Source]:
        test = Samples(dataset, "test", count=tested, seed=repetition)
        judge = extractor((repetition + 1) % repetitions)
        return {
            "train": Samples(dataset, "held_out", 0.5, count, repetition),
            "imagenet_val": test,
            "imagenet_a": Misjudged(test, judge),
            "imagenet_r": Changed(test, stencils),
            "imagenet_c1": Copies(test, types, 1, seed=repetition),
            "imagenet_c5": Copies(test, types, 5, seed=repetition),
            "inaturalist": other or Changed(test, halves_exchanged),
            "openimages_o": Changed(test, inverted),
        }

    return {
        "repetitions": repetitions,
        "images": images,
        "extractor": extractor,
        "layers": 1,
        "head": partial(near_start, in_features=16 * width, hidden=64),
    }


def _paper_images(repetition: int) -> dict[str, Source]:
    return {
        "train": Samples(ImageNet),
        "imagenet_val": Samples(ImageNet, "test"),
        "imagenet_a": Samples(ImageNetA, "test"),
        "imagenet_r": Samples(ImageNetR, "test"),
        "imagenet_c1": ReleasedCopies(ImageNetC, STANDARD, 1),
        "imagenet_c5": ReleasedCopies(ImageNetC, STANDARD, 5),
        "inaturalist": Folder("inaturalist"),
        "openimages_o": Folder("openimages-o"),
    }


LAMBDAS = (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)
SCALES: Mapping[Size, Scale] = {
    "paper": Scale(
        repetitions=1,
        members=5,
        large=50,
        sizes=(2, 5, 10, 20, 50),
        lambdas=LAMBDAS,
        epochs=10,
        longer=False,
        batch_size=16,
        images=_paper_images,
        extractor=lambda repetition: deit3,
        layers=3,
        head=partial(deit3_tail, layers=3),
        partial=("imagenet_a", "imagenet_r"),
    ),
    "small": Scale(
        members=5,
        large=20,
        sizes=(2, 5, 10, 20),
        lambdas=LAMBDAS,
        epochs=10,
        longer=True,
        batch_size=128,
        **_stand_ins(FashionMNIST, 8000, 1000, 8, 5, STANDARD, Samples(Digits), 3),
    ),
    "smoke": Scale(
        members=3,
        large=4,
        sizes=(2, 3, 4),
        lambdas=(0.1, 10.0),
        epochs=8,
        longer=True,
        batch_size=64,
        **_stand_ins(Digits, 1000, 100, 4, 6, ("gaussian_noise",), None, 2),
    ),
}


def trial(
    scale: Scale,
    name: str,
    repetition: int,
    members: int | None = None,
    *,
    method: Method | None = None,
    epochs: int | None = None,
) -> Trial:
    """Return one ensemble of heads.

    Args:
        scale: How large the study is.
        name: Of the method.
        repetition: Which one.
        members: Other than the scale's; an ensemble of independent members is always
            the large one, of which a smaller one is part.
        method: Other than that of this name, such as SED with another weight.
        epochs: Other than the scale's.

    Returns:
        The trial.
    """
    used = method or METHODS[name]
    size = scale.large if name in INDEPENDENT else members or scale.members
    optimizer, loss = AdamW(), CrossEntropy()
    if name == "deep_ensemble_varied":
        dealt = hyperparameter_grid(size, seed=repetition, **GRID)
        optimizer = AdamW(lr=dealt["lr"], weight_decay=dealt["weight_decay"])
        loss = CrossEntropy(dealt["label_smoothing"])
    length = epochs or scale.epochs
    if scale.longer and epochs is None and isinstance(used, SED):
        length = round(length * size / used.active)
    unlabeled = features(scale, repetition, "imagenet_r")
    return Trial(
        features(scale, repetition, "train"),
        partial(scale.head, start=repetition),
        used,
        seeds(repetition, size),
        length,
        scale.batch_size,
        optimizer,
        Constant(),
        loss=loss,
        unlabeled=unlabeled if used.needs_unlabeled else None,
    )


def trials(
    scale: Scale, name: str, members: int | None = None, **changes: Any
) -> list[Trial]:
    """Return an ensemble per repetition; see :func:`trial`."""
    return [
        trial(scale, name, each, members, **changes)
        for each in range(scale.repetitions)
    ]


def features(scale: Scale, repetition: int, name: str) -> Features:
    """Return the features of one of the sets in one repetition."""
    images = scale.images(repetition)[name]
    return Features(scale.extractor(repetition), images, scale.layers)


def exam(scale: Scale, repetition: int) -> Exam:
    """Return the test of all heads of a repetition: every set but the training data."""
    others = tuple(
        (name, features(scale, repetition, name))
        for name in scale.images(repetition)
        if name not in ("train", "imagenet_val")
    )
    return Exam(features(scale, repetition, "imagenet_val"), ood=others)


def extractors(scale: Scale) -> list[Work]:
    """Return what must be trained before any head."""
    found = [scale.extractor(each) for each in range(scale.repetitions)]
    return [Work(each) for each in found if isinstance(each, Trial)]


def examined(scale: Scale, runs: Sequence[Trial]) -> list[Work]:
    """Return the work of one ensemble per repetition, with its test."""
    return [Work(each, (exam(scale, number),)) for number, each in enumerate(runs)]


def plan_of(scale: Scale, names: Sequence[str], large: bool = False) -> list[Work]:
    """Return the work of some methods at ordinary and, if asked, at large size."""
    work = extractors(scale)
    for name in names:
        work += examined(scale, trials(scale, name))
        if large and name in LARGE:
            work += examined(scale, trials(scale, name, scale.large))
    return work


def answers(
    store: Store, scale: Scale, runs: Sequence[Trial], members: int
) -> Iterator[dict[str, tuple[Tensor, Tensor]]]:
    """Yield what the first members say of every set, for each repetition.

    Args:
        store: Has the trials and their exams.
        scale: How large the study is.
        runs: One trial per repetition.
        members: How many of the members to take.

    Yields:
        Logits ``(members, samples, classes)`` and labels by the name of the set; labels
        are those of the images, of whatever classes.
    """
    for repetition, each in enumerate(runs):
        test = exam(scale, repetition)
        stored = store.answers(each, test)
        found = {"imagenet_val": (stored.clean[0][:members], stored.clean[1])}
        for name, source in test.ood:
            labels = getattr(store.dataset(source), "targets")  # noqa: B009
            found[name] = (stored.ood[name][:members], labels)
        yield found


def of_its_classes(
    scale: Scale, dataset: str, logits: Tensor, labels: Tensor
) -> tuple[Tensor, Tensor]:
    """Return logits and labels of the classes that a set holds.

    Args:
        scale: Says which sets hold only some.
        dataset: Name of the set.
        logits: Of all classes.
        labels: Of all samples, among all classes.

    Returns:
        Both as they were for a set that holds all classes.
    """
    if dataset not in scale.partial:
        return logits, labels
    mask = torch.zeros(logits.shape[-1], dtype=torch.bool)
    mask[labels.unique()] = True
    return restricted(logits, labels, mask)


def aurocs(
    store: Store, scale: Scale, runs: Sequence[Trial], members: int
) -> Iterator[dict[tuple[str, str], float]]:
    """Yield how well PDS and BMA tell other sets from clean images.

    Args:
        store: Has the trials and their exams.
        scale: How large the study is.
        runs: One trial per repetition.
        members: How many of the members to take.

    Yields:
        The AUROC by score and set, for each repetition.
    """
    for sets in answers(store, scale, runs, members):
        found = {
            name: ood_scores(logits, ("pds", "bma"))
            for name, (logits, _) in sets.items()
        }
        yield {
            (score, name): float(auroc(found["imagenet_val"][score], value))
            for name in DETECTED
            for score, value in found[name].items()
        }


def settings(size: Size, **further: Any) -> dict[str, Any]:
    """Return how the study is made, for its results.

    Args:
        size: Of the study.
        further: What else one figure or table has to say.

    Returns:
        Numbers, and what differs from the paper.
    """
    scale = SCALES[size]
    document: dict[str, Any] = {
        "repetitions": scale.repetitions,
        "members": scale.members,
        "large ensembles": scale.large,
        "epochs of each head": scale.epochs,
        "batch size": scale.batch_size,
        "optimizer": "AdamW, learning rate 0.001, weight decay 0.01",
        "lambda": LAMBDA,
        "active members of SED": METHODS["sed_a2d"].active,  # type: ignore[attr-defined]
        "varied hyperparameters": {name: list(each) for name, each in GRID.items()},
        "DivDis": "both weights 10, as published with DivDis",
        **further,
    }
    if size == "paper":
        document["differs"] = (
            "hyperparameters that vary are ours, the paper names none; imagenet_a and "
            "imagenet_r are scored among their 200 classes"
        )
        return document
    train = scale.extractor(0)
    assert isinstance(train, Trial) and isinstance(train.data, Samples)
    name = train.data.dataset.__name__
    document["differs"] = (
        f"a frozen ConvNet trained on {name} with heads of one hidden layer for DeiT-3 "
        f"Base with its last two layers; test images of {name} for imagenet_val, those "
        "that another extractor gets wrong for imagenet_a, their stencils for "
        "imagenet_r, tepui's corruptions of them for imagenet_c1 and c5, "
        f"{_others(size)} for inaturalist and inverted images for openimages_o; heads "
        "share a random start, not a pretrained one; SED trains longer by members over "
        "active members, so that each head has as many updates as elsewhere; large "
        f"ensembles have {scale.large} members, not 50"
    )
    return document


def _others(size: Size) -> str:
    return "digits" if size == "small" else "images with exchanged halves"
