"""Data that a caller hands over: known by what they hold, not by a name.

Jobs with such data are carried out in the process that has them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self, final

from torch.utils.data import Dataset

from tepui.data import Corrupted
from tepui.evaluation.stored_logits import Cell
from tepui.studies.specifications import (
    EvaluationSpec,
    SharpnessSpec,
    Shelf,
    Source,
    digest,
)
from tepui.training.run_folder import fingerprint


@final
@dataclass(frozen=True)
class Given(Source):
    """A data set from the caller's hands.

    Attributes:
        fingerprint: What tells it from another.
        dataset: The data.
    """

    fingerprint: Mapping[str, Any]
    dataset: Dataset[Any] = field(repr=False, compare=False)

    @classmethod
    def of(cls, dataset: Dataset[Any]) -> Self:
        """Return a data set with its fingerprint."""
        return cls(fingerprint(dataset), dataset)

    def load(self, store: Shelf) -> Dataset[Any]:
        """Return the data."""
        return self.dataset


@final
@dataclass(frozen=True, eq=False)
class GivenData:
    """All data of a comparison.

    Attributes:
        train: Training data.
        test: Clean test data.
        shifted: Shifted test data by type and severity.
        ood: Unfamiliar data by name.
        unlabeled: Data without labels.
    """

    train: Dataset[Any]
    test: Dataset[Any]
    shifted: Mapping[Cell, Dataset[Any]] | None
    ood: Mapping[str, Dataset[Any]]
    unlabeled: Dataset[Any] | None

    def tested_on(self) -> dict[str, Any]:
        """Return what tells this test from another, as JSON holds it."""
        return tested_on(self.test, self.shifted, self.ood)


@final
@dataclass(frozen=True)
class GivenTest:
    """A test on data from the caller's hands.

    Attributes:
        about: What tells it from another, see :func:`tested_on`.
        test: Clean test data, as :func:`tepui.evaluate` takes them, like all below.
        shifted: Shifted test data by type and severity.
        ood: Unfamiliar data by name.
    """

    about: Mapping[str, Any]
    test: Dataset[Any] = field(repr=False, compare=False)
    shifted: Mapping[Cell, Dataset[Any]] | None = field(
        default=None, repr=False, compare=False
    )
    ood: Mapping[str, Dataset[Any]] | None = field(
        default=None, repr=False, compare=False
    )

    @property
    def digest(self) -> str:
        """Its name in a store."""
        return digest(self)


Question = EvaluationSpec | GivenTest | SharpnessSpec


def tested_on(
    test: Dataset[Any],
    shifted: Mapping[Cell, Dataset[Any]] | None,
    ood: Mapping[str, Dataset[Any]] | None,
) -> dict[str, Any]:
    """Return what tells this test from another, as JSON holds it."""
    about: dict[str, Any] = {"test": fingerprint(test)}
    about["cells"] = [list(cell) for cell in shifted or {}]
    if isinstance(shifted, Corrupted):
        about |= {"strength": shifted.strength, "seed": shifted.seed}
    elif shifted:
        about["copies"] = [fingerprint(copy) for copy in shifted.values()]
    if ood:
        about["ood"] = {name: fingerprint(data) for name, data in ood.items()}
    return about
