"""Classes that exclude each other; every pixel that has one is a sample of its own."""

import math
import warnings
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self, cast, final, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tepui import metrics
from tepui.core.checks import (
    UNLABELED,
    class_indices,
    logits_shape,
    one_of,
    require,
)
from tepui.core.warning import warn_of_probabilities
from tepui.losses import CrossEntropy, Loss, SoftCrossEntropy, cross_entropy
from tepui.metrics import (
    Calibration,
    CalibrationMethod,
    ClassRates,
    ConformalSets,
    Reliability,
    Rule,
    SetScore,
    ensemble_predictions,
    fit_calibration,
    ood_scores,
)
from tepui.metrics.chunks import regrouped, wide
from tepui.metrics.conformal import density_ratio, ratio_weights
from tepui.tasks.base import Losses, Nouns, Promise, Runs, Task
from tepui.tasks.prediction import Held, calibrated, rows_of
from tepui.tasks.probabilities import (
    ProbablePrediction,
    ProbableTask,
    losses_of,
    streams_of,
    values_of,
)
from tepui.tasks.scores import TaskScores, score_names


@dataclass(frozen=True, kw_only=True)
class Scores(TaskScores):
    """Scores of classes; NaN where a quantity is not defined.

    Attributes:
        individual_accuracy: Mean accuracy of the members.
        accuracy: Accuracy of the ensemble.
        improvement: The ensemble's accuracy less that of its members.
        disagreement: Share of samples on which two members differ.
        der: Disagreement over the members' error.
        eir: Share of the members' error that the ensemble removes.
        logit_variance: Variance of the logits over members, summed over classes.
        mean_kl: Mean divergence between two members' probabilities.
        unique_predictions: Mean number of different labels per sample.
        nll: Negative log-likelihood.
        ece: Expected calibration error.
        brier: Brier score.
        member_accuracies: Accuracy of each member.
        member_nlls: Negative log-likelihood of each member.
    """

    individual_accuracy: float
    accuracy: float
    improvement: float
    disagreement: float
    der: float
    eir: float
    logit_variance: float
    mean_kl: float
    unique_predictions: float
    nll: float
    ece: float
    brier: float
    member_accuracies: tuple[float, ...]
    member_nlls: tuple[float, ...]

    @classmethod
    def of(cls, logits: Tensor, labels: Tensor, rule: Rule = "probability") -> Self:
        """Return the scores of logits ``(members, samples, classes)``."""
        stream = ScoreStream(len(logits), rule)
        stream.update(logits, labels)
        return cast(Self, stream.result({})[0])

    def pooled(self) -> Self:
        """Return the scores with the ratios of their parts, not means of ratios."""
        error = 1 - self.individual_accuracy
        der = self.disagreement / error if error > 0 else math.nan
        eir = self.improvement / error if error > 0 else math.nan
        return replace(self, der=der, eir=eir)


@dataclass(frozen=True, kw_only=True)
class PixelScores(TaskScores):
    """Scores of the classes of pixels.

    Attributes:
        individual_accuracy: Mean over members of the share of pixels they tell right.
        accuracy: That of the ensemble.
        improvement: The ensemble's less that of its members.
        mean_iou: Mean over classes of intersection over union.
        disagreement: Share of pixels on which two members differ.
        nll: Negative log-likelihood.
        ece: Expected calibration error.
        brier: Brier score.
        member_accuracies: Accuracy of each member.
        member_nlls: Negative log-likelihood of each member.
    """

    individual_accuracy: float
    accuracy: float
    improvement: float
    mean_iou: float
    disagreement: float
    nll: float
    ece: float
    brier: float
    member_accuracies: tuple[float, ...]
    member_nlls: tuple[float, ...]


