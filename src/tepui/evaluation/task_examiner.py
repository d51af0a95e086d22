"""Outputs of any task but the plain choice between classes, as they go by."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.task import Task
from tepui.data.loading import length
from tepui.ensembles.predicted import prediction_of
from tepui.evaluation.applied import Applied
from tepui.evaluation.by_class import names_of
from tepui.evaluation.custom_metrics import Metric, metric_values
from tepui.evaluation.examiner import Batches, Labeled, joined, rows_of
from tepui.evaluation.feature_scores import Watched, scores_of
from tepui.evaluation.label_stream import LabelStream, PixelStream
from tepui.evaluation.number_stream import NumberStream
from tepui.evaluation.output_stream import OutputStream
from tepui.evaluation.stored_logits import LogitStore
from tepui.evaluation.task_scores import (
    LabelScores,
    NumberScores,
    OutputScores,
    PixelScores,
    TaskScores,
)
from tepui.metrics import Rule

Stream = PixelStream | LabelStream | NumberStream | OutputStream
KINDS: dict[str, type[TaskScores]] = {
    "classification": PixelScores,
    "multi_label": LabelScores,
    "regression": NumberScores,
    "gaussian": NumberScores,
    "quantiles": NumberScores,
    "unknown": OutputScores,
}


@final
@dataclass(frozen=True)
class TaskExaminer:
    """Goes once through the outputs of each data set."""

    batches: Callable[[Dataset[Any]], Batches]  # outputs and targets of a data set
    task: Task
    rule: Rule
    metrics: Mapping[str, Metric]  # the caller's own, which need all outputs at once
    stored: LogitStore | None
    applied: Applied | None = None  # what the ensemble does to its outputs
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
        stream: Stream | None = None
        applied = None if self.applied is None else self.applied.stream()
        ranked: list[dict[str, Tensor]] = []
        whole: list[tuple[Tensor, Tensor]] = []
        start = 0
        for outputs, targets in self.batches(data):
            stream = stream or stream_of(self.task, len(outputs), self.rule)
            try:
                stream.update(outputs, targets)
            except ValueError as error:
                raise ValueError(f"{argument}: {error}") from error
            if applied is not None:
                applied.update(outputs, targets)
            if self.stored is not None:
                self.stored.put(name, length(data), start, outputs, targets)
            if familiar:
                ranked.append(unfamiliarity(self.task, outputs))
            if self.metrics:
                whole.append((outputs, targets))
            start += outputs.shape[1]
        assert stream is not None, "a data set holds at least one sample"
        custom = {}
        if whole:
            parts, answers = zip(*whole, strict=True)
            every = torch.cat(parts, dim=1), torch.cat(answers)
            custom = metric_values(self.metrics, *every)
        outs = outputs.shape[2] if outputs.ndim > 2 else 1
        sizes = len(outputs), start, outs
        measured, bins = stream.result(custom)
        after = None if applied is None else applied.result()
        kept = joined(ranked) | (scores_of(self.watched) if familiar else {})
        rows = None
        if each_class and (rates := stream.rates()) is not None:
            rows = rows_of(rates, names_of(data, outs), applied)
        found = sizes, measured, bins, kept, stream.losses()
        return Labeled(*found, {}, {}, after, by_class=rows)

    def unlabeled(self, name: str, data: Dataset[Any]) -> dict[str, Tensor]:
        """Return the scores of each sample of unfamiliar data."""
        ranked, start = [], 0
        for outputs, _ in self.batches(data):
            if self.stored is not None:
                self.stored.put(name, length(data), start, outputs, None)
            ranked.append(unfamiliarity(self.task, outputs))
            start += outputs.shape[1]
        return joined(ranked) | scores_of(self.watched)


def stream_of(task: Task, members: int, rule: Rule) -> Stream:
    """Return what adds up the scores of a task."""
    if task.name == "classification":
        return PixelStream(members, rule)
    if task.name == "multi_label":
        return LabelStream(rule)
    if task.name == "unknown":
        return OutputStream()
    return NumberStream(task)


def unfamiliarity(task: Task, outputs: Tensor) -> dict[str, Tensor]:
    """Return how unfamiliar each sample looks by each score that the task has."""
    out = prediction_of(outputs, task)
    scores: dict[str, Tensor] = {}
    if task.name in ("classification", "multi_label"):
        for score in ("entropy", "mutual_information"):
            scores[score] = out.ood_score(score)
        return scores
    names = {"gaussian": ("total_uncertainty", "epistemic"), "unknown": ("spread",)}
    for name in names.get(task.name, ("epistemic",)):
        scores[name] = getattr(out, name)
    if task.name == "quantiles" and len(task.levels) > 1:
        scores["interval_width"] = out.quantiles[-1] - out.quantiles[0]
    return {
        name: value.flatten(1).mean(1) if value.ndim > 1 else value
        for name, value in scores.items()
    }
