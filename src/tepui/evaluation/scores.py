"""The scores of an ensemble on one data set, and their means over several."""

import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from torch import Tensor

from tepui import metrics
from tepui.core.checks import one_of
from tepui.evaluation.custom_metrics import Metric, metric_values
from tepui.evaluation.task_scores import (
    Some,
    TaskScores,
    means,
    score_names,
)
from tepui.metrics import ClassRates, Reliability, Rule

Ratios = Literal["pooled", "mean"]


@dataclass(frozen=True, kw_only=True)
class Scores(TaskScores):
    """Scores of classes; NaN where a quantity is not defined.

    Attributes:
        individual_accuracy: Mean accuracy of the members.
        accuracy: Accuracy of the ensemble.
        improvement: The ensemble's accuracy less that of its members.
        disagreement: Share of samples on which two members differ.
        der: Disagreement over the members' error.
        eir: Share of the members' error that the ensemble removes.
        logit_variance: Variance of the logits over members, summed over classes.
        mean_kl: Mean divergence between two members' probabilities.
        unique_predictions: Mean number of different labels per sample.
        nll: Negative log-likelihood.
        ece: Expected calibration error.
        brier: Brier score.
        member_accuracies: Accuracy of each member.
        member_nlls: Negative log-likelihood of each member.
    """

    individual_accuracy: float
    accuracy: float
    improvement: float
    disagreement: float
    der: float
    eir: float
    logit_variance: float
    mean_kl: float
    unique_predictions: float
    nll: float
    ece: float
    brier: float
    member_accuracies: tuple[float, ...]
    member_nlls: tuple[float, ...]


SCORE_NAMES = score_names(Scores)


def scores(
    logits: Tensor,
    labels: Tensor,
    *,
    rule: Rule = "probability",
    metrics: Mapping[str, Metric] | None = None,
) -> Scores:
    """Return all scores of an ensemble's logits."""
    return scores_and_bins(logits, labels, rule=rule, metrics=metrics)[0]


def scores_and_bins(
    logits: Tensor,
    labels: Tensor,
    *,
    rule: Rule = "probability",
    metrics: Mapping[str, Metric] | None = None,
) -> tuple[Scores, Reliability]:
    """Return all scores, and confidence and accuracy in bins, from one pass."""
    stream = ScoreStream(len(logits), rule)
    stream.update(logits, labels)
    return stream.result(metric_values(metrics or {}, logits, labels))


class ScoreStream:
    """All scores of logits that come in runs of samples."""

    def __init__(self, members: int, rule: Rule) -> None:
        self._together = metrics.Collection(**_streams(members, rule))

    def update(self, logits: Tensor, labels: Tensor) -> None:
        """Take in some samples."""
        self._together.update(logits, labels)

    def rates(self) -> ClassRates:
        """Return the scores of each class."""
        found: ClassRates = self._together.streams["rates"].compute()
        return found

    def result(self, custom: Mapping[str, float]) -> tuple[Scores, Reliability]:
        """Return the scores with the caller's own, and the bins."""
        with warnings.catch_warnings():
            # A member without errors leaves ratios undefined; the scores say NaN.
            warnings.simplefilter("ignore", UserWarning)
            values = self._together.compute()
        bins, _ = values.pop("reliability"), values.pop("rates")
        accuracies = tuple(values["individual_accuracy"].tolist())
        nlls = tuple(values.pop("individual_nll").tolist())
        values["individual_accuracy"] = values["individual_accuracy"].mean()
        scalars = {name: float(value) for name, value in values.items()}
        scalars["improvement"] = scalars["accuracy"] - scalars["individual_accuracy"]
        undefined = dict.fromkeys(SCORE_NAMES, math.nan)
        measured = Scores(
            **undefined | scalars,
            member_accuracies=accuracies,
            member_nlls=nlls,
            custom=custom,
        )
        return measured, bins


def mean_scores(several: Iterable[Some], ratios: Ratios = "pooled") -> Some:
    """Return scores over several data sets of one size."""
    one_of("ratios", ratios, get_args(Ratios))
    mean = means(several)
    if isinstance(mean, Scores) and ratios == "pooled":
        error = 1 - mean.individual_accuracy
        der = mean.disagreement / error if error > 0 else math.nan
        eir = mean.improvement / error if error > 0 else math.nan
        return replace(mean, der=der, eir=eir)
    return mean


def _streams(members: int, rule: Rule) -> dict[str, metrics.LogitsStreaming[Any]]:
    """Return the metrics; those of pairs only where there are pairs."""
    streams: dict[str, metrics.LogitsStreaming[Any]] = {
        "reliability": metrics.ReliabilityDiagram(rule=rule),
        "rates": metrics.ClassScores(rule=rule),
        "individual_accuracy": metrics.IndividualAccuracy(),
        "individual_nll": metrics.IndividualNLL(),
        "accuracy": metrics.Accuracy(rule=rule),
        "eir": metrics.EIR(rule=rule),
        "unique_predictions": metrics.UniquePredictions(),
        "nll": metrics.NLL(rule=rule),
        "ece": metrics.ECE(rule=rule),
        "brier": metrics.Brier(rule=rule),
    }
    if members > 1:
        streams |= {
            "disagreement": metrics.Disagreement(),
            "der": metrics.DER(),
            "logit_variance": metrics.LogitVariance(),
            "mean_kl": metrics.MeanKL(),
        }
    return streams
