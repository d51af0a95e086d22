"""Outputs of a data set as they go by, and what is kept of them.

Batches of logits are regrouped into the runs of samples that metrics work on, so that
every sum is taken in the same order as over all at once: the results are the same to
the bit. A few numbers per sample are kept where a score is ranked (AUROC and its kin).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Literal, NamedTuple, final, get_args

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.checks import one_of, require
from tepui.data.labels import class_subset
from tepui.data.loading import length
from tepui.ensembles.feature_detectors import joined_scores
from tepui.ensembles.outputs import Batches
from tepui.evaluation.applied import Applied, AppliedScores
from tepui.evaluation.by_class import (
    by_class,
    names_of,
)
from tepui.evaluation.ood import found_mistakes, selective
from tepui.evaluation.stored_logits import LogitStore
from tepui.metrics import Reliability, Rule, restrict_classes
from tepui.tasks.base import Losses, Stream, Task
from tepui.tasks.scores import TaskScores

Classes = Literal["held", "all"]
"""Members choose between the classes that a data set holds, or between all."""

Metric = Callable[[Tensor, Tensor], Any]
"""A function of logits ``(members, samples, classes)`` and labels: a scalar."""


class Labeled(NamedTuple):
    """What is kept of the outputs of a data set with targets."""

    shape: tuple[int, int, int]  # members, samples, classes or outputs
    scores: TaskScores
    bins: Reliability | None  # where there are probabilities
    unfamiliarity: dict[str, Tensor]  # scores of each sample, where they were asked for
    losses: Losses | None  # of members, beside that of a guess, where there is one
    applied: AppliedScores | None = None  # after calibration, where there is one
    more: Mapping[str, Any] = {}  # of clean data: further fields of an evaluation


@final
@dataclass(frozen=True)
class Examiner:
    """Goes once through the outputs of each data set."""

    batches: Callable[[Dataset[Any]], Batches]  # outputs and targets of a data set
    score: Callable[[], dict[str, Tensor]]  # of a batch's features
    task: Task
    shape: tuple[int, ...]  # of the outputs of one sample
    classes: Classes | Tensor
    mask: Tensor | None  # the classes that members choose between on the test data
    rule: Rule
    metrics: Mapping[str, Metric]  # the caller's own, which need all outputs at once
    stored: LogitStore | None
    applied: Callable[[], Applied] | None = None  # what is done to outputs
    far: bool = False  # whether unfamiliar data follow, to compare scores with
    unit: float = 1.0  # of the numbers, in which scores are given
    seen: list[dict[str, Tensor]] = field(default_factory=list)  # scores of features

    def labeled(
        self,
        name: str,
        data: Dataset[Any],
        argument: str,
        *,
        familiar: bool = False,
    ) -> Labeled:
        """Return scores of test data; of familiar ones those of samples and classes."""
        stream: Stream | None = None
        applied, start = None, 0
        # What was fitted on all classes says nothing of some of them.
        if self.applied is not None and self._mask(data) is None:
            applied = self.applied()
        ranked: list[dict[str, Tensor]] = []
        answered: list[tuple[Tensor, Tensor]] = []
        whole: list[tuple[Tensor, Tensor]] = []
        for outputs, targets in self._runs(name, data, argument):
            if stream is None:
                stream = self.task.stream(outputs, self.rule)
                if familiar:
                    self.task.warn_of(outputs)
            try:
                stream.update(outputs, targets)
            except ValueError as error:
                raise ValueError(f"{argument}: {error}") from error
            if applied is not None:
                applied.update(outputs, targets)
            pair = self.task.answered(outputs, targets, self.rule) if familiar else None
            if pair is not None:
                answered.append(pair)
            if pair is not None or (familiar and self.far):
                ranked.append(self.task.unfamiliarity(outputs))
            if self.metrics:
                whole.append((outputs, targets))
            start += outputs.shape[1]
        assert stream is not None, "a data set holds at least one sample"
        measured, bins = stream.result(self._custom(whole))
        outs = outputs.shape[2] if outputs.ndim > 2 else 1
        by_sample = joined_scores(ranked) | (joined_scores(self.seen) if ranked else {})
        rates = stream.rates() if familiar else None
        names = () if rates is None else names_of(data, outs, self._mask(data))
        sums = None if applied is None else applied.set_sums
        found = Labeled(
            *((len(outputs), start, outs), measured.in_unit(self.unit), bins),
            *(by_sample, stream.losses()),
            applied=None if applied is None else applied.result(),
            more={} if rates is None else {"by_class": by_class(rates, names, sums)},
        )
        if not answered:
            return found
        right, called = map(torch.cat, zip(*answered, strict=True))
        mistaken = right != called
        more = {
            **found.more,
            "mistakes": found_mistakes(by_sample, mistaken),
            "selective": selective(by_sample, mistaken),
            "majority": float(right.long().bincount().max()) / len(right),
        }
        return found._replace(more=more)

    def unlabeled(self, name: str, data: Dataset[Any]) -> dict[str, Tensor]:
        """Return the scores of each sample of unfamiliar data."""
        runs = self._runs(name, data, None)
        scores = joined_scores(
            [self.task.unfamiliarity(outputs) for outputs, _ in runs]
        )
        return scores | joined_scores(self.seen)

    def _runs(self, name: str, data: Dataset[Any], argument: str | None) -> Batches:
        """Yield runs of samples between the classes left, checked and stored.

        Unfamiliar data, which are no argument, have the classes of the test data.
        """
        start = 0
        for outputs, targets in self.task.runs(
            self._between(data, argument is None), self.shape
        ):
            answers = None if argument is None else targets
            self.task.check(outputs, answers, argument or name, start)
            if self.stored is not None:
                self.stored.put(name, length(data), start, outputs, answers)
            yield outputs, targets
            start += outputs.shape[1]

    def _between(self, data: Dataset[Any], far: bool) -> Batches:
        mask = self.mask if far else self._mask(data)
        self.seen.clear()
        for outputs, targets in self.batches(data):
            self.seen.append(self.score())
            if mask is None:
                yield outputs, targets
            elif far:
                yield outputs[..., mask.to(outputs.device)], targets
            else:
                yield restrict_classes(outputs, targets, mask.to(outputs.device))

    def _mask(self, data: Dataset[Any]) -> Tensor | None:
        """Return the classes that members choose between on test data."""
        subset = classes_left(self.classes, data)
        return self.mask if subset is None else subset

    def _custom(self, runs: list[tuple[Tensor, Tensor]]) -> dict[str, float]:
        if not self.metrics:
            return {}
        outputs, targets = zip(*runs, strict=True)
        whole = torch.cat(outputs, dim=1), torch.cat(targets)
        with torch.no_grad():
            return {
                name: _value(f"metrics[{name!r}]", metric, *whole)
                for name, metric in self.metrics.items()
            }


def classes_left(classes: Classes | Tensor, dataset: Dataset[Any]) -> Tensor | None:
    """Return which classes members choose between on a data set; None for all."""
    if isinstance(classes, Tensor):
        fits = classes.ndim == 1 and classes.dtype == torch.bool
        rule = "be a boolean tensor of shape (classes,), or a word"
        got = f"{classes.dtype} of shape {tuple(classes.shape)}"
        require(fits, "classes", rule, got)
        return classes
    one_of("classes", classes, get_args(Classes))
    return class_subset(dataset) if classes == "held" else None


def check_metrics(metrics: Mapping[str, Metric], taken: tuple[str, ...]) -> None:
    """Check that metrics are functions whose names are not those of built-in scores."""
    rule = "map names to functions of logits and labels"
    for name, metric in metrics.items():
        require(isinstance(name, str) and name != "", "metrics", rule, name)
        require(callable(metric), f"metrics[{name!r}]", "be a function", metric)
        free = name not in taken
        require(free, "metrics", "have other names than the built-in scores", name)


def _value(argument: str, metric: Metric, logits: Tensor, labels: Tensor) -> float:
    result = metric(logits, labels)
    scalar = isinstance(result, Tensor | Real) and getattr(result, "shape", ()) == ()
    got = getattr(result, "shape", type(result).__name__)
    require(scalar, argument, "return a scalar", got)
    return float(result)
