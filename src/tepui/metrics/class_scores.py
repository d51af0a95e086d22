"""How well the ensemble finds each class, however rare it is.

Accuracy counts samples, so that a class of few samples hardly shows in it. Here every
class has numbers of its own, and the balanced accuracy counts all classes the same.
"""

from typing import NamedTuple, final

import torch
from torch import Tensor

from tepui.metrics.chunks import Chunk, Rule, wide
from tepui.metrics.streaming import LogitsStreaming, State, WithRule


class ClassRates(NamedTuple):
    """Scores of each class, ``(classes,)``; NaN where a share is one of nothing.

    Attributes:
        samples: Whole number of samples of the class.
        recall: The share of these that is predicted to be of it; NaN without samples.
        precision: The share of those predicted to be of the class that are; NaN where
            none is predicted.
        f1: Harmonic mean of both; NaN where the class neither occurs nor is predicted.
    """

    samples: Tensor
    recall: Tensor
    precision: Tensor
    f1: Tensor


def class_scores(
    logits: Tensor, labels: Tensor, *, rule: Rule = "probability"
) -> ClassRates:
    """Recall, precision and F1 of each class.

    With ``n_c`` samples of class c, ``p_c`` predictions of it and ``r_c`` that are
    right: ``r_c/n_c``, ``r_c/p_c`` and ``2 r_c/(n_c + p_c)``. Higher is better; range
    [0, 1].

    Args:
        logits: Logits of shape ``(members, samples, classes)``.
        labels: Class indices of shape ``(samples,)``.
        rule: How members are combined.

    Returns:
        These and the number of samples, each of shape ``(classes,)``.

    Example:
        >>> logits = torch.tensor([[[2.0, 0.0], [0.0, 1.0], [0.0, 3.0]]])
        >>> found = class_scores(logits, torch.tensor([0, 0, 1]))
        >>> found.samples, found.recall
        (tensor([2, 1]), tensor([0.5000, 1.0000]))
        >>> found.precision, found.f1
        (tensor([1.0000, 0.5000]), tensor([0.6667, 0.6667]))
    """
    return ClassScores(rule=rule).once(logits, labels)


@final
class ClassScores(WithRule, LogitsStreaming[ClassRates]):
    """Streaming :func:`class_scores`, with its ``rule``."""

    num_states = 3

    def statistics(self, chunk: Chunk) -> State:
        """Return samples, predictions and right predictions of each class."""
        return _counts(chunk, self.rule)

    def value(self, *state: Tensor) -> ClassRates:
        """Return the rates of these numbers."""
        return rates_of(*state)


def balanced_accuracy(
    logits: Tensor, labels: Tensor, *, rule: Rule = "probability"
) -> Tensor:
    """Mean recall of the classes that occur, each counted the same.

    Equal to the accuracy where all classes have as many samples. Higher is better;
    range [0, 1].

    Args:
        logits: Logits of shape ``(members, samples, classes)``.
        labels: Class indices of shape ``(samples,)``.
        rule: How members are combined.

    Returns:
        A scalar.

    Example:
        >>> logits = torch.tensor([[[2.0, 0.0], [0.0, 1.0], [0.0, 3.0]]])
        >>> balanced_accuracy(logits, torch.tensor([0, 0, 1]))
        tensor(0.7500)
    """
    return BalancedAccuracy(rule=rule).once(logits, labels)


@final
class BalancedAccuracy(WithRule, LogitsStreaming[Tensor]):
    """Streaming :func:`balanced_accuracy`, with its ``rule``."""

    num_states = 3

    def statistics(self, chunk: Chunk) -> State:
        """Return samples, predictions and right predictions of each class."""
        return _counts(chunk, self.rule)

    def value(self, *state: Tensor) -> Tensor:
        """Return the mean over classes that occur."""
        return rates_of(*state).recall.nanmean()


def rates_of(samples: Tensor, predicted: Tensor, right: Tensor) -> ClassRates:
    """Return the rates of how often each class occurs, is predicted, and rightly so.

    Example:
        >>> counts = torch.tensor([4, 0]), torch.tensor([0, 2]), torch.tensor([0, 0])
        >>> rates_of(*counts).precision
        tensor([nan, 0.], dtype=torch.float64)
    """
    both = wide(right)
    return ClassRates(
        samples, both / samples, both / predicted, 2 * both / (samples + predicted)
    )


def _counts(chunk: Chunk, rule: Rule) -> State:
    predicted, classes = chunk.ensemble_top(rule)[1], chunk.logits.shape[2]
    right = predicted[predicted == chunk.labels]
    samples, chosen, both = (
        torch.bincount(each, minlength=classes)
        for each in (chunk.labels, predicted, right)
    )
    return samples, chosen, both
