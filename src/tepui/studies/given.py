"""Data that a caller hands over: known by what they hold, not by a name.

Jobs with such data are carried out in the process that has them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self, final

from torch.utils.data import Dataset

from tepui.data.identity import data_identity
from tepui.data.shifts import Cell
from tepui.evaluation.evaluate import Metric
from tepui.metrics import Rule
from tepui.studies.specifications import (
    DataSource,
    DataStore,
    Described,
    EvaluationSpec,
    SharpnessSpec,
)

Copies = Mapping[Cell, Dataset[Any]]
Named = Mapping[str, Dataset[Any]]


@final
@dataclass(frozen=True)
class Given(DataSource):
    """A data set with its fingerprint, which tells it from another."""

    fingerprint: Mapping[str, Any]
    dataset: Dataset[Any] = field(repr=False, compare=False)

    @classmethod
    def of(cls, dataset: Dataset[Any]) -> Self:
        """Return a data set with its fingerprint."""
        return cls(data_identity(dataset), dataset)

    def load(self, store: DataStore) -> Dataset[Any]:
        """Return the data."""
        return self.dataset


@final
@dataclass(frozen=True)
class GivenTest(Described):
    """A test with its data, in the words of :func:`tepui.evaluate`."""

    tested: Mapping[str, Any]
    test: Dataset[Any] = field(repr=False, compare=False)
    shifted: Copies | None = field(repr=False, compare=False)
    ood: Named = field(repr=False, compare=False)
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    rule: Rule = field(default="probability", compare=False)

    @property
    def about(self) -> Mapping[str, Any]:
        """What it tests on; metrics only add to what is known of that."""
        return self.tested

    def is_answered_by(self, document: Mapping[str, Any]) -> bool:
        """Return whether an evaluation is on the same data, with metrics so named."""
        same = document.get("metrics", []) == list(self.metrics)
        return same and super().is_answered_by(document)


EvaluationRequest = EvaluationSpec | GivenTest
Request = EvaluationRequest | SharpnessSpec
