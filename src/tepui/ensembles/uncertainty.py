"""What predictions of classes and of labels say of their uncertainty."""

from collections.abc import Sequence
from typing import get_args

from torch import Tensor

from tepui import metrics
from tepui.core.checks import one_of
from tepui.ensembles.prediction import mean_and_largest
from tepui.metrics import Score

# One score for each thing to be seen: doubt of the whole, disagreement, low logits.
JUDGING = ("entropy", "mutual_information", "energy")


def known_scores(names: Sequence[str] | None) -> list[Score]:
    """Return the names of scores, all if None."""
    known = get_args(Score)
    for name in names or ():
        one_of("score", name, known)
    return [name for name in known if names is None or name in names]


def score_of(logits: Tensor, score: Score) -> Tensor:
    """Return how unfamiliar samples look by one score."""
    return metrics.ood_scores(logits, [score])[score]


def entropy_and_information(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return entropy and mutual information."""
    found = metrics.ood_scores(logits, ["entropy", "mutual_information"])
    return found["entropy"], found["mutual_information"]


def mean_and_lowest(confidence: Tensor) -> str:
    """Return two numbers that sum up confidences."""
    mean, lowest = float(confidence.mean()), float(confidence.min())
    return f"mean {mean:.4g}, lowest {lowest:.4g}"


def in_words(uncertainties: tuple[Tensor, ...]) -> dict[str, str]:
    """Return total, aleatoric and epistemic uncertainty by name, summed up."""
    names = ("total uncertainty", "aleatoric", "epistemic")
    values = map(mean_and_largest, uncertainties)
    return dict(zip(names, values, strict=True))
