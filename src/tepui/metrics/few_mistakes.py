"""How far logits may be sharpened where hardly a held-out sample is wrong.

The loss of samples that are all right falls without end as their logits grow, and a
mistake or two hardly stop it. Laplace's rule of succession imagines two samples more,
one right and one wrong: with ``k`` of ``n`` wrong, it expects ``(n - k + 1) / (n + 2)``
of further ones right. Here both are spread over all samples as the uncalibrated
ensemble itself expects them: with its prediction ``ŷ_i``, a class ``c`` of sample ``i``
gets the weight ``P_ic / Σ_j P_jŷ`` if it is the prediction, and ``P_ic / Σ_j (1 -
P_jŷ)`` if not. From ten mistakes on, the rates with and without the two lie within a
third of a standard error of each other, and nothing is imagined.

References:
    Platt 1999, "Probabilistic outputs for support vector machines", whose targets are
    those of the same rule.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from tepui.metrics.chunks import Chunk, Rule, chunks_of, wide

ENOUGH = 10
_STEPS, _CLOSE = 60, 1e-7
_LEAST = 1e-30


class Support(NamedTuple):
    """What held-out samples with few mistakes vouch for."""

    mistakes: int
    samples: int

    @property
    def accuracy(self) -> float:
        """The share of further samples that should be right.

        Example:
            >>> Support(mistakes=0, samples=18).accuracy
            0.95
        """
        return (self.samples - self.mistakes + 1) / (self.samples + 2)

    def __str__(self) -> str:
        wrong = f"{self.mistakes or 'none'} of {self.samples} held-out samples"
        verb = "is" if self.mistakes < 2 else "are"
        rest = f"vouches for an accuracy of {self.accuracy:.3g} and no more"
        return f"{wrong} {verb} wrong, which {rest}; hold out more samples"


def support_of(logits: Tensor, labels: Tensor, rule: Rule) -> Support | None:
    """Return what the samples vouch for, None if they hold mistakes enough."""
    mistakes = 0
    for chunk in chunks_of(logits, labels):
        mistakes += int((~chunk.correct(rule)).sum())
        if mistakes >= ENOUGH:
            return None
    return Support(mistakes, len(labels))


def supported_inverse(logits: Tensor, labels: Tensor, rule: Rule, best: float) -> float:
    """Return the inverse temperature of the least loss with two samples imagined.

    Args:
        logits: Held-out logits of shape ``(members, samples, classes)``.
        labels: Class indices of shape ``(samples,)``.
        rule: How members are combined.
        best: The inverse temperature of the least loss without them, above 1.

    Returns:
        A number between 1 and the best.
    """
    right = _expected_right(logits, rule)
    wrong = max(len(labels) - right, _LEAST)
    chunks = chunks_of(logits, labels)
    weights = [_weights(chunk, rule, right, wrong) for chunk in chunks]
    low, high = 1.0, best
    if _slope(logits, weights, rule, high) <= 0:
        return high
    for _ in range(_STEPS):
        if high / low < 1 + _CLOSE:
            break
        middle = math.sqrt(low * high)
        rising = _slope(logits, weights, rule, middle) > 0
        low, high = (low, middle) if rising else (middle, high)
    return low


def _expected_right(logits: Tensor, rule: Rule) -> float:
    """Return how many predictions the ensemble expects to be right."""
    tops = [wide(chunk.ensemble_top(rule)[0]).sum() for chunk in chunks_of(logits)]
    return float(torch.stack(tops).sum())


def _slope(logits: Tensor, weights: list[Tensor], rule: Rule, beta: float) -> float:
    """Return the derivative of the loss by the inverse temperature."""
    parts = [
        (weight * _class_slopes(chunk, rule, beta)).sum()
        for weight, chunk in zip(weights, chunks_of(logits), strict=True)
    ]
    return float(torch.stack(parts).sum())


def _weights(chunk: Chunk, rule: Rule, right: float, wrong: float) -> Tensor:
    """Return what every class counts of every sample, ``(samples, classes)``."""
    probs, (confidence, predicted) = (
        chunk.ensemble_probs(rule),
        chunk.ensemble_top(rule),
    )
    weights = wide(probs) / wrong
    weights.scatter_(1, predicted.unsqueeze(1), wide(confidence / right).unsqueeze(1))
    return weights.scatter_add_(
        1, chunk.labels.unsqueeze(1), torch.ones_like(weights[:, :1])
    )


def _class_slopes(chunk: Chunk, rule: Rule, beta: float) -> Tensor:
    """Return the derivative of the loss of every class, were it the label."""
    values = chunk.below_largest(rule)
    scaled = Chunk(beta * values)
    gain = values - (scaled.probs * values).sum(-1, keepdim=True)
    return wide(-(scaled.log_probs.softmax(0) * gain).sum(0))
