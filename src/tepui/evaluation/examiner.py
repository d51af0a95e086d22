"""Logits of a data set as they go by, and what is kept of them.

Batches are regrouped into the runs of samples that metrics work on, so that every sum
is taken in the same order as over all logits at once: the results are the same to the
bit. A few numbers per sample are kept where a score is ranked (AUROC and its kin).
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.checks import class_indices, logits_shape
from tepui.core.probabilities import warn_of_probabilities
from tepui.data.loading import length
from tepui.evaluation.applied import Applied, AppliedScores, AppliedStream
from tepui.evaluation.by_class import ByClass, by_class, names_of
from tepui.evaluation.confusions import Confusion, confusions
from tepui.evaluation.custom_metrics import Metric, metric_values
from tepui.evaluation.dataset_logits import Classes, classes_left
from tepui.evaluation.dead_members import Losses
from tepui.evaluation.feature_scores import Watched, scores_of
from tepui.evaluation.majority import majority_share
from tepui.evaluation.ood import Detection, Selective, found_mistakes, selective
from tepui.evaluation.scores import ScoreStream
from tepui.evaluation.stored_logits import LogitStore
from tepui.evaluation.task_scores import TaskScores
from tepui.metrics import (
    ClassRates,
    Reliability,
    Rule,
    ensemble_predictions,
    ood_scores,
    restrict_classes,
)
from tepui.metrics.chunks import regrouped

Batches = Iterator[tuple[Tensor, Tensor]]


class Labeled(NamedTuple):
    """What is kept of the outputs of a data set with targets."""

    shape: tuple[int, int, int]  # members, samples, classes or outputs
    scores: TaskScores
    bins: Reliability | None  # where there are probabilities
    unfamiliarity: dict[str, Tensor]  # scores of each sample, where they were asked for
    losses: Losses | None  # of members, beside that of a guess, where there is one
    mistakes: dict[str, Detection]  # how well each score finds them, where asked for
    selective: dict[str, Selective]  # and what is left without the highest scores
    applied: AppliedScores | None = None  # after calibration, where there is one
    majority: float | None = None  # share of the most frequent class, where asked for
    by_class: ByClass | None = None  # scores of each class, or label, where asked for
    confusions: tuple[Confusion, ...] = ()  # what missed samples of classes were called


@final
@dataclass(frozen=True)
class Examiner:
    """Goes once through the logits of each data set."""

    batches: Callable[[Dataset[Any]], Batches]  # logits and labels of a data set
    classes: Classes | Tensor
    mask: Tensor | None  # the classes that members choose between on the test data
    rule: Rule
    metrics: Mapping[str, Metric]  # the caller's own, which need all logits at once
    stored: LogitStore | None
    applied: Applied | None = None  # what the ensemble does to its logits
    watched: Watched | None = None  # the batches, where features are scored too

    def labeled(
        self,
        name: str,
        data: Dataset[Any],
        argument: str,
        *,
        familiar: bool = False,
        each_class: bool = False,
    ) -> Labeled:
        """Return scores of test data, and where asked for of each sample or class."""
        stream: ScoreStream | None = None
        applied = None
        # What was fitted on all classes says nothing of some of them.
        if self.applied is not None and self._mask(data) is None:
            applied = self.applied.stream()
        ranked: list[dict[str, Tensor]] = []
        called: list[Tensor] = []
        answers: list[Tensor] = []
        whole: list[tuple[Tensor, Tensor]] = []
        for logits, labels in self._runs(name, self._numbered(data), data, argument):
            if familiar and stream is None:
                warn_of_probabilities(logits)
            stream = stream or ScoreStream(len(logits), self.rule)
            stream.update(logits, labels)
            if applied is not None:
                applied.update(logits, labels)
            if familiar:
                ranked.append(ood_scores(logits))
                called.append(ensemble_predictions(logits, rule=self.rule))
                answers.append(labels)
            if self.metrics:
                whole.append((logits, labels))
        assert stream is not None, "a data set holds at least one sample"
        custom = self._custom(whole)
        sizes = len(logits), length(data), logits.shape[2]
        scores, bins = stream.result(custom)
        losses = Losses(scores.member_nlls, math.log(logits.shape[2]))
        by_sample = joined(ranked)
        if familiar:
            by_sample |= scores_of(self.watched)
        after = None if applied is None else applied.result()
        kept = scores, bins, by_sample, losses
        names = names_of(data, sizes[2], self._mask(data))
        rows = rows_of(stream.rates(), names, applied) if each_class else None
        if not called:
            return Labeled(sizes, *kept, {}, {}, after, by_class=rows)
        both = torch.cat(answers), torch.cat(called)
        mistaken = both[0] != both[1]
        found = found_mistakes(by_sample, mistaken), selective(by_sample, mistaken)
        share, pairs = majority_share(both[0]), confusions(*both, names)
        return Labeled(sizes, *kept, *found, after, share, rows, pairs)

    def unlabeled(self, name: str, data: Dataset[Any]) -> dict[str, Tensor]:
        """Return the scores of each sample of unfamiliar data."""
        runs = self._runs(name, self._unnumbered(data), data, None)
        scores = joined([ood_scores(logits) for logits, _ in runs])
        return scores | scores_of(self.watched)

    def _runs(
        self, name: str, batches: Batches, data: Dataset[Any], argument: str | None
    ) -> Batches:
        """Yield runs of samples, checked and stored on the way."""
        start = 0
        for logits, labels in regrouped(batches):
            if argument is not None:
                class_indices(labels, logits.shape[-1], f"labels of {argument}")
            logits_shape(logits, first_sample=start)
            if self.stored is not None:
                answers = None if argument is None else labels
                self.stored.put(name, length(data), start, logits, answers)
            yield logits, labels
            start += logits.shape[1]

    def _numbered(self, data: Dataset[Any]) -> Batches:
        """Yield logits and labels of test data between the classes left."""
        mask = self._mask(data)
        for logits, labels in self.batches(data):
            if mask is None:
                yield logits, labels
            else:
                yield restrict_classes(logits, labels, mask.to(logits.device))

    def _mask(self, data: Dataset[Any]) -> Tensor | None:
        """Return the classes that members choose between on test data."""
        subset = classes_left(self.classes, data)
        return self.mask if subset is None else subset

    def _unnumbered(self, data: Dataset[Any]) -> Batches:
        """Yield logits of unfamiliar data, between the classes of the test data."""
        for logits, labels in self.batches(data):
            if self.mask is not None:
                logits = logits[..., self.mask.to(logits.device)]  # noqa: PLW2901
            yield logits, labels

    def _custom(self, runs: list[tuple[Tensor, Tensor]]) -> dict[str, float]:
        if not self.metrics:
            return {}
        logits, labels = zip(*runs, strict=True)
        return metric_values(self.metrics, torch.cat(logits, dim=1), torch.cat(labels))


def rows_of(
    rates: ClassRates, names: tuple[str, ...], applied: AppliedStream | None
) -> ByClass:
    """Return the scores of each class, by the outputs that the ensemble answers by."""
    if applied is None:
        return by_class(rates, names)
    return by_class(rates, names, applied.rates(), applied.set_sums)


def joined(runs: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Return the scores of all samples, one after the other."""
    names = runs[0] if runs else {}
    return {name: torch.cat([run[name] for run in runs]) for name in names}
