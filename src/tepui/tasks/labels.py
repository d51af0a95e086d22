"""Labels that hold or not, each on its own.

Every label is a choice between two classes with the logits 0 and :math:`z`, whose
softmax is the sigmoid of :math:`z`, so that all comes from the calculation of classes.
"""

import warnings
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tepui import metrics
from tepui.core.checks import require, values_in
from tepui.data.labels import answers_of
from tepui.losses import BinaryCrossEntropy, Loss, binary_cross_entropy
from tepui.losses.base import like_outputs
from tepui.metrics import Calibration, CalibrationMethod, ClassRates, Reliability, Rule
from tepui.metrics.accuracy import rates_of
from tepui.metrics.calibrators import fit_label_calibration
from tepui.metrics.chunks import chunks_of
from tepui.metrics.multilabel import label_rows, two_classes
from tepui.tasks.base import Losses, Nouns, Task
from tepui.tasks.probabilities import (
    ProbablePrediction,
    ProbableTask,
    losses_of,
    streams_of,
    values_of,
)
from tepui.tasks.scores import TaskScores


@dataclass(frozen=True, kw_only=True)
class LabelScores(TaskScores):
    """Scores of labels that hold or not, over all labels.

    Attributes:
        individual_accuracy: Mean over members of the share of labels they tell right.
        accuracy: That of the ensemble.
        improvement: The ensemble's less that of its members.
        mean_average_precision: Mean over labels of the average precision.
        mean_auroc: Mean over labels of the area under the ROC curve, without those that
            all samples have or none.
        nll: Negative log-likelihood of a label.
        ece: Mean over labels of the calibration error.
        brier: Brier score of a label, as a choice between two classes.
        member_accuracies: Accuracy of each member.
        member_nlls: Negative log-likelihood of each member.
    """

    individual_accuracy: float
    accuracy: float
    improvement: float
    mean_average_precision: float
    mean_auroc: float
    nll: float
    ece: float
    brier: float
    member_accuracies: tuple[float, ...]
    member_nlls: tuple[float, ...]


@final
@dataclass(frozen=True, eq=False, repr=False)
class LabelPrediction(ProbablePrediction):
    """Which labels hold, each on its own; of one label: yes or no.

    Answers have the shape ``(samples, labels, …)``.

    Attributes:
        outputs: Logits of every member, ``(members, samples, labels, …)``.
    """

    task: Task = field(default_factory=lambda: Labels(), kw_only=True)  # noqa: PLW0108
    usual = "mutual_information"

    def __post_init__(self) -> None:
        super().__post_init__()
        rule = "have shape (members, samples, labels, …)"
        require(self.outputs.ndim >= 3, "outputs", rule, tuple(self.outputs.shape))

    @property
    def probs(self) -> Tensor:
        """Probability that each label holds, ``(samples, labels, …)``."""
        return self._shaped(metrics.ensemble_probs(self._rows, rule=self.rule)[:, 1])

    @property
    def label_names(self) -> list[str]:
        """The names of the labels that hold, or their numbers, one text per sample.

        Of one output the name of the answer, or ``"yes"`` and ``"no"``.
        """
        require(self.outputs.ndim == 3, "prediction", "be of samples", "pixels")
        if self.outputs.shape[2] == 1:
            answers = answers_of(self.classes)
            return [answers[holds] for (holds,) in self.labels.tolist()]
        count = self.outputs.shape[2]
        names = self.classes if len(self.classes) == count else map(str, range(count))
        every = [*names]
        return [" ".join(compress(every, row)) for row in self.labels.tolist()]

    def losses(self, targets: Tensor) -> Tensor:
        """Return the negative log-likelihood of each sample, the mean of its parts."""
        probs = self.probs.double()
        holds = like_outputs(targets, self.outputs[0]).double()
        return losses_of(holds * probs + (1 - holds) * (1 - probs), holds >= 0)

    def statistics(self, targets: Tensor) -> dict[str, Tensor]:
        """Return answers and uncertainties, and the probability of each label."""
        return {**super().statistics(targets), "probability": self.probs}

    @property
    def _rows(self) -> Tensor:
        """Every label as a choice between two, ``(members, samples and labels, 2)``."""
        return two_classes(self.outputs.flatten(1))

    def _shaped(self, values: Tensor) -> Tensor:
        return values.reshape(self.outputs.shape[1:])


