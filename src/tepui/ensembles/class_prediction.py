"""Predictions of classes; every pixel that has one is a sample of its own."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, final, get_args

from torch import Tensor

from tepui import metrics
from tepui.core.checks import logits_shape, one_of, require
from tepui.core.task import CLASSIFICATION, Task
from tepui.ensembles.prediction import Prediction
from tepui.ensembles.uncertainty import (
    JUDGING,
    entropy_and_information,
    in_words,
    known_scores,
    mean_and_lowest,
    score_of,
)
from tepui.metrics import ConformalSets, Rule, Score
from tepui.metrics.chunks import ensemble_top


@final
@dataclass(frozen=True, eq=False, repr=False)
class ClassPrediction(Prediction):
    """Which of several classes each sample belongs to, or each of its pixels.

    For pixels, ``(samples, …)`` below stands for ``(samples, height, width)``.

    Attributes:
        outputs: Logits of every member, ``(members, samples, classes, …)``.
        rule: How members are combined: ``"probability"`` averages their probabilities,
            ``"logit"`` their logits, ``"vote"`` counts their labels.
        classes: Names of the classes, where they have names.
        joint: Logarithms of the ensemble's probabilities, ``(1, samples, classes)``,
            where a calibration changes those and not the members' logits.
        task: Classification.
        conformity: What makes sets of the probabilities, where the ensemble was given
            data for it.
    """

    rule: Rule = field(default="probability", kw_only=True)
    classes: tuple[str, ...] = field(default=(), kw_only=True)
    joint: Tensor | None = field(default=None, kw_only=True)
    task: Task = field(default=CLASSIFICATION, kw_only=True)
    fields: ClassVar[tuple[str, ...]] = (
        *("probs", "labels", "label_names", "confidence"),
        *("total_uncertainty", "aleatoric", "epistemic", "ood_score(…)", "logits"),
        *("unfamiliarity()", "unfamiliar(level)", "objections(level)"),
    )

    def __post_init__(self) -> None:
        one_of("rule", self.rule, get_args(Rule))
        rule = "have shape (members, samples, classes, …)"
        require(self.outputs.ndim >= 3, "outputs", rule, tuple(self.outputs.shape))
        logits_shape(self._logits, argument="outputs")

    @property
    def logits(self) -> Tensor:
        """Outputs of every member, ``(members, samples, classes, …)``."""
        return self.outputs

    @property
    def probs(self) -> Tensor:
        """Probabilities of the ensemble, ``(samples, classes, …)``."""
        probs = metrics.ensemble_probs(self._joint, rule=self.rule)
        return probs if self._flat else self._unfolded(probs).movedim(-1, 1)

    @property
    def labels(self) -> Tensor:
        """The class the ensemble chooses, ``(samples, …)``."""
        return self._top[1]

    @property
    def label_names(self) -> list[str]:
        """The names of the chosen classes, or their numbers, one per sample."""
        require(self._flat, "prediction", "be of samples, not of pixels", "pixels")
        return self._names_of(self.labels)

    @property
    def confidence(self) -> Tensor:
        """Probability of the chosen class, ``(samples, …)``."""
        return self._top[0]

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
        return conformity.sets(self.probs)

    @property
    def total_uncertainty(self) -> Tensor:
        """Entropy of the mean probabilities, ``(samples, …)``.

        It is the sum of :attr:`aleatoric` and :attr:`epistemic`, in nats.
        """
        return self._unfolded(score_of(self._logits, "entropy"))

    @property
    def aleatoric(self) -> Tensor:
        """Mean entropy of the members' probabilities, ``(samples, …)``.

        What members are unsure of alike, which more members would not change.
        """
        return self._uncertainties[1]

    @property
    def epistemic(self) -> Tensor:
        """Mutual information of members and class, ``(samples, …)``.

        How much members contradict each other: high where they were taught little.
        """
        return self._unfolded(score_of(self._logits, "mutual_information"))

    @property
    def judging(self) -> tuple[str, ...]:
        """Entropy, mutual information and energy: doubt, disagreement and height."""
        return JUDGING

    def ood_score(self, score: Score = "pds") -> Tensor:
        """Score how unfamiliar each input looks; higher means less familiar.

        Args:
            score: ``"max_mean_probability"`` (the logarithm of one minus it),
                ``"pds"`` (predictive diversity score), ``"entropy"`` of the mean
                probability, ``"mutual_information"``, mean ``"energy"``,
                ``"max_logit"`` (the negative of the mean largest logit), or
                ``"predictive_variance"``.

        Returns:
            One score per sample, over pixels their mean.
        """
        return self.scores([score])[score]

    def scores(self, names: Sequence[str] | None = None) -> dict[str, Tensor]:
        """Score how unfamiliar inputs look in several ways, from one pass.

        Args:
            names: Scores of :meth:`ood_score`; all if not given.

        Returns:
            Scores of shape ``(samples,)`` by name, over pixels their mean.
        """
        found = metrics.ood_scores(self._logits, known_scores(names)).items()
        return {
            name: values if self._flat else self._unfolded(values).flatten(1).mean(1)
            for name, values in found
        }

    def summary(self) -> dict[str, str]:
        """Return labels, confidence and what they are unsure of."""
        confidence, chosen = self._top
        if self._flat:
            labels = " ".join(self._names_of(chosen[:8]))
            labels += " …" if len(chosen) > 8 else ""
        else:
            labels = f"of {chosen[0].numel()} pixels each"
        return {
            "labels": labels,
            "confidence": mean_and_lowest(confidence),
            **in_words(self._uncertainties),
            **self._sets_in_words(),
        }

    def _names_of(self, labels: Tensor) -> list[str]:
        named = len(self.classes) == self.outputs.shape[2]
        return [self.classes[n] if named else str(n) for n in labels.tolist()]

    def _sets_in_words(self) -> dict[str, str]:
        conformity = self.conformity
        if not isinstance(conformity, ConformalSets) or conformity.rule != self.rule:
            return {}
        size = float(self.sets.sum(-1).double().mean())
        promise = f"promised to hold the class {conformity.coverage:.4g} of the time"
        return {"conformal sets": f"{size:.4g} classes on average, {promise}"}

    def missing(self, name: str) -> str:
        """Say what sets need."""
        why = ", since the ensemble was given no data for them (Ensemble.conformal)"
        why = why if self._flat else ", which there are of samples, not of pixels"
        return why if name == "sets" else super().missing(name)

    @property
    def _top(self) -> tuple[Tensor, Tensor]:
        """Confidence and chosen class, from one pass."""
        confidence, chosen = ensemble_top(self._joint, self.rule)
        return self._unfolded(confidence), self._unfolded(chosen)

    @property
    def _uncertainties(self) -> tuple[Tensor, Tensor, Tensor]:
        """Total, aleatoric and epistemic, from one pass."""
        total, epistemic = map(self._unfolded, entropy_and_information(self._logits))
        return total, total - epistemic, epistemic

    @property
    def _flat(self) -> bool:
        """Whether there are samples only, and no pixels."""
        return self.outputs.ndim == 3

    @property
    def _logits(self) -> Tensor:
        """Logits ``(members, samples and pixels, classes)``."""
        if self._flat:
            return self.outputs
        return self.outputs.movedim(2, -1).flatten(1, -2)

    @property
    def _joint(self) -> Tensor:
        """Logits of which the ensemble's probabilities are made."""
        return self._logits if self.joint is None else self.joint

    def _unfolded(self, values: Tensor) -> Tensor:
        """Return values of samples and pixels as ``(samples, …)``."""
        if self._flat:
            return values
        sizes = (self.outputs.shape[1], *self.outputs.shape[3:])
        return values.reshape(*sizes, *values.shape[1:])
