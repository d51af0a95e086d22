"""Evaluating an ensemble: outputs once per data set, and every metric from them.

Outputs go by in runs of samples. What is kept are sums, and of unfamiliar data and the
test data beside them a few numbers per sample; how many samples there are does not
matter for the memory. Logits are regrouped into the runs of samples that metrics work
on, so that every sum is taken in the same order as over all at once, bit for bit. A few
numbers per sample are kept where a score is ranked (AUROC and its kin).

Several processes can share the batches: each runs every so-manyth through the members,
and the logits of as many batches as there are processes are exchanged at a time, so
that each of them computes the same scores, in the same order, as one process.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, final, get_args

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.checks import one_of, require
from tepui.core.precision import Precision, precision_on
from tepui.core.replacing import check_writable
from tepui.core.spec import check_same
from tepui.core.types import check_types
from tepui.data.identity import fingerprint, same_data
from tepui.data.labels import class_names, class_subset, relabel, same_classes
from tepui.data.loading import length
from tepui.data.preparation import Preparation
from tepui.data.shifts import NATURAL, Cell, Shifts, named
from tepui.data.sources import tested_on
from tepui.ensembles.ensemble import Ensemble
from tepui.ensembles.feature_detectors import joined_scores, scoring
from tepui.ensembles.outputs import Batches, logit_batches
from tepui.evaluation.applied import Applied, AppliedScores, applied_by
from tepui.evaluation.by_class import by_class, names_of
from tepui.evaluation.dead_members import warn_of_dead_members
from tepui.evaluation.evaluations import (
    CLEAN,
    CORRUPTED,
    LOGITS,
    calibration_digest,
    file_of,
    forget,
    is_of_another,
    write_evaluation,
)
from tepui.evaluation.ood import check_ood, detections, found_mistakes, selective
from tepui.evaluation.results import Evaluation, pooled
from tepui.evaluation.stored_logits import LogitStore, LogitType, storing_logits
from tepui.metrics import Reliability, Rule, restrict_classes
from tepui.modules.running import device_of
from tepui.modules.state import weights_digest
from tepui.tasks.base import Losses, Stream, Task
from tepui.tasks.named import settled
from tepui.tasks.scores import TaskScores, taken_names

# What tells corrupted copies of the test data from others.
ABOUT_COPIES = ("cells", "strength", "seed", "copies")

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


def evaluate(
    ensemble: Ensemble,
    dataset: Dataset[Any],
    *,
    shifted: Mapping[Cell, Dataset[Any]] | Mapping[str, Dataset[Any]] | None = None,
    ood: Mapping[str, Dataset[Any]] | None = None,
    classes: Classes | Tensor = "held",
    metrics: Mapping[str, Metric] | None = None,
    rule: Rule = "probability",
    batch_size: int = 1024,
    workers: int = 0,
    precision: Precision = "tf32",
    out: str | Path | None = None,
    overwrite: bool = False,
    logits_in: LogitType = "float32",
    exchange: Any = None,
) -> Evaluation:
    """Evaluate an ensemble by its task.

    Which scores there are depends on what outputs mean, see
    :class:`~tepui.tasks.TaskScores`. Members that did not learn, or lie far behind
    the others, are named in a warning.

    Memory does not grow with the data, unless ``metrics`` are given: these are called
    with all logits of a data set.

    Args:
        ensemble: What to evaluate, where it lies.
        dataset: Clean test data.
        shifted: Shifted test data: natural shifts by name, such as
            ``{"sketch": sketches}``, in the form of the test data; where some of its
            named classes are missing, labels go by the names. Or by (type, severity),
            such as ``tepui.data.corrupted(dataset)``, whose copies are made where the
            ensemble lies; or both, ``corrupted(dataset) | {"sketch": …}``.
        ood: Unfamiliar data by name, in the form of the test data, see
            :func:`tepui.data.prepared_like`. Their labels are ignored.
        classes: Between which classes members choose; the logits of others are left
            out. ``"held"``: those the data set holds by its attribute ``class_subset``,
            such as 200 of 1000 for ``ImageNetA``, and all where it has none; a shifted
            set goes by its own, if it has one. ``"all"``. Or a mask ``(classes,)``,
            such as that of the set whose features are ``dataset``.
        metrics: Metrics of your own by name: functions of logits ``(members, samples,
            classes)`` and labels that return a scalar. They appear among the scores of
            clean and shifted data, under :attr:`Scores.custom`; over several data sets
            their mean is taken.
        rule: How members are combined; of no effect on numbers.
        batch_size: Samples that go through a member at once.
        workers: Processes that load a data set of your own.
        precision: What members compute in on a GPU: ``"float32"``; ``"tf32"``, which
            rounds what enters matrix products; ``"bfloat16"``. A CPU computes in
            float32.
        out: A folder for the scores, in one file for each data set, and beside it the
            logits between the classes left, so that other metrics need no model. What
            is there of the same ensemble on further data sets stays.
        overwrite: Replace what is there of these data sets, or all of it if it is of
            another ensemble, other test data or settings.
        logits_in: The type of the logits in ``out``; ``"float16"`` takes half the space
            of ``"float32"``, ``"none"`` leaves them out. No score depends on it.

        exchange: Processes that share the batches, such as those of torchrun
            (``tepui.training.exchange_here()``): each of them calls this, with the same
            ensemble and data, and gets the same scores as one alone; one of them
            writes. By default this process does all.

    Returns:
        The scores.

    Raises:
        FileExistsError: If an evaluation on one of these data sets, or of another
            ensemble, is there and ``overwrite`` is false.
        ValueError: If ``rule`` or ``precision`` is unknown, a member cannot take the
            data, a table was standardized by other rows than those of the training, a
            label is of a class that is left out, or a metric returns something other
            than a scalar.

    Example:
        >>> import tepui
        >>> data = tepui.data.Arrays(torch.randn(30, 4), torch.arange(30) % 3)
        >>> ensemble = tepui.Ensemble.build(lambda: torch.nn.Linear(4, 3), members=2)
        >>> 0 <= evaluate(ensemble, data).clean.accuracy <= 1
        True
        >>> steep = lambda logits, labels: logits.std(-1).mean()
        >>> evaluate(ensemble, data, metrics={"steep": steep}).clean.custom["steep"] > 0
        True
    """
    check_types(evaluate, locals() | {"shifted": None})  # which has a rule of its own
    cells, others, own = Shifts.of(shifted), ood or {}, metrics or {}
    _check_sets(ensemble, dataset, cells, others)
    task, shape = task_on(ensemble, dataset)
    check_metrics(own, taken_names(task.scores_of(shape)))
    if task.choices(shape) is None:
        unmasked = f"be left out for the task {str(task)!r}"
        require(isinstance(classes, str), "classes", unmasked, "a mask")
        classes = "all"
    # Processes that share batches have features of their own.
    detectors = ensemble.detectors if exchange is None else None
    needed = "be None, or how processes reach each other (training.exchange_here())"
    there = exchange is None or hasattr(exchange, "writer")
    require(there, "exchange", needed, exchange)
    writer = exchange is None or exchange.writer
    of: dict[str, Any] = {"rule": rule, "metrics": [*own], "precision": precision}
    of["classes"] = classes if isinstance(classes, str) else classes.tolist()
    of["detectors"], about = detectors is not None, {}
    if out is not None or exchange is not None:
        of["ensemble"] = weights_digest(ensemble)
        of["calibration"] = calibration_digest(ensemble)
        about = tested_on(dataset, cells, others)
    if out is not None:
        copies = [CORRUPTED] if cells.copies else []
        asked = [CLEAN, *copies, *cells.natural, *others]
        replaced = is_of_another(out, asked, of, about["test"], overwrite=overwrite)
        check_writable(Path(out))
    cells = cells.made_on(device_of(ensemble))
    with ExitStack() as stack:
        outputs = logit_batches
        if exchange is not None:
            stack.enter_context(exchange.attending())
            how: dict[str, Any] = {"batch_size": batch_size, "logits_in": logits_in}
            check_same(exchange.everywhere(of | about | how))
            outputs = partial(shared_logit_batches, exchange)
        how = {"batch_size": batch_size, "workers": workers, "precision": precision}
        batches = partial(outputs, ensemble, **how)
        score = stack.enter_context(scoring(ensemble, detectors))
        stored = None
        if out is not None and writer and logits_in != "none":
            storing = storing_logits(out, rule, cells, others, logits_in, task)
            stored = stack.enter_context(storing)
        left, applied = classes_left(classes, dataset), applied_by(ensemble, task, rule)
        given = batches, score, task, shape, classes, left, rule, own, stored, applied
        known = ensemble.preparation or Preparation()
        examiner = Examiner(*given, far=bool(others), unit=known.unit)
        clean = examiner.labeled(CLEAN, dataset, "dataset", familiar=True)
        shifts = examiner.shifted(cells, dataset)
        far = {name: examiner.unlabeled(name, data) for name, data in others.items()}
        if out is not None and writer and replaced:
            forget(out)
    if clean.losses is not None and writer:
        warn_of_dead_members(clean.losses, "the test data")
    fitted_on = ensemble.calibrated_on
    found = _evaluation(
        clean,
        shifts,
        far,
        rule=rule,
        task=task,
        precision=precision_on(device_of(ensemble), precision),
        seen=known.seen,
        fitted_on_test=clean.applied is not None
        and same_data(fitted_on, fingerprint(dataset)),
    )
    if out is not None and writer:
        documents = found.documents()
        for name in documents if logits_in == "none" else ():
            file_of(out, name, LOGITS).unlink(missing_ok=True)
        parts = {n: {"about": _about(n, about), "of": of} for n in documents}
        write_evaluation(out, {n: parts[n] | own for n, own in documents.items()})
    return found


def _check_sets(
    ensemble: Ensemble,
    dataset: Dataset[Any],
    cells: Shifts,
    ood: Mapping[str, Dataset[Any]],
) -> None:
    """Raise unless the data sets can be told apart, and are in the form of the test."""
    cells.check()
    check_ood(ood, dataset)
    for name in ood:
        free = name not in (CLEAN, CORRUPTED, *cells.natural)
        require(free, "ood", "have names that no other data have", name)
    if ensemble.preparation is not None:
        ensemble.preparation.check_table(dataset)


def _about(name: str, about: Mapping[str, Any]) -> dict[str, Any]:
    """Return what tells one data set of an evaluation from another."""
    if name == CLEAN:
        return {"test": about["test"], "cells": []}
    if name == CORRUPTED:
        return {part: about[part] for part in ABOUT_COPIES if part in about}
    kinds = ("natural", "ood")
    return {k: {name: about[k][name]} for k in kinds if name in about.get(k, {})}


def _evaluation(
    clean: Labeled,
    copies: Mapping[Cell, Labeled],
    far: Mapping[str, Mapping[str, Tensor]],
    **known: Any,
) -> Evaluation:
    """Join what was kept of each data set, and what else is known."""
    members, samples, choices = clean.shape
    cells = copies.items()
    bins = (copy.bins for (_, hard), copy in cells if hard != NATURAL)
    known_bins = {"clean": clean.bins, "shifted": pooled(bins)}
    return Evaluation(
        members=members,
        samples=samples,
        classes=choices,
        clean=clean.scores,
        shifted={cell: copy.scores for cell, copy in cells},
        reliability={n: each for n, each in known_bins.items() if each is not None},
        ood={name: detections(clean.unfamiliarity, each) for name, each in far.items()},
        applied=clean.applied,
        applied_shifted={
            cell: copy.applied for cell, copy in cells if copy.applied is not None
        },
        **clean.more,
        **known,
    )


def task_on(ensemble: Ensemble, dataset: Dataset[Any]) -> tuple[Task, tuple[int, ...]]:
    """Return what outputs mean, and their shape of one sample."""
    length(dataset)
    outputs, _ = next(logit_batches(ensemble, dataset, 1, rows=[torch.arange(1)]))
    shape = tuple(outputs.shape)
    return settled(ensemble.task, shape), shape


def shared_logit_batches(
    processes: Any,
    ensemble: Ensemble,
    dataset: Dataset[Any],
    batch_size: int,
    workers: int,
    precision: Precision,
) -> Batches:
    """Yield the logits and labels of all batches, of which this process runs some."""
    require(batch_size > 0, "batch_size", "be positive", batch_size)
    device = device_of(ensemble)
    samples = length(dataset)
    told = processes.everywhere({"samples": samples})
    check_same(told)  # who has fewer would be in the next data set before the others
    rows = torch.arange(samples).split(batch_size)
    own = [*processes.owned(len(rows))]
    mine = [rows[number] for number in own]
    batches = logit_batches(ensemble, dataset, batch_size, workers, precision, mine)
    together = len(told) // processes.sharing
    for first in range(0, len(rows), together):
        shown = {n: next(batches) for n in own if first <= n < first + together}
        for logits, labels in processes.collect(shown):
            yield logits.to(device), labels.to(device)


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
        more: dict[str, Any] = {}
        if familiar and (rates := stream.rates()) is not None:
            names = names_of(data, outs, self._mask(data))
            sums = None if applied is None else applied.set_sums
            more["by_class"] = by_class(rates, names, sums)
        if answered:
            right, called = map(torch.cat, zip(*answered, strict=True))
            mistaken = right != called
            more["mistakes"] = found_mistakes(by_sample, mistaken)
            more["selective"] = selective(by_sample, mistaken)
            more["majority"] = float(right.long().bincount().max()) / len(right)
        return Labeled(
            *((len(outputs), start, outs), measured.in_unit(self.unit), bins),
            *(by_sample, stream.losses()),
            applied=None if applied is None else applied.result(),
            more=more,
        )

    def shifted(
        self, cells: Mapping[Cell, Dataset[Any]], dataset: Dataset[Any]
    ) -> dict[Cell, Labeled]:
        """Return what is kept of each shifted data set."""
        found, names = {}, class_names(dataset)
        for cell, data in cells.items():
            argument, shifted = named(cell), relabel(data, names)
            same_classes(argument, class_names(shifted), names, "dataset")
            found[cell] = self.labeled("{}/{}".format(*cell), shifted, argument)
        return found

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
        values: dict[str, float] = {}
        if self.metrics:
            outputs, targets = zip(*runs, strict=True)
            whole = torch.cat(outputs, dim=1), torch.cat(targets)
        for name, metric in self.metrics.items():
            with torch.no_grad():
                value = metric(*whole)
            shape = tuple(getattr(value, "shape", ()))
            require(shape == (), f"metrics[{name!r}]", "return a scalar", shape)
            values[name] = float(value)
        return values


def classes_left(classes: Classes | Tensor, dataset: Dataset[Any]) -> Tensor | None:
    """Return which classes members choose between on a data set; None for all."""
    if isinstance(classes, Tensor):
        return classes
    one_of("classes", classes, get_args(Classes))
    return class_subset(dataset) if classes == "held" else None


def check_metrics(metrics: Mapping[str, Metric], taken: tuple[str, ...]) -> None:
    """Check that metrics are functions whose names are not those of built-in scores."""
    for name, metric in metrics.items():
        require(callable(metric), f"metrics[{name!r}]", "be a function", metric)
        free = name not in taken
        require(free, "metrics", "have other names than the built-in scores", name)