@final
@dataclass(frozen=True, eq=False, repr=False)
class ClassPrediction(ProbablePrediction):
    """Which of several classes each sample belongs to, or each of its pixels.

    Answers have the shape ``(samples,)``, of pixels ``(samples, height, width)``.

    Attributes:
        outputs: Logits of every member, ``(members, samples, classes, …)``.
    """

    task: Task = field(default_factory=lambda: Classes(), kw_only=True)  # noqa: PLW0108
    usual = "pds"

    def __post_init__(self) -> None:
        one_of("rule", self.rule, get_args(Rule))
        rule = "have shape (members, samples, classes, …)"
        require(self.outputs.ndim >= 3, "outputs", rule, tuple(self.outputs.shape))
        logits_shape(self._rows, argument="outputs")

    @property
    def probs(self) -> Tensor:
        """Probabilities of the ensemble, ``(samples, classes, …)``."""
        probs = metrics.ensemble_probs(self._joint, rule=self.rule)
        return probs if self._flat else self._shaped(probs).movedim(-1, 1)

    @property
    def label_names(self) -> list[str]:
        """The names of the chosen classes, or their numbers, one per sample."""
        require(self._flat, "prediction", "be of samples, not of pixels", "pixels")
        return self._names_of(self.labels)

    @property
    def sets(self) -> Tensor:
        """Which classes are in the conformal set of each sample.

        Truth values, ``(samples, classes)``: the sets hold the true class as often as
        ``Ensemble.conformal`` was told.
        """
        conformity = self.conformity
        if not isinstance(conformity, ConformalSets):
            raise AttributeError("sets")  # worded by __getattr__
        rule = f"be {conformity.rule!r}, for which the sets were made"
        require(self.rule == conformity.rule, "rule", rule, self.rule)
        weights = ratio_weights(conformity.ratio, self.outputs)
        return conformity.sets(self.probs, weights)

    def losses(self, targets: Tensor) -> Tensor:
        """Return the negative log-likelihood of each sample, the mean of its parts."""
        labels = targets.long()
        index = labels.clamp(min=0).unsqueeze(1)
        of_truth = self.probs.double().gather(1, index).squeeze(1)
        return losses_of(of_truth, labels != UNLABELED)

    def statistics(self, targets: Tensor) -> dict[str, Tensor]:
        """Return what is chosen of each sample, or pixel, and how sure that is.

        Args:
            targets: Class indices of shape ``(samples,)``; -1 where there is no label.

        Returns:
            By name, each of shape ``(samples,)``: ``target``; the ensemble's
            ``prediction`` and its probability, ``confidence``; ``label_probability``,
            the mean probability of the label over members, NaN without one; ``pds``,
            see :func:`tepui.metrics.ood_scores`; ``total_uncertainty`` and
            ``epistemic``.

        Example:
            >>> out = ClassPrediction(torch.tensor([[[0.0, 9.0]], [[9.0, 0.0]]]))
            >>> found = out.statistics(torch.tensor([1]))
            >>> found["label_probability"], found["total_uncertainty"]
            (tensor([0.5000]), tensor([0.6931]))
        """
        if not self._flat:
            return super().statistics(targets)
        classes, whole_numbers = self.outputs.shape[2], not targets.is_floating_point()
        fits = whole_numbers and targets.ndim == 1 and bool((targets < classes).all())
        rule = f"be one class index below {classes} per sample, or negative without one"
        require(fits, "labels", rule, f"{targets.dtype}, {tuple(targets.shape)}")
        whole = self if self.joint is None else replace(self, rule="probability")
        of_classes = metrics.ensemble_probs(self._joint, rule="probability")
        of_label = of_classes.gather(1, targets.clamp(min=0).unsqueeze(1))[:, 0]
        return {
            **super(ClassPrediction, whole).statistics(targets),
            "label_probability": of_label.where(targets >= 0, torch.nan),
            "pds": self.ood_score("pds"),
        }

    def exported(self, coverage: float) -> dict[str, Tensor]:
        """Return probabilities, what is chosen, and sets where they are promised."""
        sets = self.promised()
        more = {"sets": sets["in_set"]} if sets else {}
        return super().exported(coverage) | more

    def promised(self) -> dict[str, Tensor]:
        """Return the conformal sets, if any."""
        fitted = isinstance(self.conformity, ConformalSets)
        return {"in_set": self.sets} if fitted else {}

    def held(self, targets: Tensor) -> Held:
        """Return how often sets hold the class, in all and of each class."""
        sums = set_sums(self.sets, targets.long())
        count, held, size = sums.sum(1).tolist()
        return Held(int(count), held, size, sums)

    def _names_of(self, labels: Tensor) -> list[str]:
        named = len(self.classes) == self.outputs.shape[2]
        return [self.classes[n] if named else str(n) for n in labels.tolist()]

    @property
    def _flat(self) -> bool:
        """Whether there are samples only, and no pixels."""
        return self.outputs.ndim == 3

    @property
    def _rows(self) -> Tensor:
        """Logits ``(members, samples and pixels, classes)``."""
        return rows_of(self.outputs)

    @property
    def _joint(self) -> Tensor:
        """Logits of which the ensemble's probabilities are made."""
        return rows_of(self.outputs if self.joint is None else self.joint)

    def _shaped(self, values: Tensor) -> Tensor:
        if self._flat:
            return values
        sizes = (self.outputs.shape[1], *self.outputs.shape[3:])
        return values.reshape(*sizes, *values.shape[1:])


