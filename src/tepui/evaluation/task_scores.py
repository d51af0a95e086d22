"""Scores of one data set by its task, and their means over several."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from statistics import fmean
from typing import Any, TypeVar

from tepui.core.checks import require
from tepui.core.storage import finite_or_none


@dataclass(frozen=True, kw_only=True)
class TaskScores:
    """What is measured on one data set; NaN where a quantity is not defined.

    Which scores there are depends on the task: :class:`Scores` of classes,
    :class:`LabelScores`, :class:`PixelScores`, :class:`NumberScores`,
    :class:`OutputScores`. Fields that hold one value per member or label are tuples.

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
        """Return what there is for each member, or each label, by name."""
        return {name: getattr(self, name) for name in list_names(type(self))}

    def document(self) -> dict[str, Any]:
        """Return all scores for JSON, with None for what is undefined."""
        return dict(finite_or_none(self.values() | self.lists()))


@dataclass(frozen=True, kw_only=True)
class NumberScores(TaskScores):
    """Scores of predicted numbers.

    Attributes:
        individual_rmse: Mean over members of the root of their mean squared error.
        rmse: That of the ensemble's mean, or median where members give quantiles.
        improvement: By how much the ensemble's is smaller.
        spread: Mean standard deviation over members.
        nll: Negative log-likelihood, where members give variances.
        crps: Continuous ranked probability score; of members without variances, of
            their answers alone; not of quantiles, which are no whole distribution.
        quantile_loss: Twice the mean pinball loss of quantiles, comparable between
            equal levels alone.
        nominal_coverage: The share of targets that intervals promise to hold.
        interval_coverage: The share that they hold.
        interval_width: Their mean width.
        quantile_calibration: Mean distance between the levels of quantiles and the
            share of targets below them.
        member_rmses: Root mean squared error of each member.
    """

    individual_rmse: float
    rmse: float
    improvement: float
    spread: float
    nll: float
    crps: float
    quantile_loss: float
    nominal_coverage: float
    interval_coverage: float
    interval_width: float
    quantile_calibration: float
    member_rmses: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class LabelScores(TaskScores):
    """Scores of labels that hold or not, over all labels.

    Attributes:
        individual_accuracy: Mean over members of the share of labels they tell right.
        accuracy: That of the ensemble.
        improvement: The ensemble's less that of its members.
        mean_average_precision: Mean over labels of the average precision.
        mean_auroc: Mean over labels of the area under the ROC curve, without those that
            all samples have or none.
        nll: Negative log-likelihood of a label.
        ece: Mean over labels of the calibration error.
        brier: Brier score of a label, as a choice between two classes.
        member_accuracies: Accuracy of each member.
        member_nlls: Negative log-likelihood of each member.
        label_eces: Calibration error of each label.
    """

    individual_accuracy: float
    accuracy: float
    improvement: float
    mean_average_precision: float
    mean_auroc: float = math.nan  # evaluations from before have none
    nll: float
    ece: float
    brier: float
    member_accuracies: tuple[float, ...]
    member_nlls: tuple[float, ...]
    label_eces: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class PixelScores(TaskScores):
    """Scores of the classes of pixels.

    Attributes:
        individual_accuracy: Mean over members of the share of pixels they tell right.
        accuracy: That of the ensemble.
        improvement: The ensemble's less that of its members.
        mean_iou: Mean over classes of intersection over union.
        disagreement: Share of pixels on which two members differ.
        nll: Negative log-likelihood.
        ece: Expected calibration error.
        brier: Brier score.
        member_accuracies: Accuracy of each member.
        member_nlls: Negative log-likelihood of each member.
    """

    individual_accuracy: float
    accuracy: float
    improvement: float
    mean_iou: float
    disagreement: float
    nll: float
    ece: float
    brier: float
    member_accuracies: tuple[float, ...]
    member_nlls: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class OutputScores(TaskScores):
    """What can be said of outputs whose meaning is not known.

    Attributes:
        spread: Mean standard deviation of the outputs over members.
        member_distances: Root mean squared distance of each member's outputs from the
            mean of the others'.
    """

    spread: float
    member_distances: tuple[float, ...]


Some = TypeVar("Some", bound=TaskScores)


def score_names(kind: type[TaskScores]) -> tuple[str, ...]:
    """Return the names of the scores that are one number."""
    lists = {*list_names(kind), "custom"}
    return tuple(item.name for item in fields(kind) if item.name not in lists)


def list_names(kind: type[TaskScores]) -> tuple[str, ...]:
    """Return the names of the scores that are one number per member or label."""
    prefixes = ("member_", "label_")
    return tuple(item.name for item in fields(kind) if item.name.startswith(prefixes))


def taken_names(kind: type[TaskScores]) -> tuple[str, ...]:
    """Return the names that a custom metric cannot have beside such scores."""
    others = ("custom", "type", "severity")
    return (*score_names(kind), *list_names(kind), *others)


def means(several: Iterable[Some]) -> Some:
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
    return kind(**mean)
