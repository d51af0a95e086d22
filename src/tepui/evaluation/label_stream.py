"""Scores of classes of pixels and of labels that hold or not, from batches of outputs.

Both come down to the metrics of classes: a pixel is a sample, and a label of a sample a
choice between two classes.
"""

import math
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from tepui import metrics
from tepui.core.checks import UNLABELED, class_indices
from tepui.evaluation.dead_members import Losses
from tepui.evaluation.task_scores import LabelScores, PixelScores
from tepui.losses.base import like_outputs
from tepui.metrics import ClassRates, Reliability, Rule
from tepui.metrics.accuracy import rates_of
from tepui.metrics.chunks import chunks_of
from tepui.metrics.multilabel import label_rows, two_classes


class PixelStream:
    """All scores of the classes of pixels."""

    def __init__(self, members: int, rule: Rule) -> None:
        streams = _streams(rule) | {"mean_iou": metrics.MeanIoU(rule=rule)}
        streams["rates"] = metrics.ClassScores(rule=rule)
        if members > 1:
            streams["disagreement"] = metrics.Disagreement()
        self._together = metrics.Collection(**streams)
        self._classes = 0

    def update(self, outputs: Tensor, targets: Tensor) -> None:
        """Take in some images; pixels without a label do not count."""
        self._classes = outputs.shape[2]
        class_indices(targets, self._classes)
        if bool((targets != UNLABELED).any()):
            logits, labels = metrics.pixels(outputs, targets, ignored=UNLABELED)
            self._together.update(logits, labels)

    def losses(self) -> Losses:
        """Return each member's loss, and that of guessing between the classes."""
        members = self._together.streams["member_nlls"].compute().tolist()
        return Losses(members, math.log(self._classes))

    def rates(self) -> ClassRates:
        """Return the scores of each class."""
        found: ClassRates = self._together.streams["rates"].compute()
        return found

    def result(self, custom: Mapping[str, float]) -> tuple[PixelScores, Reliability]:
        """Return the scores with the caller's own, and the bins."""
        values = _values(self._together)
        bins = values.pop("reliability")
        values.setdefault("disagreement", math.nan)
        return PixelScores(**values, custom=custom), bins


class LabelStream:
    """All scores of labels that hold or not."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._together = metrics.Collection(**_streams(rule))
        self._precision = metrics.MeanAveragePrecision()
        self._areas = metrics.LabelAUROC()
        self._calibration = metrics.LabelECE()
        # Samples with each label, those predicted to have it, and those rightly so.
        self._counts: list[Tensor] = []
        self._samples = 0

    def update(self, outputs: Tensor, targets: Tensor) -> None:
        """Take in some samples."""
        logits, wanted = label_rows(outputs, like_outputs(targets, outputs[0]))
        two = two_classes(logits.flatten(1))
        self._together.update(two, wanted.flatten())
        parts = [
            (chunk.ensemble_probs(self._rule)[:, 1], chunk.ensemble_top(self._rule)[1])
            for chunk in chunks_of(two)
        ]
        probs, chosen = (
            torch.cat(each).view_as(wanted) for each in zip(*parts, strict=True)
        )
        self._precision.update(probs, wanted)
        self._areas.update(probs, wanted)
        self._calibration.update(probs, wanted)
        counts = [each.sum(0) for each in (wanted, chosen, wanted * chosen)]
        self._counts.append(torch.stack(counts))
        self._samples += len(wanted)

    def losses(self) -> Losses:
        """Return each member's loss, and that of how often each label holds."""
        members = self._together.streams["member_nlls"].compute().tolist()
        held, _, _ = torch.stack(self._counts).sum(0)
        share = held.double() / self._samples
        entropy = torch.special.entr(share) + torch.special.entr(1 - share)
        return Losses(members, float(entropy.mean()))

    def rates(self) -> ClassRates:
        """Return the scores of each label."""
        return rates_of(*torch.stack(self._counts).sum(0))

    def result(self, custom: Mapping[str, float]) -> tuple[LabelScores, Reliability]:
        """Return the scores with the caller's own, and the bins."""
        values = _values(self._together)
        bins = values.pop("reliability")
        with warnings.catch_warnings():
            # No sample has any label; the score says NaN.
            warnings.simplefilter("ignore", UserWarning)
            precision = float(self._precision.compute())
        area = float(self._areas.compute().nanmean())
        errors = self._calibration.compute()
        values["ece"] = float(errors.mean())
        measured = LabelScores(
            **values,
            mean_average_precision=precision,
            mean_auroc=area,
            label_eces=tuple(errors.tolist()),
            custom=custom,
        )
        return measured, bins


def _streams(rule: Rule) -> dict[str, metrics.LogitsStreaming[Any]]:
    return {
        "reliability": metrics.ReliabilityDiagram(rule=rule),
        "member_accuracies": metrics.IndividualAccuracy(),
        "member_nlls": metrics.IndividualNLL(),
        "accuracy": metrics.Accuracy(rule=rule),
        "nll": metrics.NLL(rule=rule),
        "ece": metrics.ECE(rule=rule),
        "brier": metrics.Brier(rule=rule),
    }


def _values(together: metrics.Collection) -> dict[str, Any]:
    """Return the values by name, those of members as tuples."""
    values = together.compute()
    found: dict[str, Any] = {"reliability": values.pop("reliability")}
    values.pop("rates", None)
    for name, value in values.items():
        of_members = name.startswith("member_")
        found[name] = tuple(value.tolist()) if of_members else float(value)
    accuracies = found["member_accuracies"]
    found["individual_accuracy"] = sum(accuracies) / len(accuracies)
    found["improvement"] = found["accuracy"] - found["individual_accuracy"]
    return found
