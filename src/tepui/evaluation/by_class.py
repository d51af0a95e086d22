"""How well each class is found, and how often conformal sets hold it.

One accuracy hides a rare class; here each has a row of its own. Labels that do not
exclude each other, and classes of pixels, have the same numbers.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Self, final

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.storage import finite_or_none
from tepui.data.class_names import class_names
from tepui.metrics import ClassRates
from tepui.metrics.chunks import wide

RATES = ("recall", "precision", "f1")
SETS = ("coverage", "size")


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
    """

    names: tuple[str, ...]
    samples: tuple[int, ...]
    recall: tuple[float, ...]
    precision: tuple[float, ...]
    f1: tuple[float, ...]
    coverage: tuple[float, ...] = ()
    size: tuple[float, ...] = ()

    @property
    def mean_recall(self) -> float:
        """Mean recall of the classes that occur; of classes the balanced accuracy."""
        known = [value for value in self.recall if not math.isnan(value)]
        return fmean(known) if known else math.nan

    @property
    def worst(self) -> int | None:
        """Which class has the lowest recall; None where none occurs."""
        return next(iter(by_recall(self.recall)), None)

    def document(self) -> dict[str, Any]:
        """Return names, samples and rates for JSON, with None for what is undefined."""
        named = {"names": list(self.names), "samples": list(self.samples)}
        return named | _lists(self, RATES)

    def sets_document(self) -> dict[str, Any]:
        """Return what conformal sets give for JSON, nothing without them."""
        return _lists(self, SETS) if self.coverage else {}

    @classmethod
    def of(cls, evaluation: Mapping[str, Any]) -> Self | None:
        """Read the scores of an evaluation in JSON's form, None where it has none."""
        if (known := evaluation.get("by_class")) is None:
            return None
        sets = (evaluation.get("applied") or {}).get("by_class") or {}
        columns: dict[str, Any] = {
            name: tuple(math.nan if value is None else value for value in values)
            for name, values in {**known, **sets}.items()
        }
        return cls(**columns)


def by_recall(recalls: Sequence[float]) -> list[int]:
    """Return the classes that occur, the one of lowest recall first.

    Example:
        >>> by_recall([0.5, math.nan, 1.0, 0.25])
        [3, 0, 2]
    """
    known = [place for place, value in enumerate(recalls) if not math.isnan(value)]
    return sorted(known, key=recalls.__getitem__)


def by_class(
    rates: ClassRates, names: tuple[str, ...], sums: Tensor | None = None
) -> ByClass:
    """Return the scores of each class, and with the sums of its sets theirs.

    Example:
        >>> right, none = torch.tensor([1.0, 0.5]), torch.tensor([torch.nan] * 2)
        >>> rates = ClassRates(torch.tensor([1, 2]), right, none, none)
        >>> found = by_class(rates, ("a", "b"))
        >>> found.names, found.samples, found.mean_recall
        (('a', 'b'), (1, 2), 0.75)
    """
    lists = {name: tuple(part.tolist()) for name, part in rates._asdict().items()}
    if sums is not None:
        count, held, size = sums
        lists |= {"coverage": tuple((held / count).tolist())}
        lists |= {"size": tuple((size / count).tolist())}
    return ByClass(names=names, **lists)


def set_sums(sets: Tensor, labels: Tensor) -> Tensor:
    """Return number, held labels and total size of the sets of each class's samples.

    Example:
        >>> sets = torch.tensor([[True, False], [True, True], [True, False]])
        >>> set_sums(sets, torch.tensor([0, 0, 1])).tolist()
        [[2.0, 1.0], [2.0, 0.0], [3.0, 1.0]]
    """
    held = sets.gather(1, labels.unsqueeze(1))[:, 0]
    each = wide(torch.stack([torch.ones_like(labels), held, sets.sum(-1)]))
    return each.new_zeros(3, sets.shape[1]).index_add_(1, labels, each)


def names_of(
    dataset: Dataset[Any], classes: int, mask: Tensor | None = None
) -> tuple[str, ...]:
    """Return a data set's names of the classes left, or their numbers.

    Example:
        >>> names_of(Dataset(), 2, torch.tensor([False, True, True]))
        ('1', '2')
    """
    every = classes if mask is None else len(mask)
    names = class_names(dataset)
    if len(names) != every:
        names = tuple(map(str, range(every)))
    kept = range(every) if mask is None else mask.nonzero()[:, 0].tolist()
    return tuple(names[number] for number in kept)


def _lists(found: ByClass, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: finite_or_none(list(getattr(found, name))) for name in names}
