"""Evaluating an ensemble: outputs once per data set, then every metric from them."""

import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui import metrics
from tepui.core.checks import class_indices, one_of, require
from tepui.core.storage import write_tensors
from tepui.data.arrays import Arrays
from tepui.data.class_names import class_names, same_classes
from tepui.data.image_files import ImageFiles
from tepui.data.loading import at_rows, in_order, inputs_to, length
from tepui.data.prepared_like import whole
from tepui.data.sets.imagenet import held_classes, restricted
from tepui.ensembles.ensemble import Ensemble
from tepui.evaluation.ood import Detection, Histogram, detections, histograms
from tepui.evaluation.stored_logits import LOGITS, Cell
from tepui.metrics import Rule
from tepui.modules.running import device_of, evaluating, refusal_named

Ratios = Literal["pooled", "mean"]
Classes = Literal["held", "all"]


@dataclass(frozen=True, kw_only=True)
class Scores:
    """What is measured on one data set; NaN where a quantity is not defined.

    Attributes:
        individual_accuracy: Mean accuracy of the members.
        accuracy: Accuracy of the ensemble.
        improvement: The ensemble's accuracy less that of its members.
        disagreement: Share of samples on which two members differ.
        der: Disagreement over the members' error.
        eir: Share of the members' error that the ensemble removes.
        variance: Variance of the logits over members, summed over classes.
        kl: Mean divergence between two members' probabilities.
        unique_predictions: Mean number of different labels per sample.
        nll: Negative log likelihood.
        ece: Expected calibration error.
        brier: Brier score.
    """

    individual_accuracy: float
    accuracy: float
    improvement: float
    disagreement: float
    der: float
    eir: float
    variance: float
    kl: float
    unique_predictions: float
    nll: float
    ece: float
    brier: float

    def document(self) -> dict[str, float | None]:
        """Return the scores as JSON holds them, with None for what is undefined."""
        return {
            name: value if math.isfinite(value) else None
            for name, value in asdict(self).items()
        }


@dataclass(frozen=True)
class Evaluation:
    """An ensemble's scores on clean and on shifted data.

    Attributes:
        rule: How members were joined.
        members: How many they are.
        samples: Size of the clean data set.
        classes: Between how many classes members chose on it.
        clean: Scores on clean data.
        shifted: Scores by type and severity of the shift.
        reliability: Confidence and accuracy in bins, for ``clean`` and, pooled over
            all cells, for ``shifted``.
        ood: How well each score of :func:`tepui.metrics.ood_scores` tells the samples
            of each unfamiliar set from the clean ones.
        histograms: How PDS and BMA are distributed, where there are unfamiliar sets.
    """

    rule: Rule
    members: int
    samples: int
    classes: int
    clean: Scores
    shifted: Mapping[Cell, Scores]
    reliability: Mapping[str, metrics.Reliability]
    ood: Mapping[str, Mapping[str, Detection]] = field(default_factory=dict)
    histograms: Mapping[str, Histogram] = field(default_factory=dict)

    @property
    def shifted_mean(self) -> Scores | None:
        """Scores over all types and severities, None without shifted data."""
        return mean_scores(self.shifted.values()) if self.shifted else None

    def by_severity(self) -> dict[int, Scores]:
        """Return scores over all types, for each severity."""
        severities = sorted({severity for _, severity in self.shifted})
        return {
            level: mean_scores(
                scores
                for (_, severity), scores in self.shifted.items()
                if severity == level
            )
            for level in severities
        }

    def document(self) -> dict[str, Any]:
        """Return everything as JSON holds it."""
        mean = self.shifted_mean
        return {
            "rule": self.rule,
            "members": self.members,
            "samples": self.samples,
            "classes": self.classes,
            "clean": self.clean.document(),
            "shifted": None if mean is None else mean.document(),
            "severities": {
                str(level): scores.document()
                for level, scores in self.by_severity().items()
            },
            "cells": [
                {"type": kind, "severity": severity, **scores.document()}
                for (kind, severity), scores in self.shifted.items()
            ],
            "reliability": {
                name: {key: _finite(value) for key, value in bins._asdict().items()}
                for name, bins in self.reliability.items()
            },
            "ood": {
                name: {score: found.document() for score, found in by_score.items()}
                for name, by_score in self.ood.items()
            },
            "histograms": {
                score: found.document() for score, found in self.histograms.items()
            },
        }