class ScoreStream:
    """All scores of classes: of logits in runs of samples, or of images."""

    def __init__(self, members: int, rule: Rule, *, pixels: bool = False) -> None:
        self._kind = PixelScores if pixels else Scores
        streams = streams_of(rule) | {"rates": metrics.ClassScores(rule=rule)}
        if pixels:
            streams["mean_iou"] = metrics.MeanIoU(rule=rule)
        else:
            streams["eir"] = metrics.EIR(rule=rule)
            streams["unique_predictions"] = metrics.UniquePredictions()
        if members > 1:  # there are pairs
            streams["disagreement"] = metrics.Disagreement()
        if members > 1 and not pixels:
            streams["der"] = metrics.DER()
            streams["logit_variance"] = metrics.LogitVariance()
            streams["mean_kl"] = metrics.MeanKL()
        self._together = metrics.Collection(**streams)
        self._classes = 0

    def update(self, logits: Tensor, labels: Tensor) -> None:
        """Take in some samples; pixels without a label do not count."""
        self._classes = logits.shape[2]
        if self._kind is PixelScores:
            class_indices(labels, self._classes)
            if not bool((labels != UNLABELED).any()):
                return
            logits, labels = metrics.pixels(logits, labels, ignored=UNLABELED)
        self._together.update(logits, labels)

    def losses(self) -> Losses:
        """Return each member's loss, and that of guessing between the classes."""
        members = self._together.streams["member_nlls"].compute().tolist()
        return Losses(members, math.log(self._classes))

    def rates(self) -> ClassRates:
        """Return the scores of each class."""
        found: ClassRates = self._together.streams["rates"].compute()
        return found

    def result(
        self, custom: Mapping[str, float]
    ) -> tuple[Scores | PixelScores, Reliability]:
        """Return the scores with the caller's own, and the bins."""
        with warnings.catch_warnings():
            # A member without errors leaves ratios undefined; the scores say NaN.
            warnings.simplefilter("ignore", UserWarning)
            values = values_of(self._together)
        bins = values.pop("reliability")
        if self._kind is Scores:  # to the bit as torch takes the mean
            accuracies = self._together.streams["member_accuracies"].compute()
            mean = values["individual_accuracy"] = float(accuracies.mean())
            values["improvement"] = values["accuracy"] - mean
        undefined = dict.fromkeys(score_names(self._kind), math.nan)
        return self._kind(**undefined | values, custom=custom), bins


