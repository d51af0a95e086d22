"""Evaluating an ensemble: outputs once per data set, and every metric from them.

Outputs go by in runs of samples. What is kept are sums, and of unfamiliar data and the
test data beside them a few numbers per sample; how many samples there are does not
matter for the memory.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import torch  # noqa: F401 - the example uses it
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.agreement import check_same
from tepui.core.checks import one_of, require
from tepui.core.precision import Precision, precision_on
from tepui.core.replacing import check_writable
from tepui.core.types import check_types
from tepui.data.class_names import class_names, same_classes
from tepui.data.identity import data_digest
from tepui.data.loading import length
from tepui.data.numbered_as import numbered_as
from tepui.data.preparation import Preparation
from tepui.data.shifts import NATURAL, Cell, Shifts, named
from tepui.ensembles.ensemble import Ensemble
from tepui.ensembles.feature_detectors import FeatureDetectors
from tepui.evaluation.applied import applied_by
from tepui.evaluation.custom_metrics import Metric, check_metrics
from tepui.evaluation.dataset_logits import (
    Classes,
    classes_left,
    logit_batches,
    task_on,
)
from tepui.evaluation.dead_members import warn_of_dead_members
from tepui.evaluation.ensemble_digest import ensemble_digest
from tepui.evaluation.examiner import Batches, Examiner, Labeled
from tepui.evaluation.feature_scores import watching
from tepui.evaluation.kept_logits import KeptLogits
from tepui.evaluation.logit_identity import told_apart_by, written
from tepui.evaluation.ood import check_ood, detections_and_histograms
from tepui.evaluation.results import Evaluation, pooled
from tepui.evaluation.shared_batches import Processes, shared_logit_batches
from tepui.evaluation.stored_logits import LOGITS, LogitType, storing_logits
from tepui.metrics import Reliability, Rule
from tepui.modules.running import device_of
from tepui.tasks.base import Task
from tepui.tasks.scores import taken_names


def evaluate(
    ensemble: Ensemble,
    dataset: Dataset[Any],
    *,
    shifted: Mapping[Cell, Dataset[Any]] | Mapping[str, Dataset[Any]] | None = None,
    ood: Mapping[str, Dataset[Any]] | None = None,
    detectors: FeatureDetectors | None = None,
    classes: Classes | Tensor = "held",
    metrics: Mapping[str, Metric] | None = None,
    rule: Rule = "probability",
    batch_size: int = 1024,
    workers: int = 0,
    precision: Precision = "tf32",
    out: str | Path | None = None,
    overwrite: bool = False,
    logits_in: LogitType = "float32",
    exchange: Processes | None = None,
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
        detectors: Detectors of unfamiliar features, fitted on the training data:
            ``FeatureDetectors.fit(ensemble, train_set)``. Their scores stand beside
            those of the logits. By default those of the ensemble, if it has any and
            this process is alone.
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
        workers: Processes that load a data set not held in tensors.
        precision: What members compute in on a GPU: ``"float32"``; ``"tf32"``, which
            rounds what enters matrix products; ``"bfloat16"``. A CPU computes in
            float32.
        out: A folder for the logits of every data set between the classes left, in
            one safetensors file, so that other metrics need no model. Those of further
            data sets are added to what is there of the same ensemble and test data.
        overwrite: Replace the logits of data sets that are there already, and all
            logits of another ensemble.
        logits_in: The type of the logits in ``out``; ``"float16"`` takes half the space
            of ``"float32"``, ``"none"`` leaves them out. No score depends on it.

        exchange: Processes that share the batches, such as those of torchrun
            (``tepui.training.exchange_here()``): each of them calls this, with the same
            ensemble and data, and gets the same scores as one alone; one of them
            writes. By default this process does all.

    Returns:
        The scores.

    Raises:
        FileExistsError: If logits of one of these data sets, or of another ensemble,
            are there and ``overwrite`` is false.
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
    own_rules = ("shifted", "ood", "metrics")
    check_types(evaluate, {n: v for n, v in locals().items() if n not in own_rules})
    one_of("rule", rule, get_args(Rule))
    one_of("precision", precision, get_args(Precision))
    cells, others, own = Shifts.of(shifted), ood or {}, metrics or {}
    cells.check()
    check_ood({} if ood is None else ood, dataset)
    if ensemble.preparation is not None:
        ensemble.preparation.check_table(dataset)
    task, shape = task_on(ensemble, dataset)
    taken = taken_names(task.scores_of(shape))
    check_metrics({} if metrics is None else metrics, taken)
    if task.choices(shape) is None:
        unmasked = f"be left out for the task {str(task)!r}"
        require(isinstance(classes, str), "classes", unmasked, "a mask")
        classes = "all"
    one_of("logits_in", logits_in, get_args(LogitType))
    if exchange is None:
        detectors = detectors or ensemble.detectors
    else:
        needed = "be None, or how processes reach each other (training.exchange_here())"
        require(hasattr(exchange, "writer"), "exchange", needed, exchange)
        needed = "be None where processes share batches, each with features of its own"
        require(detectors is None, "detectors", needed, "detectors")
    file = None if out is None else Path(out) / LOGITS
    writes = exchange is None or exchange.writer
    if file is not None:
        of = told_apart_by(ensemble, dataset, classes, rule)
        kept = KeptLogits(file)
        if writes or not overwrite:
            kept = kept.beside([*cells], [*others], of, overwrite=overwrite)
        check_writable(file.parent)
    device = device_of(ensemble)
    cells = cells.made_on(device)
    with ExitStack() as stack:
        outputs = logit_batches
        if exchange is not None:
            stack.enter_context(exchange.attending())
            how: dict[str, Any] = {"rule": rule, "metrics": [*own]}
            how |= {"batch_size": batch_size, "precision": precision}
            how |= {"classes": written(classes), "logits_in": logits_in}
            said = _said(ensemble, dataset, cells, others) | how
            check_same(exchange.everywhere(said))
            outputs = partial(shared_logit_batches, exchange)
        batches: Callable[[Dataset[Any]], Batches] = partial(
            outputs,
            ensemble,
            precision=precision,
            batch_size=batch_size,
            workers=workers,
        )
        stored, watched = None, None
        if detectors is not None:
            watched = stack.enter_context(watching(ensemble, detectors, batches))
            batches = watched
        if file is not None and writes and logits_in != "none":
            sets = [*kept.cells, *cells], [*kept.ood, *others]
            stored = stack.enter_context(
                storing_logits(file, rule, *sets, logits_in, task, of)
            )
            kept.copy_into(stored)
        left, applied = classes_left(classes, dataset), applied_by(ensemble, task, rule)
        given = batches, task, shape, classes, left, rule, own, stored, applied, watched
        known = ensemble.preparation or Preparation()
        examiner = Examiner(*given, far=bool(others), unit=known.unit)
        clean = examiner.labeled(
            "clean", dataset, "dataset", familiar=True, each_class=True
        )
        copies = _copies(examiner, cells, dataset)
        far = {name: examiner.unlabeled(name, data) for name, data in others.items()}
    if file is not None and writes and logits_in == "none" and overwrite:
        file.unlink(missing_ok=True)  # of an evaluation that this one replaces
    if clean.losses is not None and writes:
        warn_of_dead_members(clean.losses, "the test data")
    computed_in = precision_on(device, precision)
    found = _evaluation(task, rule, computed_in, clean, copies, far)
    return replace(found, seen=known.seen)


def _said(
    ensemble: Ensemble,
    dataset: Dataset[Any],
    cells: Shifts,
    others: Mapping[str, Dataset[Any]],
) -> dict[str, Any]:
    """Return what processes that share the batches say of ensemble and data."""
    return {
        "ensemble": ensemble_digest(ensemble),
        "dataset": data_digest(dataset),
        "shifted": {name: data_digest(data) for name, data in cells.natural.items()},
        "ood": {name: data_digest(data) for name, data in others.items()},
        "samples": [length(dataset), *map(length, others.values())],
        "sets": [*map(str, cells), *others],
    }


def _evaluation(
    task: Task,
    rule: Rule,
    precision: Precision,
    clean: Labeled,
    copies: Mapping[Cell, Labeled],
    far: Mapping[str, Mapping[str, Tensor]],
) -> Evaluation:
    """Join what was kept of each data set."""
    members, _, choices = clean.shape
    detected, counted = detections_and_histograms(
        clean.unfamiliarity, far, members=members, classes=choices
    )
    cells = copies.items()
    return Evaluation(
        rule,
        *clean.shape,
        task,
        clean=clean.scores,
        shifted={cell: copy.scores for cell, copy in cells},
        reliability=_reliability(clean, copies),
        ood=detected,
        histograms=counted,
        precision=precision,
        mistakes=clean.mistakes,
        selective=clean.selective,
        applied=clean.applied,
        applied_shifted={
            cell: copy.applied for cell, copy in cells if copy.applied is not None
        },
        majority=clean.majority,
        by_class=clean.by_class,
        confusions=clean.confusions,
        by_class_shifted={
            kind: copy.by_class
            for (kind, _), copy in cells
            if copy.by_class is not None
        },
    )


def _copies(
    examiner: Examiner,
    cells: Mapping[Cell, Dataset[Any]],
    dataset: Dataset[Any],
) -> dict[Cell, Labeled]:
    """Return what is kept of each shifted data set."""
    copies = {}
    for (kind, severity), data in cells.items():
        argument, names = named((kind, severity)), class_names(dataset)
        shifted = numbered_as(data, names)
        same_classes(argument, class_names(shifted), names, "dataset")
        own = severity == NATURAL
        copy = examiner.labeled(f"{kind}/{severity}", shifted, argument, each_class=own)
        copies[kind, severity] = copy
    return copies


def _reliability(
    clean: Labeled, copies: Mapping[Cell, Labeled]
) -> dict[str, Reliability]:
    """Return confidence and accuracy in bins, where there are probabilities."""
    reliability = {} if clean.bins is None else {"clean": clean.bins}
    cells = copies.items()
    bins = [c.bins for (_, hard), c in cells if hard != NATURAL and c.bins is not None]
    return reliability | ({"shifted": pooled(bins)} if bins else {})
