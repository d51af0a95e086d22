"""Scores of one data set, and their means over several."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from statistics import fmean
from typing import Any, Self, TypeVar

from tepui.core.checks import require
from tepui.core.storage import finite_or_none


@dataclass(frozen=True, kw_only=True)
class TaskScores:
    """What is measured on one data set; NaN where a quantity is not defined.

    Which scores there are depends on the task. Fields that hold one value per
    member are tuples.

    Attributes:
        custom: Values of the caller's own metrics, by name.
    """

    custom: Mapping[str, float] = field(default_factory=dict)

    def values(self) -> dict[str, float]:
        """Return the scores of the ensemble by name, the caller's own last."""
        return {n: getattr(self, n) for n in score_names(type(self))} | dict(
            self.custom
        )

    def lists(self) -> dict[str, tuple[float, ...]]:
        """Return what there is for each member, by name."""
        return {name: getattr(self, name) for name in list_names(type(self))}

    def pooled(self) -> Self:
        """Return means with ratios taken anew of what they are ratios of."""
        return self

    def in_unit(self, scale: float) -> Self:
        """Return scores of targets that many times as large, if they have a unit."""
        return self

    def document(self) -> dict[str, Any]:
        """Return all scores for JSON, with None for what is undefined."""
        return dict(finite_or_none(self.values() | self.lists()))


Some = TypeVar("Some", bound=TaskScores)


def score_names(kind: type[TaskScores]) -> tuple[str, ...]:
    """Return the names of the scores that are one number."""
    lists = {*list_names(kind), "custom"}
    return tuple(item.name for item in fields(kind) if item.name not in lists)


def list_names(kind: type[TaskScores]) -> tuple[str, ...]:
    """Return the names of the scores that are one number per member."""
    return tuple(item.name for item in fields(kind) if item.name.startswith("member_"))


def taken_names(kind: type[TaskScores]) -> tuple[str, ...]:
    """Return the names that a custom metric cannot have beside such scores."""
    others = ("custom", "type", "severity")
    return (*score_names(kind), *list_names(kind), *others)


def mean_scores(several: Iterable[Some]) -> Some:
    """Return the mean of every score over several data sets of one size."""
    rows = list(several)
    require(len(rows) > 0, "several", "hold at least one", 0)
    kind = type(rows[0])
    mean: dict[str, Any] = {
        name: fmean(getattr(row, name) for row in rows) for name in score_names(kind)
    }
    for name in list_names(kind):
        columns = zip(*(getattr(row, name) for row in rows), strict=True)
        mean[name] = tuple(fmean(column) for column in columns)
    own = rows[0].custom
    mean["custom"] = {name: fmean(row.custom[name] for row in rows) for name in own}
    return kind(**mean).pooled()
