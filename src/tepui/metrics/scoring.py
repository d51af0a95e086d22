"""Proper scores of the ensemble's probabilities."""

from typing import final

from torch import Tensor

from tepui.metrics.chunks import Chunk, Rule
from tepui.metrics.streaming import SampleMean, WithRule


def nll(logits: Tensor, labels: Tensor, *, rule: Rule = "probability") -> Tensor:
    """Negative log-likelihood of the ensemble, ``-(1/N) Σ_n log P(y_n | x_n)``.

    Lower is better; range [0, ∞]. Infinity occurs only for ``vote``: when a label
    received no vote at all, the ensemble called it impossible.

    Args:
        logits: Logits of shape ``(members, samples, classes)``.
        labels: Class indices of shape ``(samples,)``.
        rule: How members are combined.

    Returns:
        A scalar, in nats.

    Example:
        >>> import torch
        >>> logits = torch.tensor([[[0.0, 0.0]], [[0.0, 0.0]]])
        >>> nll(logits, torch.tensor([1]))
        tensor(0.6931)
        >>> nll(logits, torch.tensor([1]), rule="vote")
        tensor(inf)
    """
    return NLL(rule=rule).once(logits, labels)


@final
class NLL(WithRule, SampleMean):
    """Streaming :func:`nll`, with its ``rule``."""

    def per_sample(self, chunk: Chunk) -> Tensor:
        """Return the loss of each sample."""
        return -chunk.label_log_probs(self.rule)


def individual_nll(logits: Tensor, labels: Tensor) -> Tensor:
    """Negative log-likelihood of each member, ``-(1/N) Σ_n log P_m(y_n | x_n)``.

    Lower is better; range [0, ∞). Guessing gives ``log C``.

    Args:
        logits: Logits of shape ``(members, samples, classes)``.
        labels: Class indices of shape ``(samples,)``.

    Returns:
        Losses of shape ``(members,)``, in nats.

    Example:
        >>> import torch
        >>> logits = torch.tensor([[[0.0, 0.0]], [[9.0, 0.0]]])
        >>> individual_nll(logits, torch.tensor([1]))
        tensor([0.6931, 9.0001])
    """
    return IndividualNLL().once(logits, labels)


@final
class IndividualNLL(SampleMean):
    """Streaming :func:`individual_nll`."""

    def per_sample(self, chunk: Chunk) -> Tensor:
        """Return the loss of each member and sample, ``(members, samples)``."""
        index = chunk.labels.expand(len(chunk.logits), -1).unsqueeze(-1)
        return -chunk.log_probs.gather(2, index)[:, :, 0]


def brier(logits: Tensor, labels: Tensor, *, rule: Rule = "probability") -> Tensor:
    """Brier score over all classes, ``(1/N) Σ_n Σ_c (P_c(x_n) - 1[y_n = c])²``.

    Lower is better; range [0, 2]. For two classes this is twice the score that looks at
    one class only.

    Args:
        logits: Logits of shape ``(members, samples, classes)``.
        labels: Class indices of shape ``(samples,)``.
        rule: How members are combined.

    Returns:
        A scalar.

    Example:
        >>> import torch
        >>> brier(torch.tensor([[[0.0, 0.0]]]), torch.tensor([1]))
        tensor(0.5000)
    """
    return Brier(rule=rule).once(logits, labels)


@final
class Brier(WithRule, SampleMean):
    """Streaming :func:`brier`, with its ``rule``."""

    def per_sample(self, chunk: Chunk) -> Tensor:
        """Return the squared error of each sample."""
        return _squared_errors(chunk, self.rule)


def _squared_errors(chunk: Chunk, rule: Rule) -> Tensor:
    probs, index = chunk.ensemble_probs(rule), chunk.labels.unsqueeze(1)
    residual = probs.scatter(1, index, probs.gather(1, index) - 1)
    return residual.square_().sum(-1)
