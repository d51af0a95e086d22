"""How the paper's ensembles are trained and tested; shared by its recipes.

All members are heads on one frozen extractor; :mod:`tepui.papers.sed.scales` says
which, and what stands in for the paper's images.

Differs from the paper:

- weights of timm, tuned on ImageNet after ImageNet-21k (those that the paper names are
  published there)
- hyperparameters that vary between members are ours (the paper names none)
- imagenet_a and imagenet_r are scored among their 200 classes by mean logits, in the
  released code by votes of members that choose one of them (votes favor large
  ensembles, whatever they learned)
- the learning rate is constant, in the released code it falls along a cosine (the paper
  names no schedule)
- heads see every image as it is, in the released code four augmented copies (four times
  the disk, and the paper names none)
- one SED for all numbers, in the released code four, of which two have no disagreement
  in their loss (the paper describes one)
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tepui.core.members import hyperparameter_grid
from tepui.data.loading import targets_of
from tepui.evaluation.stored_logits import LogitRuns
from tepui.losses import CrossEntropy
from tepui.methods import A2D, SED, DeepEnsemble, DivDis, Method
from tepui.metrics import Collection, Score, auroc, ood_scores, restrict_classes
from tepui.papers.recipe import DIFFERS, Diagram, Numbers, Order, Size, differing
from tepui.papers.sed import scales
from tepui.papers.sed.scales import PRECISION, STUDIES, HeadStudy
from tepui.studies import (
    EvaluationSpec,
    Job,
    Record,
    Samples,
    Store,
    Trial,
    averaged,
    seeds,
)
from tepui.studies.derived_data import Features
from tepui.studies.results import STAND_INS
from tepui.training import AdamW, Constant, TrainingSpec

ARCHITECTURE = "deit3_base_last2"
LAMBDA = 0.1
ACTIVE = 2  # members that SED draws in a step
DETECTED = ("imagenet_c1", "imagenet_c5", "inaturalist", "openimages_o")
# The paper's names of scores, and ours.
OOD_SCORES: Mapping[str, Score] = {"pds": "pds", "bma": "max_mean_probability"}
LABELED = ("imagenet_val", "imagenet_a", "imagenet_r", "imagenet_c1", "imagenet_c5")
GRID = {
    "lr": (3e-4, 1e-3, 3e-3),
    "weight_decay": (1e-4, 1e-2, 1e-1),
    "label_smoothing": (0.0, 0.1),
}
# SED has the weight of its study instead.
METHODS: Mapping[str, Method] = {
    "deep_ensemble": DeepEnsemble(),
    "deep_ensemble_varied": DeepEnsemble(),
    "divdis": DivDis(weight=10.0, regularizer=10.0),
    "a2d": A2D(weight=LAMBDA),
    "sed_a2d": SED(weight=LAMBDA, active=ACTIVE),
}
# Members of these know nothing of each other: a small ensemble is part of a large one.
INDEPENDENT = ("deep_ensemble", "deep_ensemble_varied")
LARGE = (*INDEPENDENT, "sed_a2d")
LENGTHS = ("epochs", "ensembles")  # what an order can override
# Of repetition r, as trials have them.
SEEDS = "1000 r + m of member m in repetition r, both from 0; r of all that is shared"
# Logits and labels of every set, which are read in runs.
Answers = Mapping[str, LogitRuns]
Batches = Iterator[tuple[Tensor, Any]]


def study_of(order: Order) -> HeadStudy:
    """Return the study that an order asks for."""
    return STUDIES[order.size]._replace(**order.lengths)


def trial(
    study: HeadStudy,
    name: str,
    repetition: int,
    members: int | None = None,
    *,
    method: Method | None = None,
    epochs: int | None = None,
) -> Trial:
    """Return one ensemble of heads."""
    usual = (
        SED(weight=study.weight, active=ACTIVE) if name == "sed_a2d" else METHODS[name]
    )
    used = method or usual
    size = study.large if name in INDEPENDENT else members or study.members
    optimizer, loss = AdamW(), CrossEntropy()
    if name == "deep_ensemble_varied":
        dealt = hyperparameter_grid(size, seed=repetition, **GRID)
        optimizer = AdamW(lr=dealt["lr"], weight_decay=dealt["weight_decay"])
        loss = CrossEntropy(dealt["label_smoothing"])
    length = epochs or study.epochs
    if study.longer and epochs is None and isinstance(used, SED):
        length = round(length * size / ACTIVE)
    unlabeled = features(study, repetition, "imagenet_r")
    return Trial(
        features(study, repetition, "train"),
        partial(study.head, start=repetition),
        TrainingSpec(
            method=used,
            epochs=length,
            batch_size=study.batch_size,
            optimizer=optimizer,
            schedule=Constant(),
            precision=PRECISION,
            loss=loss,
        ),
        seeds(repetition, size),
        unlabeled=unlabeled if used.needs_unlabeled else None,
    )


def trials(
    study: HeadStudy, name: str, members: int | None = None, **changes: Any
) -> list[Trial]:
    """Return an ensemble per repetition; see :func:`trial`."""
    repetitions = range(study.ensembles)
    return [trial(study, name, n, members, **changes) for n in repetitions]


def features(study: HeadStudy, repetition: int, name: str) -> Features:
    """Return the features of one of the sets in one repetition."""
    images = study.images(repetition)[name]
    return Features(study.extractor(repetition), images, study.layers)


def evaluation_spec(study: HeadStudy, repetition: int) -> EvaluationSpec:
    """Return the test of all heads of a repetition: every set but the training data."""
    others = tuple(
        (name, features(study, repetition, name))
        for name in study.images(repetition)
        if name not in ("train", "imagenet_val")
    )
    return EvaluationSpec(
        features(study, repetition, "imagenet_val"),
        ood=others,
        logits_in=study.logits_in,
        logits_read=True,
    )


class Tested(NamedTuple):
    """What the first members of an ensemble say of every set, in one repetition."""

    store: Store
    study: HeadStudy
    repetition: int
    trial: Trial
    members: int
    sets: Answers


class Quantity(NamedTuple):
    """What names a number of an ensemble, beside its method."""

    dataset: str
    metric: str
    unit: str
    at: tuple[tuple[str, Any], ...] = ()


def head_numbers(
    item: str,
    study: HeadStudy,
    name: str,
    runs: Sequence[Trial],
    values: Callable[[Tested], Mapping[Quantity, float]],
    members: int | None = None,
    at: Mapping[str, Any] | None = None,
) -> Numbers:
    """Return the means of quantities over repetitions, for one method.

    One ensemble per repetition is tested; what makes its features is trained before.
    """
    extractors = [study.extractor(n) for n in range(study.ensembles)]
    jobs = [Job(extractor) for extractor in extractors if isinstance(extractor, Trial)]
    jobs += [Job(run, (evaluation_spec(study, n),)) for n, run in enumerate(runs)]
    size = members or study.members
    where = {"ensemble_size": size} if at is None else at

    def records(store: Store) -> Iterator[Record]:
        rows = [values(answers) for answers in tested(store, study, runs, size)]
        for quantity in rows[0]:
            yield averaged(
                [row[quantity] for row in rows],
                runs,
                item=item,
                dataset=quantity.dataset,
                architecture=ARCHITECTURE,
                method=name,
                metric=quantity.metric,
                unit=quantity.unit,
                at={**where, **dict(quantity.at)},
            )

    return Numbers(jobs, records)


def tested(
    store: Store, study: HeadStudy, runs: Sequence[Trial], members: int
) -> Iterator[Tested]:
    """Yield what the first members say of every set, for each repetition."""
    for repetition, run in enumerate(runs):
        test = evaluation_spec(study, repetition)
        sets = {"imagenet_val": store.logit_runs(run, test).of_first(members)}
        for name, source in test.ood:
            labels = targets_of(store.dataset(source))
            assert labels is not None
            stored = store.logit_runs(run, test, name)
            sets[name] = stored.of_first(members).labeled(labels)
        yield Tested(store, study, repetition, run, members, sets)


def streamed(metrics: Collection, batches: Batches) -> dict[str, Any]:
    """Return metrics of logits that go by."""
    for logits, labels in batches:
        metrics.update(logits, labels)
    return {name: value.tolist() for name, value in metrics.compute().items()}


def per_sample(function: Callable[[Tensor], Tensor], answers: LogitRuns) -> Tensor:
    """Return what a function of logits says of every sample, on the last axis."""
    return torch.cat([function(logits) for logits, _ in answers.read()], -1)


def of_its_classes(
    study: HeadStudy, dataset: str, labels: Tensor, batches: Batches
) -> Batches:
    """Yield logits and labels of the classes that a set with these labels holds."""
    held = labels.unique()
    for logits, answers in batches:
        if dataset not in study.partial:
            yield logits, answers
            continue
        mask = torch.zeros(logits.shape[-1], dtype=torch.bool)
        mask[held] = True
        yield restrict_classes(logits, answers, mask)


def aurocs(sets: Answers, score: str, **at: Any) -> dict[Quantity, float]:
    """Return how well PDS or BMA tells other sets from clean images."""
    ours = OOD_SCORES[score]
    values = {
        name: per_sample(lambda logits: ood_scores(logits, [ours])[ours], sets[name])
        for name in ("imagenet_val", *DETECTED)
    }
    where = tuple({"score": score.upper(), **at}.items())
    return {
        Quantity(name, "auroc", "fraction", where): float(
            auroc(values["imagenet_val"], values[name])
        )
        for name in DETECTED
    }


def settings(order: Order, **further: Any) -> dict[str, Any]:
    """Return how the study is made, for its results."""
    study = study_of(order)
    told = ("members", "large", "epochs", "batch_size", "weight", "longer")
    document: dict[str, Any] = {
        "repetitions": study.ensembles,
        "seeds": SEEDS,
        "precision": PRECISION,
        **{name.replace("_", " "): getattr(study, name) for name in told},
        "optimizer": "AdamW, learning rate 0.001, weight decay 0.01",
        "active members of SED": ACTIVE,
        "varied hyperparameters": {name: list(values) for name, values in GRID.items()},
        "DivDis": "both weights 10, as published with DivDis",
        **further,
    }
    if order.size == "paper":
        return {**document, DIFFERS: differing(__doc__)}
    train = study.extractor(0)
    assert isinstance(train, Trial)
    assert isinstance(train.data, Samples)
    document["training images"] = f"{train.data.count}, half of them the extractor's"
    document["epochs of the extractor"] = train.training.epochs
    document[STAND_INS] = _stand_ins(order.size, train.data.dataset.__name__)
    return {**document, DIFFERS: differing(scales.__doc__)}


def _stand_ins(size: Size, name: str) -> dict[str, str]:
    """Return what is used for each data set of the paper."""
    tested = f"test images of {name}"
    return {
        "imagenet_train": f"training images of {name}",
        "imagenet_val": tested,
        "imagenet_a": f"{tested} that another extractor gets wrong",
        "imagenet_r": f"stencils of {tested}",
        "imagenet_c1": f"{tested}, corrupted by tepui",
        "imagenet_c5": f"{tested}, corrupted by tepui",
        "inaturalist": "digits" if size == "small" else "images with exchanged halves",
        "openimages_o": f"inverted {tested}",
    }


RECIPES = {
    "figure1": Diagram(
        "where members disagree, earlier and in SED; see docs/diversification.md"
    )
}