def evaluate(
    ensemble: Ensemble,
    dataset: Dataset[Any],
    *,
    shifted: Mapping[Cell, Dataset[Any]] | None = None,
    ood: Mapping[str, Dataset[Any]] | None = None,
    classes: Classes | Tensor = "held",
    rule: Rule = "probability",
    batch_size: int = 1024,
    workers: int = 0,
    out: str | Path | None = None,
    overwrite: bool = False,
) -> Evaluation:
    """Evaluate an ensemble of classifiers.

    Args:
        ensemble: What to evaluate, where it lies.
        dataset: Clean test data.
        shifted: Shifted test data by (type, severity), such as
            ``tepui.data.corrupted(dataset)``.
        ood: Unfamiliar data by name, in the form of the test data, see
            :func:`tepui.data.prepared_like`. Their labels are not looked at.
        classes: Between which classes members choose; the logits of others are left
            out. ``"held"``: those the data set holds, which are 200 of 1000 for
            ``ImageNetA`` and ``ImageNetR`` and all for sets of other classes; a shifted
            set of ImageNet's classes goes by its own. ``"all"``. Or a mask
            ``(classes,)``, such as that of the set whose features are ``dataset``.
        rule: How members are joined.
        batch_size: Samples that go through a member at once.
        workers: Processes that load a data set not held in tensors.
        out: A folder that receives the logits of every data set, of the classes that
            were left, in one safetensors file, so that other metrics need no model.
        overwrite: Replace the logits that are there.

    Returns:
        The scores.

    Raises:
        FileExistsError: If logits are there and ``overwrite`` is false.
        ValueError: If a member cannot take the data, or a label is of a class that is
            left out.

    Example:
        >>> import tepui
        >>> data = tepui.data.Arrays(torch.randn(30, 4), torch.arange(30) % 3)
        >>> ensemble = tepui.Ensemble.build(lambda: torch.nn.Linear(4, 3), members=2)
        >>> 0 <= evaluate(ensemble, data).clean.accuracy <= 1
        True
    """
    one_of("rule", rule, get_args(Rule))
    _check_cells({} if shifted is None else shifted)
    check_ood({} if ood is None else ood, dataset)
    file = None if out is None else Path(out) / LOGITS
    if file is not None and file.exists() and not overwrite:
        raise FileExistsError(f"{file} exists; pass overwrite=True to replace it")
    kept: dict[str, Tensor] = {}
    mask = _mask(classes, dataset)

    def outputs(name: str, data: Dataset[Any], argument: str) -> tuple[Tensor, Tensor]:
        logits, labels = dataset_logits(ensemble, data, batch_size, workers)
        own = _mask(classes, data)
        if (left := mask if own is None else own) is not None:
            logits, labels = restricted(logits, labels, left.to(logits.device))
        class_indices(labels, logits.shape[-1], f"labels of {argument}")
        if file is not None:
            kept[f"logits/{name}"], kept[f"labels/{name}"] = logits.cpu(), labels.cpu()
        return logits, labels

    logits, labels = outputs("clean", dataset, "dataset")
    clean, clean_bins = _scores_and_bins(logits, labels, rule)
    cells: dict[Cell, Scores] = {}
    pooled: list[metrics.Reliability] = []
    for (kind, severity), data in (shifted or {}).items():
        argument = f"shifted[{kind!r}, {severity}]"
        same_classes(argument, class_names(data), class_names(dataset), "dataset")
        copy = outputs(f"{kind}/{severity}", data, argument)
        cells[kind, severity], bins = _scores_and_bins(*copy, rule)
        pooled.append(bins)
    reliability = {"clean": clean_bins}
    if pooled:
        reliability["shifted"] = _pooled(pooled)
    unfamiliar: dict[str, dict[str, Tensor]] = {}
    for name, data in (ood or {}).items():
        found, _ = dataset_logits(ensemble, data, batch_size, workers)
        if mask is not None:
            found = found[..., mask.to(found.device)]
        if file is not None:
            kept[f"ood/{name}"] = found.cpu()
        unfamiliar[name] = metrics.ood_scores(found)
    if file is not None:
        document = {
            "rule": rule,
            "cells": [list(cell) for cell in cells],
            "ood": list(unfamiliar),
        }
        write_tensors(file, "logits", kept, document)
    members, samples, choices = logits.shape
    return Evaluation(
        rule,
        members,
        samples,
        choices,
        clean,
        cells,
        reliability,
        *_found(logits, unfamiliar),
    )


def dataset_logits(
    ensemble: Ensemble, dataset: Dataset[Any], batch_size: int = 1024, workers: int = 0
) -> tuple[Tensor, Tensor]:
    """Return every member's logits on a data set, with the labels."""
    require(batch_size > 0, "batch_size", "be positive", batch_size)
    device = device_of(ensemble)
    logits, labels = [], []
    with evaluating(ensemble), torch.no_grad():
        for batch in in_order(dataset, batch_size, device=device, workers=workers):
            inputs = inputs_to(batch.inputs, device)
            with refusal_named(inputs):
                logits.append(ensemble(inputs).float())
            labels.append(batch.targets)
    return torch.cat(logits, dim=1), torch.cat(labels)


def scores(logits: Tensor, labels: Tensor, rule: Rule = "probability") -> Scores:
    """Return all scores of an ensemble's logits."""
    return _scores_and_bins(logits, labels, rule)[0]


def mean_scores(several: Iterable[Scores], ratios: Ratios = "pooled") -> Scores:
    """Return scores over several data sets of one size."""
    one_of("ratios", ratios, get_args(Ratios))
    rows = list(several)
    require(len(rows) > 0, "several", "hold at least one", 0)
    mean = {
        item.name: fmean(getattr(row, item.name) for row in rows)
        for item in fields(Scores)
    }
    if ratios == "mean":
        return Scores(**mean)
    error = 1 - mean["individual_accuracy"]
    mean["der"] = mean["disagreement"] / error if error > 0 else math.nan
    mean["eir"] = mean["improvement"] / error if error > 0 else math.nan
    return Scores(**mean)


