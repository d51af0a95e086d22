"""What an ensemble says about some inputs, and how unfamiliar they look to it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

from torch import Tensor

from tepui import metrics
from tepui.checks import one_of
from tepui.metrics.aggregate import Rule

Score = Literal["bma", "pds", "entropy", "mutual_information", "variance"]


@dataclass(frozen=True, eq=False)
class Prediction:
    """What an ensemble says about some inputs.

    Attributes:
        logits: Outputs of every member, ``(members, samples, classes)``.
        rule: How members are joined: ``"probability"`` averages their probabilities,
            ``"logit"`` their logits, ``"vote"`` counts their labels.
    """

    logits: Tensor
    rule: Rule = "probability"

    @property
    def probs(self) -> Tensor:
        """Probabilities of the ensemble, ``(samples, classes)``."""
        return metrics.ensemble_probs(self.logits, self.rule)

    @property
    def labels(self) -> Tensor:
        """The class the ensemble chooses, ``(samples,)``."""
        return metrics.ensemble_predictions(self.logits, self.rule)

    @property
    def confidence(self) -> Tensor:
        """Probability of the chosen class, ``(samples,)``."""
        return self.probs.gather(1, self.labels[:, None])[:, 0]

    def ood_score(self, score: Score = "pds") -> Tensor:
        """Score how unfamiliar each input looks; higher means less familiar.

        Args:
            score: ``"bma"`` (one minus the highest mean probability), ``"pds"``
                (predictive diversity score), ``"entropy"`` of the mean probability,
                ``"mutual_information"``, or ``"variance"`` of the probabilities.

        Returns:
            One score per sample.
        """
        one_of("score", score, get_args(Score))
        if score == "bma":
            return 1 - metrics.bma(self.logits)
        if score == "variance":
            return metrics.predictive_variance(self.logits)
        of_logits: Callable[[Tensor], Tensor] = getattr(metrics, score)
        return of_logits(self.logits)
