"""Outputs of a data set as they go by, and what is kept of them.

Batches of logits are regrouped into the runs of samples that metrics work on, so that
every sum is taken in the same order as over all at once: the results are the same to
the bit. A few numbers per sample are kept where a score is ranked (AUROC and its kin).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple, final

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.checks import require
from tepui.data.loading import length
from tepui.ensembles.feature_detectors import joined_scores
from tepui.evaluation.applied import Applied, AppliedScores
from tepui.evaluation.by_class import (
    ByClass,
    Confusion,
    by_class,
    confusions,
    majority_share,
    names_of,
)
from tepui.evaluation.dataset_logits import (
    Batches,
    Classes,
    Watched,
    classes_left,
)
from tepui.evaluation.ood import Detection, Selective, found_mistakes, selective
from tepui.evaluation.stored_logits import LogitStore
from tepui.metrics import Reliability, Rule, restrict_classes
from tepui.tasks.base import Losses, Stream, Task
from tepui.tasks.scores import TaskScores

Metric = Callable[[Tensor, Tensor], Any]
"""A function of logits ``(members, samples, classes)`` and labels: a scalar."""


class Labeled(NamedTuple):
    """What is kept of the outputs of a data set with targets."""

    shape: tuple[int, int, int]  # members, samples, classes or outputs
    scores: TaskScores
    bins: Reliability | None  # where there are probabilities
    unfamiliarity: dict[str, Tensor]  # scores of each sample, where they were asked for
    losses: Losses | None  # of members, beside that of a guess, where there is one
    mistakes: Mapping[str, Detection] = {}  # how well each score finds them, if asked
    selective: Mapping[str, Selective] = {}  # what is left without the highest scores
    applied: AppliedScores | None = None  # after calibration, where there is one
    majority: float | None = None  # share of the most frequent class, where asked for
    by_class: ByClass | None = None  # scores of each class, or label, where asked for
    confusions: tuple[Confusion, ...] = ()  # what missed samples of classes were called


@final
@dataclass(frozen=True)
class Examiner:
    """Goes once through the outputs of each data set."""

    batches: Watched  # outputs and targets of a data set, whose features are scored
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

    def labeled(
        self,
        name: str,
        data: Dataset[Any],
        argument: str,
        *,
        familiar: bool = False,
        rows: bool = False,
    ) -> Labeled:
        """Return scores of test data, and where asked for of each sample or class."""
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
        by_sample = joined_scores(ranked) | (self.batches.scores() if ranked else {})
        names = names_of(data, outs, self._mask(data)) if rows else ()
        rates = stream.rates() if rows else None
        sets = () if applied is None else (applied.rates(), applied.set_sums)
        found = Labeled(
            *((len(outputs), start, outs), measured.in_unit(self.unit), bins),
            *(by_sample, stream.losses()),
            applied=None if applied is None else applied.result(),
            by_class=None if rates is None else by_class(rates, names, *sets),
        )
        if not answered:
            return found
        right, called = map(torch.cat, zip(*answered, strict=True))
        mistaken = right != called
        return found._replace(
            mistakes=found_mistakes(by_sample, mistaken),
            selective=selective(by_sample, mistaken),
            majority=majority_share(right),
            confusions=confusions(right, called, names),
        )

    def unlabeled(self, name: str, data: Dataset[Any]) -> dict[str, Tensor]:
        """Return the scores of each sample of unfamiliar data."""
        runs = self._runs(name, data, None)
        scores = joined_scores(
            [self.task.unfamiliarity(outputs) for outputs, _ in runs]
        )
        return scores | self.batches.scores()

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
        for outputs, targets in self.batches(data):
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


def check_metrics(metrics: object, taken: tuple[str, ...]) -> None:
    """Check that metrics are functions whose names are not those of built-in scores."""
    rule = "map names to functions of logits and labels"
    if not isinstance(metrics, Mapping):
        raise ValueError(f"metrics must {rule}, got {type(metrics).__name__}")
    for name, metric in metrics.items():
        require(isinstance(name, str) and name != "", "metrics", rule, name)
        require(callable(metric), f"metrics[{name!r}]", "be a function", metric)
        free = name not in taken
        require(free, "metrics", "have other names than the built-in scores", name)


def _value(argument: str, metric: Metric, logits: Tensor, labels: Tensor) -> float:
    versions = logits._version, labels._version
    result = metric(logits, labels)
    unchanged = (logits._version, labels._version) == versions
    require(unchanged, argument, "leave logits and labels unchanged", "changed ones")
    scalar = isinstance(result, Tensor | Real) and getattr(result, "shape", ()) == ()
    got = getattr(result, "shape", type(result).__name__)
    require(scalar, argument, "return a scalar", got)
    return float(result)