def check_ood(ood: object, dataset: Dataset[Any]) -> None:
    """Check that unfamiliar data have the form of the test data."""
    rule = "map names to data sets"
    if not isinstance(ood, Mapping):
        raise ValueError(f"ood must {rule}, got {type(ood).__name__}")
    for name, data in ood.items():
        require(isinstance(name, str) and name != "", "ood", rule, name)
        argument = f"ood[{name!r}]"
        try:
            length(data)
        except ValueError as error:
            raise ValueError(f"{argument}: {error}") from error
        for what, expected, found in zip(
            ("inputs of shape", "normalization"),
            _form(dataset),
            _form(data),
            strict=True,
        ):
            if found is not None and expected is not None and found != expected:
                raise ValueError(
                    f"{argument} must have {what} {expected} like the test data, got "
                    f"{found}; bring images to that form with "
                    "tepui.data.prepared_like(images, like=test_data), or make noise "
                    "with like=test_data"
                )


def _scores_and_bins(
    logits: Tensor, labels: Tensor, rule: Rule
) -> tuple[Scores, metrics.Reliability]:
    """Return everything that one pass over the logits gives."""
    streams: dict[str, metrics.LogitsStreaming[Any]] = {
        "reliability": metrics.ReliabilityDiagram(rule=rule),
        "individual_accuracy": metrics.IndividualAccuracy(),
        "accuracy": metrics.Accuracy(rule),
        "eir": metrics.EIR(rule),
        "unique_predictions": metrics.UniquePredictions(),
        "nll": metrics.NLL(rule),
        "ece": metrics.ECE(rule=rule),
        "brier": metrics.Brier(rule),
    }
    of_pairs: dict[str, metrics.LogitsStreaming[Any]] = {
        "disagreement": metrics.Disagreement(),
        "der": metrics.DER(),
        "variance": metrics.Variance(),
        "kl": metrics.KL(),
    }
    together = metrics.Collection(**streams, **(of_pairs if len(logits) > 1 else {}))
    together.update(logits, labels)
    with warnings.catch_warnings():
        # A member without errors leaves ratios undefined; the scores say NaN.
        warnings.simplefilter("ignore", UserWarning)
        found = together.compute()
    bins = found.pop("reliability")
    found["individual_accuracy"] = found["individual_accuracy"].mean()
    values = {name: float(value) for name, value in found.items()}
    values["improvement"] = values["accuracy"] - values["individual_accuracy"]
    return Scores(**{**dict.fromkeys(of_pairs, math.nan), **values}), bins


def _mask(classes: Classes | Tensor, dataset: Dataset[Any]) -> Tensor | None:
    """Return which classes are left for a data set; None for all."""
    if isinstance(classes, Tensor):
        return classes
    one_of("classes", classes, get_args(Classes))
    return held_classes(dataset) if classes == "held" else None


def _check_cells(shifted: object) -> None:
    rule = "map (type, severity) to data sets"
    if not isinstance(shifted, Mapping):
        raise ValueError(f"shifted must {rule}, got {type(shifted).__name__}")
    for cell in shifted:
        require(isinstance(cell, tuple) and len(cell) == 2, "shifted", rule, cell)


def _form(dataset: Dataset[Any]) -> tuple[object, object]:
    """Return shape and normalization of a data set's inputs, None where not known."""
    one = at_rows(dataset, [torch.tensor([0])], device=torch.device("cpu"))
    inputs = next(one).inputs
    if not isinstance(inputs, Tensor):
        return sorted(inputs), None
    source = whole(dataset)
    if not isinstance(source, Arrays | ImageFiles) or inputs.ndim != 4:
        return tuple(inputs.shape[1:]), None
    return tuple(inputs.shape[1:]), source.normalize or "none"


def _found(
    logits: Tensor, unfamiliar: Mapping[str, Mapping[str, Tensor]]
) -> tuple[dict[str, dict[str, Detection]], dict[str, Histogram]]:
    """Return how well unfamiliar samples are told from those with these logits."""
    if not unfamiliar:
        return {}, {}
    familiar = metrics.ood_scores(logits)
    members, _, classes = logits.shape
    found = {name: detections(familiar, each) for name, each in unfamiliar.items()}
    return found, histograms(familiar, unfamiliar, members=members, classes=classes)


def _pooled(several: list[metrics.Reliability]) -> metrics.Reliability:
    """Return the bins of all samples of several data sets together."""
    counts = torch.stack([bins.count for bins in several])
    total = counts.sum(0)
    confidence = torch.stack([bins.confidence for bins in several])
    accuracy = torch.stack([bins.accuracy for bins in several])
    return metrics.Reliability(
        total,
        (confidence * counts).nansum(0) / total,
        (accuracy * counts).nansum(0) / total,
    )


def _finite(values: Tensor) -> list[float | None]:
    return [float(v) if math.isfinite(float(v)) else None for v in values]
