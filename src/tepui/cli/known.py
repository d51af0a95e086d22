"""What each option of the command line can name without its package."""

import inspect
from collections.abc import Iterable, Sequence
from typing import get_args

from torch.nn import Module
from torch.utils.data import Dataset

from tepui import data, methods, models
from tepui.data import Augmentation
from tepui.losses import MSE, BinaryCrossEntropy, CrossEntropy, GaussianNLL, Quantiles
from tepui.training import SGD, AdamW, schedule

KnownLoss = CrossEntropy | BinaryCrossEntropy | MSE | GaussianNLL | Quantiles
"""The losses that say what outputs mean."""

OOD = "--ood"
SHIFTED = "--shifted"
# Methods of a recipe and of a calibration are words.
WORDS_ALONE = {"reproduce": ("--methods",), "calibrate": ("--method",)}


def known_classes() -> dict[str, list[type]]:
    """Return the classes that each option can name without their package."""
    from tepui.cli import wrapped  # takes a while, and help does without

    ways = _classes(methods, methods.Method)
    others = (data.ArraysOnDisk, data.HuggingFace, data.Texts)  # Python's alone
    sets = [kind for kind in _classes(data, Dataset) if kind not in others]
    # Without a table to learn from, columns would be standardized by their own rows.
    beside = [kind for kind in sets if kind is not data.Table]
    shapes = _classes(schedule, schedule.Schedule)
    return {
        "--data": [kind for kind in sets if "train" in arguments_of(kind)],
        "--validation": [kind for kind in sets if _is_labeled(kind)],
        # Complete ones, not the bases that others fill.
        "--unlabeled": [kind for kind in beside if hasattr(kind, "__final__")],
        "--model": _classes(models, models.Model) + _classes(wrapped, Module),
        "--method": ways,
        "--methods": ways,
        "--optimizer": [SGD, AdamW],
        "--loss": [*get_args(KnownLoss)],
        "--schedule": [kind for kind in shapes if kind is not schedule.FromFunction],
        "--augment": _classes(data, Augmentation),
        OOD: [k for k in beside if {"train", "shape", "path"} & {*arguments_of(k)}],
        SHIFTED: [kind for kind in sets if _is_labeled(kind)],
    }


def known_names() -> dict[str, list[str]]:
    """Return the names that each option knows."""
    return {
        option: [kind.__name__ for kind in kinds]
        for option, kinds in known_classes().items()
    }


def names_for(arguments: Sequence[str]) -> dict[str, list[str]]:
    """Return what options can name; some commands have methods that are no classes."""
    names = known_names()
    for option in WORDS_ALONE.get(arguments[0] if arguments else "", ()):
        del names[option]
    return names


def known_spelling(name: str, names: Iterable[str]) -> str:
    """Return a known name as the library spells it, any other as it is.

    Example:
        >>> known_spelling("cifar10", ["CIFAR10", "Digits"])
        'CIFAR10'
    """
    return {known.lower(): known for known in names}.get(name.lower(), name)


def arguments_of(kind: type) -> list[str]:
    """Return the arguments of a class."""
    return list(inspect.signature(kind).parameters)


def _is_labeled(kind: type) -> bool:
    """Return whether a data set is made of files and has labels of its own."""
    return hasattr(kind, "__final__") and bool(
        {"train", "root"} & {*arguments_of(kind)}
    )


def _classes(module: object, base: type) -> list[type]:
    return [
        item
        for _, item in inspect.getmembers(module, inspect.isclass)
        if issubclass(item, base) and not inspect.isabstract(item) and item is not base
    ]
