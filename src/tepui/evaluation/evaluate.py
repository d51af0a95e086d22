"""Evaluating an ensemble: outputs once per data set, then every metric from them."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, get_args

import torch  # noqa: F401 - the example uses it
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.checks import class_indices, one_of, require
from tepui.core.precision import Precision, precision_on
from tepui.core.storage import write_tensors
from tepui.data.class_names import class_names, same_classes
from tepui.data.corruptions.copies import Corrupted
from tepui.ensembles.ensemble import Ensemble
from tepui.evaluation.custom_metrics import Metric, check_metrics
from tepui.evaluation.dataset_logits import Classes, classes_left, dataset_logits
from tepui.evaluation.dead_members import warn_of_dead_members
from tepui.evaluation.ood import check_ood, detections_and_histograms
from tepui.evaluation.results import Evaluation, pooled
from tepui.evaluation.scores import TAKEN_NAMES, Scores, scores_and_bins
from tepui.evaluation.stored_logits import LOGITS, Cell
from tepui.metrics import Reliability, Rule, ood_scores, restrict_classes
from tepui.modules.running import device_of


def evaluate(
    ensemble: Ensemble,
    dataset: Dataset[Any],
    *,
    shifted: Mapping[Cell, Dataset[Any]] | None = None,
    ood: Mapping[str, Dataset[Any]] | None = None,
    classes: Classes | Tensor = "held",
    metrics: Mapping[str, Metric] | None = None,
    rule: Rule = "probability",
    batch_size: int = 1024,
    workers: int = 0,
    precision: Precision = "tf32",
    out: str | Path | None = None,
    overwrite: bool = False,
) -> Evaluation:
    """Evaluate an ensemble of classifiers.

    Args:
        ensemble: What to evaluate, where it lies.
        dataset: Clean test data.
        shifted: Shifted test data by (type, severity), such as
            ``tepui.data.corrupted(dataset)``, whose copies are made where the ensemble
            lies.
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
        rule: How members are combined.
        batch_size: Samples that go through a member at once.
        workers: Processes that load a data set not held in tensors.
        precision: What members compute in on a GPU: ``"float32"``; ``"tf32"``, which
            rounds what enters matrix products; ``"bfloat16"``. A CPU computes in
            float32.
        out: A folder for the logits of every data set between the classes left, in
            one safetensors file, so that other metrics need no model.
        overwrite: Replace the logits that are there.

    Returns:
        The scores.

    Raises:
        FileExistsError: If logits are there and ``overwrite`` is false.
        ValueError: If ``rule`` or ``precision`` is unknown, a member cannot take the
            data, a label is of a class that is left out, or a metric returns something
            other than a scalar.

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
    one_of("rule", rule, get_args(Rule))
    one_of("precision", precision, get_args(Precision))
    _check_cells({} if shifted is None else shifted)
    check_ood({} if ood is None else ood, dataset)
    check_metrics({} if metrics is None else metrics, TAKEN_NAMES)
    file = None if out is None else Path(out) / LOGITS
    if file is not None and file.exists() and not overwrite:
        raise FileExistsError(f"{file} exists; pass overwrite=True to replace it")
    device = device_of(ensemble)
    if isinstance(shifted, Corrupted):
        shifted = shifted.made_on(device)
    how: dict[str, Any] = {"batch_size": batch_size, "workers": workers}
    ask = partial(dataset_logits, ensemble, precision=precision, **how)
    outputs = _Outputs(ask, classes, dataset, stored=file is not None)
    scored = partial(scores_and_bins, rule=rule, metrics=metrics)
    logits, labels = outputs.labeled("clean", dataset, "dataset")
    clean, clean_bins = scored(logits, labels)
    cells: dict[Cell, Scores] = {}
    shifted_bins: list[Reliability] = []
    for (kind, severity), data in (shifted or {}).items():
        argument = f"shifted[{kind!r}, {severity}]"
        same_classes(argument, class_names(data), class_names(dataset), "dataset")
        copy = outputs.labeled(f"{kind}/{severity}", data, argument)
        cells[kind, severity], bins = scored(*copy)
        shifted_bins.append(bins)
    reliability = {"clean": clean_bins}
    if shifted_bins:
        reliability["shifted"] = pooled(shifted_bins)
    unfamiliar = {
        name: ood_scores(outputs.unlabeled(name, data))
        for name, data in (ood or {}).items()
    }
    if file is not None:
        outputs.write(file, rule, cells, unfamiliar)
    members, samples, choices = logits.shape
    warn_of_dead_members(clean.member_nlls, choices, stacklevel=2)
    detected = detections_and_histograms(logits, unfamiliar)
    sizes = members, samples, choices
    used = precision_on(device, precision)
    return Evaluation(rule, *sizes, clean, cells, reliability, *detected, used)


class _Outputs:
    """Logits of each data set between the classes left, kept if they are stored."""

    def __init__(
        self,
        ask: Callable[[Dataset[Any]], tuple[Tensor, Tensor]],
        classes: Classes | Tensor,
        dataset: Dataset[Any],
        *,
        stored: bool,
    ) -> None:
        self._ask, self._classes, self._stored = ask, classes, stored
        self._mask = classes_left(classes, dataset)
        self._tensors: dict[str, Tensor] = {}

    def labeled(
        self, name: str, data: Dataset[Any], argument: str
    ) -> tuple[Tensor, Tensor]:
        """Return logits and labels of test data."""
        logits, labels = self._ask(data)
        subset = classes_left(self._classes, data)
        mask = self._mask if subset is None else subset
        if mask is not None:
            logits, labels = restrict_classes(logits, labels, mask.to(logits.device))
        class_indices(labels, logits.shape[-1], f"labels of {argument}")
        self._keep({f"logits/{name}": logits, f"labels/{name}": labels})
        return logits, labels

    def unlabeled(self, name: str, data: Dataset[Any]) -> Tensor:
        """Return logits of unfamiliar data, between the classes of the test data."""
        logits, _ = self._ask(data)
        if self._mask is not None:
            logits = logits[..., self._mask.to(logits.device)]
        self._keep({f"ood/{name}": logits})
        return logits

    def write(
        self, file: Path, rule: Rule, cells: Iterable[Cell], ood: Iterable[str]
    ) -> None:
        """Write what was kept, as :func:`tepui.read_logits` reads it."""
        shifted = [list(cell) for cell in cells]
        document = {"rule": rule, "cells": shifted, "ood": list(ood)}
        write_tensors(file, "logits", self._tensors, document)

    def _keep(self, tensors: Mapping[str, Tensor]) -> None:
        if self._stored:
            self._tensors |= {name: tensor.cpu() for name, tensor in tensors.items()}


def _check_cells(shifted: object) -> None:
    rule = "map (type, severity) to data sets"
    if not isinstance(shifted, Mapping):
        raise ValueError(f"shifted must {rule}, got {type(shifted).__name__}")
    for cell in shifted:
        require(isinstance(cell, tuple) and len(cell) == 2, "shifted", rule, cell)
