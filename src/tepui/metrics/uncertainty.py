"""Scores of how sure the ensemble is, one per sample.

``P_m`` is the softmax of member ``m``, ``P̄`` the mean over the ``M`` members and ``C``
the number of classes. All scores but :func:`bma` are high where a sample is unfamiliar.
"""

import torch
from torch import Tensor

from tepui.metrics.aggregate import _check, _map_samples, _probs
from tepui.metrics.diversity import _spread


def bma(logits: Tensor) -> Tensor:
    """Largest mean probability, ``max_c P̄_c``.

    High is familiar, so its negative is a score of being out of distribution; range
    [1/C, 1].

    Args:
        logits: Logits of shape ``(members, samples, classes)``.

    Returns:
        Scores of shape ``(samples,)``.

    Raises:
        ValueError: If the logits break their rules.

    Example:
        >>> bma(torch.tensor([[[0.0, 99.0], [0.0, 99.0]], [[99.0, 0.0], [0.0, 99.0]]]))
        tensor([0.5000, 1.0000])
    """
    _check(logits)
    return _map_samples(lambda part: _probs(part, "probability").amax(-1), logits)


def pds(logits: Tensor) -> Tensor:
    """Predictive diversity score, ``(1/C) Σ_c max_m P_mc``.

    High is unfamiliar; range [1/C, min(M, C)/C]. If every member puts all its mass on
    one class, ``C`` times the score is the number of different predictions. One member
    alone scores ``1/C`` everywhere.

    Args:
        logits: Logits of shape ``(members, samples, classes)``.

    Returns:
        Scores of shape ``(samples,)``.

    Raises:
        ValueError: If the logits break their rules.

    Example:
        >>> pds(torch.tensor([[[0.0, 99.0], [0.0, 99.0]], [[99.0, 0.0], [0.0, 99.0]]]))
        tensor([1.0000, 0.5000])
    """
    _check(logits)
    return _map_samples(lambda part: part.softmax(-1).amax(0).mean(-1), logits)


def entropy(logits: Tensor) -> Tensor:
    """Entropy of the mean probability, ``H(P̄) = -Σ_c P̄_c log P̄_c``.

    High is unfamiliar; range [0, log C], in nats.

    Args:
        logits: Logits of shape ``(members, samples, classes)``.

    Returns:
        Scores of shape ``(samples,)``.

    Raises:
        ValueError: If the logits break their rules.

    Example:
        >>> entropy(torch.tensor([[[0.0, 99.0]], [[99.0, 0.0]]]))
        tensor([0.6931])
    """
    _check(logits)
    return _map_samples(lambda part: _entropy(_probs(part, "probability")), logits)


def mutual_information(logits: Tensor) -> Tensor:
    """Information about the label in the choice of member, ``H(P̄) - (1/M) Σ_m H(P_m)``.

    High is unfamiliar: each member is sure but they differ. Range
    [0, log min(M, C)], in nats; what rounding leaves below zero is set to zero.

    Args:
        logits: Logits of shape ``(members, samples, classes)``.

    Returns:
        Scores of shape ``(samples,)``.

    Raises:
        ValueError: If the logits break their rules.

    Example:
        >>> logits = torch.tensor([[[0.0, 99.0], [0.0, 0]], [[99.0, 0.0], [0, 0]]])
        >>> mutual_information(logits)
        tensor([0.6931, 0.0000])
    """
    _check(logits)
    return _map_samples(_mutual_information, logits)


def predictive_variance(logits: Tensor) -> Tensor:
    """Variance of the probabilities, ``1/(M-1) Σ_m ||P_m - P̄||²``; 0 for one member.

    High is unfamiliar; range [0, 1]. Its mean over samples is
    ``variance(logits, of="probs")``.

    Args:
        logits: Logits of shape ``(members, samples, classes)``.

    Returns:
        Scores of shape ``(samples,)``.

    Raises:
        ValueError: If the logits break their rules.

    Example:
        >>> logits = torch.tensor([[[0.0, 99.0], [0.0, 0]], [[99.0, 0.0], [0, 0]]])
        >>> predictive_variance(logits)
        tensor([1., 0.])
    """
    _check(logits)
    return _map_samples(lambda part: _spread(part.softmax(-1)), logits)


def _entropy(probs: Tensor) -> Tensor:
    entropies: Tensor = torch.special.entr(probs).sum(-1)
    return entropies


def _mutual_information(part: Tensor) -> Tensor:
    probs = part.softmax(-1)
    return (_entropy(probs.mean(0)) - _entropy(probs).mean(0)).clamp(min=0)