class LabelStream:
    """All scores of labels that hold or not."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._together = metrics.Collection(**streams_of(rule))
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
        return Losses(members, _entropy(held.double() / self._samples))

    def rates(self) -> ClassRates:
        """Return the scores of each label."""
        return rates_of(*torch.stack(self._counts).sum(0))

    def result(self, custom: Mapping[str, float]) -> tuple[LabelScores, Reliability]:
        """Return the scores with the caller's own, and the bins."""
        values = values_of(self._together)
        bins = values.pop("reliability")
        with warnings.catch_warnings():
            # No sample has any label; the score says NaN.
            warnings.simplefilter("ignore", UserWarning)
            precision = float(self._precision.compute())
        values["ece"] = float(self._calibration.compute().mean())
        measured = LabelScores(
            **values,
            mean_average_precision=precision,
            mean_auroc=float(self._areas.compute().nanmean()),
            custom=custom,
        )
        return measured, bins


@final
@dataclass(frozen=True)
class Labels(ProbableTask):
    """Logits of labels that hold or not, whatever the others do.

    One output is a yes or no.
    """

    word = "multi-label"
    kind = "multi-label classification"
    losses = (
        *(BinaryCrossEntropy, binary_cross_entropy),
        *(nn.BCEWithLogitsLoss, F.binary_cross_entropy_with_logits),
    )
    predicts = LabelPrediction
    scored = LabelScores
    calibrations = ("temperature", "vector")

    def check_targets(
        self, argument: str, targets: Tensor, *, scored: bool = False
    ) -> None:
        """Refuse labels outside [0, 1]; those to be scored must be 0 or 1."""
        if scored:
            fits, rule = (targets == 0) | (targets == 1), "be 0 or 1, to be scored"
        else:
            fits = (targets >= 0) & (targets <= 1)
            rule = "be 0 or 1, or probabilities between them, for BinaryCrossEntropy"
        require(bool(fits.all()), f"labels of {argument}", rule, values_in(targets))

    def stream(self, outputs: Tensor, rule: Rule) -> LabelStream:
        """Return what adds up the scores."""
        return LabelStream(rule)

    def called(self, classes: Sequence[str], outputs: int) -> Sequence[str]:
        """Return the names of no and yes to one label."""
        return answers_of(tuple(classes)) if classes and outputs == 1 else ()

    def nouns(self, scores: Container[str]) -> Nouns:
        """Return what labels are called."""
        return Nouns("label", "labels", "samples", "mean recall")

    def fit_calibration(
        self, outputs: Tensor, targets: Tensor, method: CalibrationMethod, rule: Rule
    ) -> Calibration:
        """Return what makes probabilities of held-out labels right."""
        rows = label_rows(outputs, like_outputs(targets, outputs[0]))
        return fit_label_calibration(*rows, method=method, rule=rule)

    def lesson(self, outputs: Tensor, temperature: float) -> tuple[Tensor, Loss]:
        """Return the mean of the members' probabilities."""
        require(temperature == 1, "temperature", "be 1 for labels", temperature)
        return outputs.sigmoid().mean(0), BinaryCrossEntropy()

    def answers(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return which labels one member finds and which hold."""
        return outputs > 0, one_per_output(targets, outputs) > 0.5


def one_per_output(targets: Tensor, outputs: Tensor) -> Tensor:
    """Return targets with the axis of outputs that those of one output may lack."""
    if targets.ndim == outputs.ndim - 1 and outputs.shape[1] == 1:
        return targets.unsqueeze(1)
    return targets


def _entropy(shares: Tensor) -> float:
    entropies = torch.special.entr(shares) + torch.special.entr(1 - shares)
    return float(entropies.mean())
