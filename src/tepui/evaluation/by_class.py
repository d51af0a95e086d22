"""How well each class is found, beside guessing, and how often sets hold it.

One accuracy hides a rare class; here each has a row of its own. Labels that do not
exclude each other, and classes of pixels, have the same numbers. Where a calibration is
applied they are of its outputs, by which the ensemble answers.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, NamedTuple, Self, final

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.storage import finite_or_none
from tepui.data.labels import answers_of, class_names
from tepui.data.shifts import NATURAL
from tepui.metrics import ClassRates

RATES = ("recall", "precision", "f1")
SETS = ("coverage", "size")
# Confusions kept of each data set: all of twelve classes, the most frequent of more.
MOST = 132
# Under which keys an evaluation holds scores of classes: of natural shifts by name.
CLASSES, SHIFTED = "by_class", "by_class_shifted"
# How likely so many right answers may be for a guess before they count for more.
CHANCE = 0.05


@final
@dataclass(frozen=True, kw_only=True)
class ByClass:
    """Scores of each class on one data set, one value per class in each field.

    NaN is a share of nothing, such as the recall of a class without samples.

    Attributes:
        names: Names of the classes, or labels; their numbers where they have none.
        samples: How many samples, or pixels, there are of each.
        recall: The share of these that is predicted to be of the class.
        precision: The share of those predicted to be of the class that are.
        f1: Harmonic mean of both.
        coverage: The share of the class's samples whose conformal set holds it; empty
            without such sets.
        size: How many classes the sets of these samples hold, on average.
        uncalibrated: The rates before the ensemble's calibration, by which all others
            are; None where none is applied.
    """

    names: tuple[str, ...]
    samples: tuple[int, ...]
    recall: tuple[float, ...]
    precision: tuple[float, ...]
    f1: tuple[float, ...]
    coverage: tuple[float, ...] = ()
    size: tuple[float, ...] = ()
    uncalibrated: "ByClass | None" = None

    @property
    def mean_recall(self) -> float:
        """Mean recall of the classes that occur; of classes the balanced accuracy."""
        known = [value for value in self.recall if not math.isnan(value)]
        return fmean(known) if known else math.nan

    def document(self) -> dict[str, Any]:
        """Return names, samples and rates for JSON, with None for what is undefined.

        The rates are those before calibration: see :meth:`applied_document`.
        """
        named = {"names": list(self.names), "samples": list(self.samples)}
        return named | _lists(self.uncalibrated or self, RATES)

    def applied_document(self) -> dict[str, Any]:
        """Return calibrated rates and those of sets for JSON, nothing without both."""
        rates = {} if self.uncalibrated is None else _lists(self, RATES)
        return rates | (_lists(self, SETS) if self.coverage else {})

    @classmethod
    def of(cls, evaluation: Mapping[str, Any], shift: str | None = None) -> Self | None:
        """Read the scores of an evaluation in JSON's form, None where it has none.

        They are those of clean data, or of a natural shift.
        """
        known, applied = evaluation, evaluation.get("applied") or {}
        if shift is not None:
            known, applied = (each.get(SHIFTED) or {} for each in (known, applied))
        name = CLASSES if shift is None else shift
        if (found := known.get(name)) is None:
            return None
        applied = applied.get(name) or {}
        plain = cls(**_columns(found))
        uncalibrated = plain if "recall" in applied else None
        return replace(plain, **_columns(applied), uncalibrated=uncalibrated)


def by_recall(recalls: Sequence[float]) -> list[int]:
    """Return the classes that occur, the one of lowest recall first.

    Example:
        >>> by_recall([0.5, math.nan, 1.0, 0.25])
        [3, 0, 2]
    """
    known = [place for place, value in enumerate(recalls) if not math.isnan(value)]
    return sorted(known, key=recalls.__getitem__)


def by_class(
    rates: ClassRates,
    names: tuple[str, ...],
    calibrated: ClassRates | None = None,
    sums: Tensor | None = None,
) -> ByClass:
    """Return the scores of each class, after calibration and with its sets, if any.

    Example:
        >>> import torch
        >>> right, none = torch.tensor([1.0, 0.5]), torch.tensor([torch.nan] * 2)
        >>> rates = ClassRates(torch.tensor([1, 2]), right, none, none)
        >>> found = by_class(rates, ("a", "b"))
        >>> found.names, found.samples, found.mean_recall
        (('a', 'b'), (1, 2), 0.75)
    """
    found = _with_rates(names, rates)
    if calibrated is not None:
        found = replace(_with_rates(names, calibrated), uncalibrated=found)
    if sums is None:
        return found
    count, held, size = sums
    coverage, sizes = tuple((held / count).tolist()), tuple((size / count).tolist())
    return replace(found, coverage=coverage, size=sizes)


def names_of(
    dataset: Dataset[Any], classes: int, mask: Tensor | None = None
) -> tuple[str, ...]:
    """Return a data set's names of the classes left, or their numbers.

    The one logit of a yes or no is that of the yes, the second of two names.

    Example:
        >>> import torch
        >>> names_of(Dataset(), 2, torch.tensor([False, True, True]))
        ('1', '2')
        >>> names_of(Dataset(), 1)
        ('yes',)
    """
    every = classes if mask is None else len(mask)
    names = class_names(dataset)
    if every == 1:
        return (answers_of(names)[1],)
    if len(names) != every:
        names = tuple(map(str, range(every)))
    kept = range(every) if mask is None else mask.nonzero()[:, 0].tolist()
    return tuple(names[number] for number in kept)


def _with_rates(names: tuple[str, ...], rates: ClassRates) -> ByClass:
    lists: dict[str, Any] = {
        name: tuple(part.tolist()) for name, part in rates._asdict().items()
    }
    return ByClass(names=names, **lists)


def _columns(document: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: tuple(math.nan if value is None else value for value in values)
        for name, values in document.items()
    }


def _lists(found: ByClass, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: finite_or_none(list(getattr(found, name))) for name in names}


class Confusion(NamedTuple):
    """How often samples of one class were called another.

    Attributes:
        truth: The class that they are of.
        called: The class that they were called.
        samples: How many they are.
    """

    truth: str
    called: str
    samples: int


def confusions(
    labels: Tensor, called: Tensor, names: Sequence[str]
) -> tuple[Confusion, ...]:
    """Return the confusions of classes, the most frequent first.

    Example:
        >>> labels, called = torch.tensor([0, 0, 1, 2]), torch.tensor([1, 1, 1, 0])
        >>> for each in confusions(labels, called, ["ant", "bee", "cow"]):
        ...     print(*each)
        ant bee 2
        cow ant 1
    """
    wrong = labels != called
    pairs = labels[wrong].long() * len(names) + called[wrong]
    found, counts = torch.unique(pairs, return_counts=True)
    kept = counts.argsort(descending=True, stable=True)[:MOST]
    places = zip(found[kept].tolist(), counts[kept].tolist(), strict=True)
    return tuple(
        Confusion(names[pair // len(names)], names[pair % len(names)], count)
        for pair, count in places
    )


def majority_share(labels: Tensor) -> float:
    """Return the share of the most frequent class.

    Example:
        >>> majority_share(torch.tensor([0, 2, 2, 1]))
        0.5
    """
    return float(torch.bincount(labels.long()).max()) / len(labels)


class Guess(NamedTuple):
    """An ensemble beside one that names the most frequent class each time.

    The number of right answers of such a guess is binomial.

    Attributes:
        accuracy: The ensemble's.
        share: That of the most frequent class.
        samples: How many there are.

    Example:
        >>> Guess(0.12, 0.1, 200).ties, Guess(0.12, 0.1, 2000).ties
        (True, False)
        >>> Guess(0.4, 0.5, 20).wins, Guess(0.4, 0.5, 200).wins
        (False, True)
    """

    accuracy: float
    share: float
    samples: int

    @property
    def ties(self) -> bool:
        """Whether it could well be right as often."""
        from scipy.stats import binom

        right = round(self.accuracy * self.samples)
        return bool(binom.sf(right - 1, self.samples, self.share) > CHANCE)

    @property
    def wins(self) -> bool:
        """Whether it would clearly be right more often."""
        from scipy.stats import binom

        right = round(self.accuracy * self.samples)
        return bool(binom.cdf(right, self.samples, self.share) <= CHANCE)


def guess_on(evaluation: Mapping[str, Any], shift: str | None = None) -> Guess | None:
    """Return a guess on clean data, or on a natural shift, of an evaluation for JSON.

    There is none of tasks other than a choice between classes of samples.

    Example:
        >>> cell = {"type": "ward B", "severity": 0, "accuracy": 0.2}
        >>> found = {"majority": 0.5, "cells": [cell]}
        >>> found["by_class_shifted"] = {"ward B": {"samples": [30, 70]}}
        >>> guess_on(found, "ward B")
        Guess(accuracy=0.2, share=0.7, samples=100)
    """
    if evaluation.get("majority") is None:
        return None
    if shift is None:
        accuracy, share = evaluation["clean"]["accuracy"], evaluation["majority"]
        return Guess(accuracy, share, evaluation["samples"])
    rows = evaluation.get(SHIFTED, {}).get(shift)
    if rows is None:
        return None
    cells = {(c["type"], c["severity"]): c["accuracy"] for c in evaluation["cells"]}
    count = sum(rows["samples"])
    return Guess(cells[shift, NATURAL], max(rows["samples"]) / count, count)
