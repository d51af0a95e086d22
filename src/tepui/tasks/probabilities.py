"""What classes and labels share: scores of probabilities, and their uncertainty."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

import torch
from torch import Tensor

from tepui import metrics
from tepui.core.checks import one_of
from tepui.metrics import Rule, Score, ood_scores
from tepui.metrics.chunks import ensemble_top
from tepui.tasks.base import Leading, Task
from tepui.tasks.prediction import Prediction, per_sample, some

# One score for each thing to be seen: doubt of the whole, disagreement, low logits.
JUDGING = ("entropy", "mutual_information", "energy")


@dataclass(frozen=True, eq=False, repr=False)
class ProbablePrediction(Prediction):
    """A prediction of classes or labels: rows of logits, each of which is answered."""

    usual: ClassVar[Score]  # by which inputs look unfamiliar if none is named
    shown = ("labels", "confidence", "total_uncertainty", "aleatoric", "epistemic")

    @property
    def logits(self) -> Tensor:
        """Outputs of every member, ``(members, samples, classes, …)``."""
        return self.outputs

    @property
    def labels(self) -> Tensor:
        """What the ensemble chooses: classes, or for each label 0 or 1."""
        return self._top[1]

    @property
    def confidence(self) -> Tensor:
        """Probability of the answer that was chosen, in the shape of :attr:`labels`."""
        return self._top[0]

    @property
    def total_uncertainty(self) -> Tensor:
        """Entropy of the mean probabilities, in the shape of :attr:`labels`.

        It is the sum of :attr:`aleatoric` and :attr:`epistemic`, in nats.
        """
        return self._shaped(ood_scores(self._rows, ["entropy"])["entropy"])

    @property
    def aleatoric(self) -> Tensor:
        """Mean entropy of the members' probabilities, in the shape of :attr:`labels`.

        What members are unsure of alike, which more members would not change.
        """
        found = ood_scores(self._rows, ["entropy", "mutual_information"])
        return self._shaped(found["entropy"] - found["mutual_information"])

    @property
    def epistemic(self) -> Tensor:
        """Mutual information of members and answer, in the shape of :attr:`labels`.

        How much members contradict each other: high where they were taught little.
        """
        name: Score = "mutual_information"
        return self._shaped(ood_scores(self._rows, [name])[name])

    def ood_score(self, score: Score | None = None) -> Tensor:
        """Score how unfamiliar each input looks; higher means less familiar.

        Args:
            score: ``"max_mean_probability"`` (the logarithm of one minus it),
                ``"pds"`` (predictive diversity score, the default for classes),
                ``"entropy"`` of the mean probability, ``"mutual_information"`` (the
                default for labels, each a choice between two), mean ``"energy"``,
                ``"max_logit"`` (the negative of the mean largest logit), or
                ``"predictive_variance"``.

        Returns:
            One score per sample, over pixels and labels their mean.
        """
        chosen = score or self.usual
        return self.scores([chosen])[chosen]

    def scores(self, names: Sequence[str] | None = None) -> dict[str, Tensor]:
        """Score how unfamiliar inputs look in several ways, from one pass.

        Args:
            names: Scores of :meth:`ood_score`; all if not given.

        Returns:
            Scores of shape ``(samples,)`` by name, over pixels and labels their mean.
        """
        known = get_args(Score)
        for name in names or ():
            one_of("score", name, known)
        wanted = [name for name in known if names is None or name in names]
        found = ood_scores(self._rows, wanted).items()
        return {name: per_sample(self._shaped(values)) for name, values in found}

    def statistics(self, targets: Tensor) -> dict[str, Tensor]:
        """Return what is chosen, how sure that is, and of what members are unsure."""
        return {
            "target": targets,
            "prediction": self.labels,
            "confidence": self.confidence,
            "total_uncertainty": self.total_uncertainty,
            "epistemic": self.epistemic,
        }

    def exported(self, coverage: float) -> dict[str, Tensor]:
        """Return probabilities, what is chosen, and how unfamiliar inputs look."""
        names = ("probs", "labels", "confidence", "epistemic")
        fields = {name: getattr(self, name) for name in names}
        return {**fields, "ood_score": self.ood_score()}

    def summary(self) -> dict[str, str]:
        """Return labels by their names, and what they are unsure of."""
        named = {"labels": some(self.label_names)} if self.outputs.ndim == 3 else {}
        return super().summary() | named

    @property
    @abstractmethod
    def label_names(self) -> list[str]:
        """What is chosen of each sample, by its name."""

    @abstractmethod
    def losses(self, targets: Tensor) -> Tensor:
        """Return the negative log-likelihood of each sample, the mean of its parts."""

    @property
    @abstractmethod
    def _rows(self) -> Tensor:
        """Logits ``(members, rows, choices)``: a row for every answer."""

    @property
    def _joint(self) -> Tensor:
        """Logits of which the ensemble's probabilities are made."""
        return self._rows

    @abstractmethod
    def _shaped(self, values: Tensor) -> Tensor:
        """Return values of rows in the shape of answers."""

    @property
    def _top(self) -> tuple[Tensor, Tensor]:
        """Confidence and answer, from one pass."""
        confidence, chosen = ensemble_top(self._joint, self.rule)
        return self._shaped(confidence), self._shaped(chosen)


@dataclass(frozen=True)
class ProbableTask(Task):
    """What tasks of classes and of labels share."""

    leading = Leading(
        "accuracy", "nll", ("accuracy", "individual_accuracy", "nll"), highest=True
    )
    measure = "accuracy"
    judged_by = ("entropy", "mutual_information")

    def judging(self, members: int) -> tuple[str, ...]:
        """Entropy, mutual information and energy: doubt, disagreement and height."""
        return JUDGING


def losses_of(of_truth: Tensor, counts: Tensor) -> Tensor:
    """Return the mean negative logarithm of each sample's parts that count."""
    least = torch.finfo(torch.float32).tiny
    losses = torch.where(counts, -of_truth.clamp(min=least).log(), torch.nan)
    return losses.flatten(1).nanmean(1) if losses.ndim > 1 else losses


def streams_of(rule: Rule) -> dict[str, metrics.LogitsStreaming[Any]]:
    """Return the scores that pixels and labels have."""
    return {
        "reliability": metrics.ReliabilityDiagram(rule=rule),
        "member_accuracies": metrics.IndividualAccuracy(),
        "member_nlls": metrics.IndividualNLL(),
        "accuracy": metrics.Accuracy(rule=rule),
        "nll": metrics.NLL(rule=rule),
        "ece": metrics.ECE(rule=rule),
        "brier": metrics.Brier(rule=rule),
    }


def values_of(together: metrics.Collection) -> dict[str, Any]:
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
