"""How well each class is found, and how often sets hold it.

One accuracy hides a rare class; here each has a row of its own. Labels that do not
exclude each other, and classes of pixels, have the same numbers.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Self, final

from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.storage import finite_or_none
from tepui.data.labels import answers_of, class_names
from tepui.metrics import ClassRates

RATES = ("recall", "precision", "f1")
SETS = ("coverage", "size")
CLASSES = "by_class"  # under which key an evaluation holds scores of classes


@final
@dataclass(frozen=True, kw_only=True)
class ByClass:
    """Scores of each class on the test data, one value per class in each field.

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

    def document(self, names: Sequence[str]) -> dict[str, Any]:
        """Return some fields for JSON, with None for what is undefined."""
        return {name: finite_or_none(list(getattr(self, name))) for name in names}

    @classmethod
    def of(cls, evaluation: Mapping[str, Any]) -> Self | None:
        """Read the scores of an evaluation in JSON's form, None where it has none."""
        if (found := evaluation.get(CLASSES)) is None:
            return None
        columns = found | (evaluation.get("applied") or {}).get(CLASSES, {})
        lists: dict[str, Any] = {
            name: tuple(math.nan if value is None else value for value in values)
            for name, values in columns.items()
        }
        return cls(**lists)


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
    """Return the scores of each class, and of its sets if there are any.

    Example:
        >>> import torch
        >>> right, none = torch.tensor([1.0, 0.5]), torch.tensor([torch.nan] * 2)
        >>> rates = ClassRates(torch.tensor([1, 2]), right, none, none)
        >>> found = by_class(rates, ("a", "b"))
        >>> found.names, found.samples, found.mean_recall
        (('a', 'b'), (1, 2), 0.75)
    """
    columns = rates._asdict()
    if sums is not None:
        count, held, size = sums
        columns |= {"coverage": held / count, "size": size / count}
    lists: Any = {name: tuple(part.tolist()) for name, part in columns.items()}
    return ByClass(names=names, **lists)


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
