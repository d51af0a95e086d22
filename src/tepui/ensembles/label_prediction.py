"""Predictions of labels that hold or not.

Every label is a choice between two classes with the logits 0 and :math:`z`, whose
softmax is the sigmoid of :math:`z`, so that all comes from the calculation of classes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, final, get_args

from torch import Tensor

from tepui import metrics
from tepui.core.checks import one_of, require
from tepui.core.task import MULTI_LABEL, Task
from tepui.data.class_names import answers_of
from tepui.ensembles.prediction import Prediction, some
from tepui.ensembles.uncertainty import (
    JUDGING,
    entropy_and_information,
    in_words,
    known_scores,
    mean_and_lowest,
    score_of,
)
from tepui.metrics import Rule, Score
from tepui.metrics.chunks import ensemble_top
from tepui.metrics.multilabel import two_classes


@final
@dataclass(frozen=True, eq=False, repr=False)
class LabelPrediction(Prediction):
    """Which labels hold, each on its own; of one label: yes or no.

    Attributes:
        outputs: Logits of every member, ``(members, samples, labels, …)``.
        rule: How members are combined: ``"probability"`` averages their probabilities,
            ``"logit"`` their logits, ``"vote"`` counts their answers.
        classes: Names of the labels, where they have names; of one output also the
            names of both answers, no first.
        task: Multi-label.
    """

    rule: Rule = field(default="probability", kw_only=True)
    classes: tuple[str, ...] = field(default=(), kw_only=True)
    task: Task = field(default=MULTI_LABEL, kw_only=True)
    fields: ClassVar[tuple[str, ...]] = (
        *("probs", "labels", "label_names", "confidence"),
        *("total_uncertainty", "aleatoric", "epistemic", "ood_score(…)", "logits"),
        *("unfamiliarity()", "unfamiliar(level)", "objections(level)"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("rule", self.rule, get_args(Rule))
        rule = "have shape (members, samples, labels, …)"
        require(self.outputs.ndim >= 3, "outputs", rule, tuple(self.outputs.shape))

    @property
    def logits(self) -> Tensor:
        """Outputs of every member, ``(members, samples, labels, …)``."""
        return self.outputs

    @property
    def probs(self) -> Tensor:
        """Probability that each label holds, ``(samples, labels, …)``."""
        return self._shaped(metrics.ensemble_probs(self._two, rule=self.rule)[:, 1])

    @property
    def labels(self) -> Tensor:
        """Whether each label holds, 0 or 1, ``(samples, labels, …)``."""
        return self._top[1]

    @property
    def label_names(self) -> list[str]:
        """The names of the labels that hold, or their numbers, one text per sample.

        Of one output the name of the answer, or ``"yes"`` and ``"no"``.
        """
        require(self.outputs.ndim == 3, "prediction", "be of samples", "pixels")
        if self.outputs.shape[2] == 1:
            answers = answers_of(self.classes)
            return [answers[holds] for (holds,) in self.labels.tolist()]
        named = len(self.classes) == self.outputs.shape[2]
        return [
            " ".join(
                self.classes[n] if named else str(n)
                for n, holds in enumerate(row)
                if holds
            )
            for row in self.labels.tolist()
        ]

    @property
    def confidence(self) -> Tensor:
        """Probability of the answer that was chosen, ``(samples, labels, …)``."""
        return self._top[0]

    @property
    def total_uncertainty(self) -> Tensor:
        """Entropy of the mean probability of each label, ``(samples, labels, …)``.

        It is the sum of :attr:`aleatoric` and :attr:`epistemic`, in nats.
        """
        return self._shaped(score_of(self._two, "entropy"))

    @property
    def aleatoric(self) -> Tensor:
        """Mean entropy of the members' probabilities, ``(samples, labels, …)``."""
        return self._uncertainties[1]

    @property
    def epistemic(self) -> Tensor:
        """Mutual information of members and answer, ``(samples, labels, …)``."""
        return self._shaped(score_of(self._two, "mutual_information"))

    @property
    def judging(self) -> tuple[str, ...]:
        """Entropy, mutual information and energy: doubt, disagreement and height."""
        return JUDGING

    def ood_score(self, score: Score = "mutual_information") -> Tensor:
        """Score how unfamiliar each input looks; higher means less familiar.

        Args:
            score: A score of :meth:`ClassPrediction.ood_score`, here of two classes.

        Returns:
            One score per sample, the mean over labels.
        """
        return self.scores([score])[score]

    def scores(self, names: Sequence[str] | None = None) -> dict[str, Tensor]:
        """Score how unfamiliar inputs look in several ways, from one pass.

        Args:
            names: Scores of :meth:`ood_score`; all if not given.

        Returns:
            Scores of shape ``(samples,)`` by name, the mean over labels.
        """
        found = metrics.ood_scores(self._two, known_scores(names)).items()
        return {name: self._shaped(part).flatten(1).mean(1) for name, part in found}

    def summary(self) -> dict[str, str]:
        """Return labels, confidence and what they are unsure of."""
        confidence, labels = self._top
        held = labels.double().transpose(0, 1).flatten(1).mean(1)
        return {
            "share of samples with each label": some(held),
            "confidence": mean_and_lowest(confidence),
            **in_words(self._uncertainties),
        }

    @property
    def _top(self) -> tuple[Tensor, Tensor]:
        """Confidence and answer, from one pass."""
        confidence, chosen = ensemble_top(self._two, self.rule)
        return self._shaped(confidence), self._shaped(chosen)

    @property
    def _uncertainties(self) -> tuple[Tensor, Tensor, Tensor]:
        """Total, aleatoric and epistemic, from one pass."""
        total, epistemic = map(self._shaped, entropy_and_information(self._two))
        return total, total - epistemic, epistemic

    @property
    def _two(self) -> Tensor:
        """Every label as a choice between two, ``(members, samples and labels, 2)``."""
        return two_classes(self.outputs.flatten(1))

    def _shaped(self, values: Tensor) -> Tensor:
        """Return values of samples and labels as ``(samples, labels, …)``."""
        return values.reshape(self.outputs.shape[1:])