@final
@dataclass(frozen=True)
class Classes(ProbableTask):
    """Logits of classes that exclude each other, of samples or of their pixels."""

    word = kind = "classification"
    losses = (CrossEntropy, cross_entropy, nn.CrossEntropyLoss, F.cross_entropy)
    predicts = ClassPrediction
    scored = Scores
    chooses = True
    calibrations = get_args(CalibrationMethod)
    conformal = get_args(SetScore)
    promise = "sets"

    def check_learned(self, outputs: Tensor, targets: Tensor, loss: Loss) -> None:
        """Refuse targets that are no classes, nor probabilities of them."""
        if self.owns(loss):
            _check_classes(targets, outputs.ndim > 2)

    def answers_in(self, targets: Tensor | None, names: Sequence[str]) -> int | None:
        """Return how many classes there are."""
        if names:
            return len(names)
        if targets is None or targets.is_floating_point():
            return None
        if (least := int(targets.min())) > 0:
            class_indices(targets, int(targets.max()) + 1 - least)
        return int(targets.max()) + 1 or None  # data without labels do not say

    def unfamiliarity(self, outputs: Tensor) -> dict[str, Tensor]:
        """Return all scores of samples, of pixels entropy and mutual information."""
        if outputs.ndim == 3:
            return ood_scores(outputs)
        return super().unfamiliarity(outputs)

    def scores_of(self, shape: tuple[int, ...]) -> type[TaskScores]:
        """Return which scores there are, of samples or of pixels."""
        return Scores if len(shape) == 3 else PixelScores

    def stream(self, outputs: Tensor, rule: Rule) -> ScoreStream:
        """Return what adds up the scores of samples, or of pixels."""
        return ScoreStream(len(outputs), rule, pixels=outputs.ndim > 3)

    def choices(self, shape: tuple[int, ...]) -> int | None:
        """Return between how many classes a sample chooses, None for pixels."""
        return shape[2] if len(shape) == 3 else None

    def runs(self, batches: Runs, shape: tuple[int, ...]) -> Runs:
        """Return the runs that the metrics of all samples together are added up over.

        Images are added up as they come.
        """
        return regrouped(batches) if len(shape) == 3 else batches

    def check(
        self, outputs: Tensor, targets: Tensor | None, argument: str, first: int
    ) -> None:
        """Refuse labels that are no classes of the outputs, and outputs of NaN."""
        if outputs.ndim != 3:
            return
        if targets is not None:
            class_indices(targets, outputs.shape[-1], f"labels of {argument}")
        logits_shape(outputs, first_sample=first)

    def warn_of(self, outputs: Tensor) -> None:
        """Warn if outputs are probabilities already."""
        if outputs.ndim == 3:
            warn_of_probabilities(outputs)

    def called(self, classes: Sequence[str], outputs: int) -> Sequence[str]:
        """Return the names of the classes."""
        return classes

    def answered(
        self, outputs: Tensor, targets: Tensor, rule: Rule
    ) -> tuple[Tensor, Tensor] | None:
        """Return the classes of samples, and those that they are called."""
        if outputs.ndim != 3:
            return None
        return targets, ensemble_predictions(outputs, rule=rule)

    def nouns(self, scores: Container[str]) -> Nouns:
        """Return what samples are called; pixels are known by their scores."""
        return Nouns(samples="pixels" if "mean_iou" in scores else "samples")

    def fit_calibration(
        self, outputs: Tensor, targets: Tensor, method: CalibrationMethod, rule: Rule
    ) -> Calibration:
        """Return what makes probabilities of held-out classes right."""
        if outputs.ndim > 3:
            outputs, targets = metrics.pixels(outputs, targets, ignored=UNLABELED)
        return fit_calibration(outputs, targets, method=method, rule=rule)

    def fit_conformity(
        self, outputs: Tensor, targets: Tensor, promise: Promise
    ) -> ConformalSets:
        """Return what makes sets of classes."""
        chosen = promise.score or self.conformal[0]
        one_of("score", chosen, self.conformal)
        wanted = "be of samples for sets of classes, not of pixels, which are not "
        wanted += "drawn independently"
        shape = tuple(outputs.shape)
        require(len(shape) == 3, "outputs", wanted, f"shape {shape}")
        changed, joint = calibrated(outputs, promise.calibration)
        probs = ClassPrediction(
            changed, task=self, rule=promise.rule, joint=joint
        ).probs
        ratio = None
        if promise.shifted is not None:
            others, _ = calibrated(promise.shifted, promise.calibration)
            ratio = density_ratio(changed, others)
        rest = promise._asdict() | {"score": cast(SetScore, chosen), "ratio": ratio}
        del rest["calibration"], rest["shifted"]
        weights = ratio_weights(ratio, changed)
        return ConformalSets.fit(probs, targets, weights=weights, **rest)

    def lesson(self, outputs: Tensor, temperature: float) -> tuple[Tensor, Loss]:
        """Return the mean of the members' probabilities at a temperature."""
        probs = (outputs / temperature).softmax(2).mean(0)
        return probs, SoftCrossEntropy(temperature)

    def answers(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return the classes that one member names and the right or likeliest ones."""
        soft = targets.shape == outputs.shape
        return outputs.argmax(1), targets.argmax(1) if soft else targets


def set_sums(sets: Tensor, labels: Tensor) -> Tensor:
    """Return number, held labels and total size of the sets of each class's samples.

    Example:
        >>> sets = torch.tensor([[True, False], [True, True], [True, False]])
        >>> set_sums(sets, torch.tensor([0, 0, 1])).tolist()
        [[2.0, 1.0], [2.0, 0.0], [3.0, 1.0]]
    """
    held = sets.gather(1, labels.unsqueeze(1))[:, 0]
    each = wide(torch.stack([torch.ones_like(labels), held, sets.sum(-1)]))
    return each.new_zeros(3, sets.shape[1]).index_add_(1, labels, each)


def _check_classes(targets: Tensor, pixels: bool) -> None:
    """Refuse targets from which a cross-entropy cannot be taken, and say what could."""
    floats = targets.is_floating_point()
    fits = targets.ndim > 2 if pixels else targets.ndim == (2 if floats else 1)
    got = f"{targets.dtype} of shape {tuple(targets.shape)}"
    if fits and floats:
        sums = targets.sum(1)
        fits = bool((targets >= 0).all() and ((sums - 1).abs() < 1e-3).all())
        if not pixels:
            got = f"rows that sum to {float(sums.min()):g} to {float(sums.max()):g}"
    shape = "(samples, height, width)" if pixels else "(samples,)"
    rule = (
        f"be integers of shape {shape}, or probabilities with an axis of classes, "
        "for a cross-entropy (tepui.losses.BinaryCrossEntropy fits several labels of "
        "each sample, MSE, GaussianNLL or Quantiles numbers)"
    )
    require(fits, "labels", rule, got)
