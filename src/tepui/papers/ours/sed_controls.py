"""SED and its controls on real images, without a download.

Measured at small size (n = 5; aarch64, torch 2.13.0+cpu): unique predictions on clean:
deep ensemble 1.055 ± 0.0024, varied hyperparameters 1.147 ± 0.008, SED 1.069 ± 0.0037,
SED, weight 0 1.061 ± 0.0041, SED, no sample weights 1.066 ± 0.003.

Fashion-MNIST: a ConvNet is trained on one part of the training images and frozen; five
heads with one hidden layer learn from its features of another part. Tested on clean
images, on copies under the fifteen standard corruptions, and by how well PDS and BMA
tell other sets from clean images: real digits, clothes with light and dark exchanged,
noise. Every repetition has an extractor, splits and heads of its own, shared by all
variants, so that differences are paired. SED's runs are longer by ``members / active``,
which gives each head as many updates as in the other runs.

The controls: no disagreement (weight 0) with the same random choice of members, label
smoothing 0 and 0.5, and no weights of samples.

References:
    Rubinstein, Scimeca, Teney and Oh (2024), Scalable Ensemble Diversification for OOD
    Generalization and Detection.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, final

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from tepui.core.members import hyperparameter_grid
from tepui.core.seeding import generator, member_seeds
from tepui.data import STANDARD, Arrays, Digits, FashionMNIST, UniformNoise
from tepui.evaluation.stored_logits import StoredLogits
from tepui.losses import CrossEntropy
from tepui.methods import SED, DeepEnsemble, Method
from tepui.metrics import auroc, ood_scores
from tepui.models import MLP, ConvNet
from tepui.papers.recipe import Numbers, Order, Recipe, Size
from tepui.papers.sed.protocol import GRID, OOD_SCORES
from tepui.report.drawing import COLORS, grid, legend_below
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
from tepui.studies.derived_data import Copies, Features
from tepui.studies.specifications import DataStore
from tepui.tasks import Scores
from tepui.tasks.scores import mean_scores
from tepui.training import AdamW, MultiStep, TrainingSpec
from tepui.training.numerics import Precision

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MEMBERS = 5
ACTIVE = 2  # heads that SED draws in a step
HIDDEN = 64
PRECISION: Precision = "float32"  # of training, of extractors and heads
SEVERITIES = {"severity 1": 1, "severity 5": 5}


class Effort(NamedTuple):
    """How large the study is."""

    images: Callable[..., Arrays]  # the data set's class
    # images for the extractor, for the heads, and for each test
    samples: tuple[int, int, int]
    width: int  # width of the extractor
    extractor_epochs: int  # passes of the extractor
    epochs: int  # passes of each head
    ensembles: int
    types: tuple[str, ...]  # corruptions; severities are 1 and 5
    others: tuple["Kind", ...]  # what no head should recognize


class Variant(NamedTuple):
    """One row of the study."""

    method: Method  # how the heads are trained
    label_smoothing: float = 0.0
    # deal learning rate, weight decay and label smoothing from a grid
    varied: bool = False


Kind = Literal["digits", "inverted", "noise"]
_SMALL = Effort(
    FashionMNIST,
    (8000, 8000, 2000),
    8,
    extractor_epochs=5,
    epochs=10,
    ensembles=5,
    types=STANDARD,
    others=("digits", "inverted", "noise"),
)
EFFORTS: Mapping[Size, Effort] = {
    "paper": _SMALL,
    "small": _SMALL,
    "smoke": Effort(
        Digits,
        (800, 400, 200),
        4,
        extractor_epochs=6,
        epochs=4,
        ensembles=2,
        types=("gaussian_noise",),
        others=("inverted", "noise"),
    ),
}
VARIANTS = {
    "deep ensemble": Variant(DeepEnsemble()),
    "varied hyperparameters": Variant(DeepEnsemble(), varied=True),
    "SED": Variant(SED(weight=0.1, active=ACTIVE)),
    "SED, weight 0": Variant(SED(weight=0.0, active=ACTIVE)),
    "SED, no sample weights": Variant(SED(weight=0.1, active=ACTIVE, alpha="none")),
    "deep ensemble, smoothing 0.5": Variant(DeepEnsemble(), 0.5),
    "SED, smoothing 0.5": Variant(SED(weight=0.1, active=ACTIVE), 0.5),
    "SED, weight 0, smoothing 0.5": Variant(SED(weight=0.0, active=ACTIVE), 0.5),
    "SED, weight 5, smoothing 0.5": Variant(SED(weight=5.0, active=ACTIVE), 0.5),
}
FAR_OFF = "SED, weight 5, smoothing 0.5"


@final
@dataclass(frozen=True)
class Drawn(DataSource):
    """Images of a data set at some places of a random order."""

    images: Callable[..., Arrays]  # the data set's class
    train: bool  # whether to draw from its training part
    places: tuple[int, int]  # the first place, and the one after the last
    seed: int  # same seed, same order

    def load(self, store: DataStore) -> Arrays:
        """Return the images in their random order."""
        whole = self.images(train=self.train)
        stream = generator(self.seed, "offline_sed")
        return whole.subset(
            torch.randperm(len(whole), generator=stream)[slice(*self.places)]
        )


@final
@dataclass(frozen=True)
class Unfamiliar(DataSource):
    """Images that no head should recognize, in the form of others."""

    kind: Kind  # real digits, the others with light and dark exchanged, or noise
    like: DataSource
    seed: int  # same seed, same noise

    def load(self, store: DataStore) -> Arrays:
        """Return the images, without labels."""
        like = store.dataset(self.like)
        assert isinstance(like, Arrays)
        assert isinstance(like.inputs, Tensor)
        if self.kind == "noise":
            return UniformNoise(len(like), like=like, seed=self.seed)
        if self.kind == "digits":
            return enlarged_digits(like)
        full = 255 if like.inputs.dtype == torch.uint8 else 1
        return like.like(full - like.inputs, torch.full_like(like.targets, -1))


def enlarged_digits(like: Arrays) -> Arrays:
    """Return real digits in the size and the normalization of other images."""
    digits = Digits(train=True)
    assert isinstance(digits.inputs, Tensor)
    assert isinstance(like.inputs, Tensor)
    side = like.inputs.shape[-1]
    larger = interpolate(digits.inputs, size=(side, side), mode="bilinear")
    shown = larger.mul(255).round().byte()
    return like.like(shown, torch.full_like(digits.targets, -1))


def extractor(effort: Effort, seed: int) -> Trial:
    """Return the network of a repetition whose features all heads learn from."""
    return Trial(
        Drawn(effort.images, True, (0, effort.samples[0]), seed),
        partial(ConvNet, width=effort.width),
        TrainingSpec(
            method=DeepEnsemble(),
            epochs=effort.extractor_epochs,
            batch_size=128,
            schedule=MultiStep(),
            precision=PRECISION,
        ),
        member_seeds(seed, 1),
    )


def heads(effort: Effort, variant: Variant, seed: int) -> Trial:
    """Return the heads of a variant in one repetition."""
    optimizer, loss = AdamW(), CrossEntropy(variant.label_smoothing)
    if variant.varied:
        dealt = hyperparameter_grid(MEMBERS, seed=seed, **GRID)
        optimizer = AdamW(lr=dealt["lr"], weight_decay=dealt["weight_decay"])
        loss = CrossEntropy(dealt["label_smoothing"])
    method = variant.method
    longer = MEMBERS / ACTIVE if isinstance(method, SED) else 1
    first, second, _ = effort.samples
    seen = Drawn(effort.images, True, (first, first + second), seed)
    return Trial(
        Features(extractor(effort, seed), seen),
        partial(MLP, in_features=16 * effort.width, hidden=(HIDDEN,)),
        TrainingSpec(
            method=method,
            epochs=round(effort.epochs * longer),
            batch_size=128,
            optimizer=optimizer,
            schedule=MultiStep(),
            precision=PRECISION,
            loss=loss,
        ),
        member_seeds(seed, MEMBERS),
    )


def evaluation_spec(effort: Effort, seed: int) -> EvaluationSpec:
    """Return the test of a repetition: clean and corrupted images, and other sets."""
    test = Drawn(effort.images, False, (0, effort.samples[2]), seed)
    others: dict[str, DataSource] = {
        kind: Unfamiliar(kind, test, seed) for kind in effort.others
    }
    for name, severity in SEVERITIES.items():
        others[name] = Copies(test, effort.types, severity, seed=seed)
    read = partial(Features, extractor(effort, seed))
    ood = tuple((name, read(images)) for name, images in others.items())
    return EvaluationSpec(read(test), ood=ood, logits_read=True)


def numbers(order: Order) -> Iterator[Numbers]:
    """Return diversity, accuracy and detection of every variant."""
    effort = EFFORTS[order.size]._replace(**order.lengths)
    for name, variant in order.choose(VARIANTS).items():
        yield of_variant(effort, name, variant)


def of_variant(effort: Effort, name: str, variant: Variant) -> Numbers:
    """Return diversity, accuracy and detection of one variant."""
    seeds = range(effort.ensembles)
    runs = [heads(effort, variant, seed) for seed in seeds]
    tests = [evaluation_spec(effort, seed) for seed in seeds]

    def records(store: Store) -> Iterator[Record]:
        rows = [
            scores(store.logits(trial, test), len(effort.types))
            for trial, test in zip(runs, tests, strict=True)
        ]
        for metric, dataset, score in rows[0]:
            yield averaged(
                [row[metric, dataset, score] for row in rows],
                runs,
                item="ours/sed_controls",
                dataset=dataset,
                architecture="convnet",
                method=name,
                metric=metric,
                unit="count" if metric == "unique_predictions" else "fraction",
                at={"score": score} if score else {},
            )

    jobs = [Job(extractor(effort, seed)) for seed in seeds]
    jobs += [Job(trial, (test,)) for trial, test in zip(runs, tests, strict=True)]
    return Numbers(jobs, records)


def scores(stored: StoredLogits, types: int) -> dict[tuple[str, str, str], float]:
    """Return metrics by name, data and, for detection, score."""
    clean, labels = stored.clean
    values_by_name: dict[tuple[str, str, str], float] = {}
    for data in ("clean", *SEVERITIES):
        parts = [clean] if data == "clean" else stored.ood[data].chunk(types, dim=1)
        mean = mean_scores(Scores.of(part, labels) for part in parts)
        values_by_name["unique_predictions", data, ""] = mean.unique_predictions
        values_by_name["ensemble_accuracy", data, ""] = mean.accuracy
        values_by_name["individual_accuracy", data, ""] = mean.individual_accuracy
    familiar = ood_scores(clean, OOD_SCORES.values())
    for name, logits in stored.ood.items():
        values = ood_scores(logits, OOD_SCORES.values())
        for score, ours in OOD_SCORES.items():
            values_by_name["auroc", name, score.upper()] = float(
                auroc(familiar[ours], values[ours])
            )
    return values_by_name


def draw(results: Results) -> "Figure":
    """Return a row per variant, but for one far off, and a panel per quantity."""
    methods = dict.fromkeys(record.method for record in results.records)
    variants = [name for name in methods if name != FAR_OFF]
    wide = "severity 5"
    panels = [
        {"metric": "unique_predictions", "dataset": wide},
        {"metric": "ensemble_accuracy", "dataset": wide},
        *(
            {"metric": "auroc", "dataset": name}
            for name in dict.fromkeys(r.dataset for r in results.find(metric="auroc"))
            if name != "severity 1"
        ),
    ]
    figure, axes = grid(len(panels))
    for axis, names in zip(axes, panels, strict=True):
        for number, score in enumerate(("PDS", "BMA")):
            at = {"score": score} if names["metric"] == "auroc" else {}
            shown = [results.one(method=variant, **names, **at) for variant in variants]
            axis.errorbar(
                [record.value or 0 for record in shown],
                [row + 0.2 * number for row in range(len(shown))],
                xerr=[record.sem or 0 for record in shown],
                fmt="so"[number],
                color=COLORS[number] if at else "#444444",
                label=score if at else None,
                capsize=2,
            )
            if not at:
                break
        axis.set_yticks(range(len(variants)), variants, fontsize=7)
        axis.invert_yaxis()
        axis.set_title(f"{names['metric'].replace('_', ' ')}, {names['dataset']}")
    legend_below(figure, axes)
    return figure


def settings(order: Order) -> dict[str, Any]:
    """Return how the study is made."""
    effort = EFFORTS[order.size]._replace(**order.lengths)
    return {
        "images": effort.images.__name__,
        "images for extractor, heads and test": list(effort.samples),
        "extractor": f"ConvNet(width={effort.width}), {effort.extractor_epochs} epochs",
        "epochs of each head": effort.epochs,
        "ensembles": effort.ensembles,
        "members": MEMBERS,
        "seeds": [*range(effort.ensembles)],
        "precision": PRECISION,
        "hidden": HIDDEN,
        "corruptions": list(effort.types),
        "varied hyperparameters": {name: list(values) for name, values in GRID.items()},
        "differs": [Departure("a study of our own", "no paper prints its numbers")],
    }


RECIPE = Recipe(
    title="SED beside controls without its parts",
    numbers=numbers,
    settings=settings,
    draw=draw,
    overrides=("epochs", "ensembles", "methods"),
)
