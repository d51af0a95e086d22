"""An ensemble's prediction for some inputs, and how unfamiliar they look to it."""

from dataclasses import dataclass, field
from typing import get_args

from torch import Tensor

from tepui import metrics
from tepui.core.checks import one_of
from tepui.metrics import Rule, Score


@dataclass(frozen=True, eq=False)
class Prediction:
    """An ensemble's prediction for some inputs.

    Attributes:
        logits: Outputs of every member, ``(members, samples, classes)``.
        rule: How members are combined: ``"probability"`` averages their probabilities,
            ``"logit"`` their logits, ``"vote"`` counts their labels.
    """

    logits: Tensor
    rule: Rule = field(default="probability", kw_only=True)

    @property
    def probs(self) -> Tensor:
        """Probabilities of the ensemble, ``(samples, classes)``."""
        return metrics.ensemble_probs(self.logits, rule=self.rule)

    @property
    def labels(self) -> Tensor:
        """The class the ensemble chooses, ``(samples,)``."""
        return metrics.ensemble_predictions(self.logits, rule=self.rule)

    @property
    def confidence(self) -> Tensor:
        """Probability of the chosen class, ``(samples,)``."""
        return self.probs.gather(1, self.labels[:, None])[:, 0]

    def ood_score(self, score: Score = "pds") -> Tensor:
        """Score how unfamiliar each input looks; higher means less familiar.

        Args:
            score: ``"max_mean_probability"`` (the logarithm of one minus it),
                ``"pds"`` (predictive diversity score), ``"entropy"`` of the mean
                probability, ``"mutual_information"``, mean ``"energy"``,
                ``"max_logit"`` (the negative of the mean largest logit), or
                ``"predictive_variance"``.

        Returns:
            One score per sample.
        """
        one_of("score", score, get_args(Score))
        return metrics.ood_scores(self.logits, [score])[score]
