"""Scores of how sure the ensemble is, one per sample.

``P_m`` is the softmax of member ``m``, ``P̄`` the mean over the ``M`` members and ``C``
the number of classes. All scores but :func:`max_mean_probability` and :func:`max_logit`
are high where a sample is unfamiliar; :func:`ood_scores` negates these two.
"""

from collections.abc import Callable, Iterable
from typing import Literal, get_args

import torch
from torch import Tensor

from tepui.core.checks import one_of, require
from tepui.metrics.chunks import Chunk, check_logits, chunks_of, map_samples, spread

Score = Literal[
    "max_mean_probability",
    "pds",
    "entropy",
    "mutual_information",
    "energy",
    "max_logit",
    "predictive_variance",
]
"""A score of how unfamiliar a sample looks."""


def max_mean_probability(logits: Tensor) -> Tensor:
    """Largest mean probability, ``max_c P̄_c``, also called BMA.

    High is familiar, so its negative is a score of being out of distribution; range
    [1/C, 1].

    Args:
        logits: Logits of shape ``(members, samples, classes)``.

    Returns:
        Scores of shape ``(samples,)``.

    Example:
        >>> logits = torch.tensor([[[0.0, 9.0], [0.0, 9.0]], [[9.0, 0.0], [0.0, 9.0]]])
        >>> max_mean_probability(logits)
        tensor([0.5000, 0.9999])
    """
    return map_samples(lambda chunk: chunk.ensemble_top("probability")[0], logits)


def pds(logits: Tensor) -> Tensor:
    """Predictive diversity score, ``(1/C) Σ_c max_m P_mc``.

    High is unfamiliar; range [1/C, min(M, C)/C]. If every member puts all its mass on
    one class, ``C`` times the score is the number of different predictions. One member
    alone scores ``1/C`` everywhere.

    Args:
        logits: Logits of shape ``(members, samples, classes)``.

    Returns:
        Scores of shape ``(samples,)``.

    Example:
        >>> pds(torch.tensor([[[0.0, 99.0], [0.0, 99.0]], [[99.0, 0.0], [0.0, 99.0]]]))
        tensor([1.0000, 0.5000])
    """
    return map_samples(_pds, logits)


def entropy(logits: Tensor) -> Tensor:
    """Entropy of the mean probability, ``H(P̄) = -Σ_c P̄_c log P̄_c``.

    High is unfamiliar; range [0, log C], in nats.

    Args:
        logits: Logits of shape ``(members, samples, classes)``.

    Returns:
        Scores of shape ``(samples,)``.

    Example:
        >>> entropy(torch.tensor([[[0.0, 99.0]], [[99.0, 0.0]]]))
        tensor([0.6931])
    """
    return map_samples(lambda chunk: chunk.ensemble_entropy, logits)


def mutual_information(logits: Tensor) -> Tensor:
    """Information about the label in the choice of member, ``H(P̄) - (1/M) Σ_m H(P_m)``.

    High is unfamiliar: each member is sure but they differ. Range
    [0, log min(M, C)], in nats; what rounding leaves below zero is set to zero.

    Args:
        logits: Logits of shape ``(members, samples, classes)``.

    Returns:
        Scores of shape ``(samples,)``.

    Example:
        >>> logits = torch.tensor([[[0.0, 99.0], [0.0, 0]], [[99.0, 0.0], [0, 0]]])
        >>> mutual_information(logits)
        tensor([0.6931, 0.0000])
    """
    return map_samples(_mutual_information, logits)


def predictive_variance(logits: Tensor) -> Tensor:
    """Variance of the probabilities, ``1/(M-1) Σ_m ||P_m - P̄||²``; 0 for one member.

    High is unfamiliar; range [0, 1]. Its mean over samples is
    :func:`probability_variance`.

    Args:
        logits: Logits of shape ``(members, samples, classes)``.

    Returns:
        Scores of shape ``(samples,)``.

    Example:
        >>> logits = torch.tensor([[[0.0, 99.0], [0.0, 0]], [[99.0, 0.0], [0, 0]]])
        >>> predictive_variance(logits)
        tensor([1., 0.])
    """
    return map_samples(lambda chunk: spread(chunk.probs), logits)


def energy(logits: Tensor) -> Tensor:
    """Mean energy of the members, ``-(1/M) Σ_m log Σ_c exp f_mc``.

    High is unfamiliar; range (-∞, ∞). A constant added to a member's logits changes it
    though not what the member predicts, so it compares samples, not models (Liu et al.
    2020, "Energy-based out-of-distribution detection").

    Args:
        logits: Logits of shape ``(members, samples, classes)``.

    Returns:
        Scores of shape ``(samples,)``.

    Example:
        >>> energy(torch.tensor([[[0.0, 9.0], [0.0, 0.0]]]))
        tensor([-9.0001, -0.6931])
    """
    return map_samples(_energy, logits)


def max_logit(logits: Tensor) -> Tensor:
    """Mean of the members' largest logits, ``(1/M) Σ_m max_c f_mc``.

    High is familiar, so its negative is a score of being out of distribution; range
    (-∞, ∞). Like :func:`energy` it compares samples, not models.

    Args:
        logits: Logits of shape ``(members, samples, classes)``.

    Returns:
        Scores of shape ``(samples,)``.

    Example:
        >>> max_logit(torch.tensor([[[0.0, 9.0]], [[4.0, 2.0]]]))
        tensor([6.5000])
    """
    return map_samples(lambda chunk: chunk.top[0].mean(0), logits)


def ood_scores(
    logits: Tensor, scores: Iterable[Score] = get_args(Score)
) -> dict[str, Tensor]:
    """Several scores of how unfamiliar each sample looks, from one pass.

    Each is the function of its name, turned so that higher always means less familiar:
    the negative of :func:`max_logit`, and of :func:`max_mean_probability` the logarithm
    of one minus it, taken from the probabilities of all other classes. So samples that
    are easy alike, of which float32 says no more than that the probability is one,
    keep their order.

    Args:
        logits: Logits of shape ``(members, samples, classes)``.
        scores: Which scores; all if not given.

    Returns:
        Scores of shape ``(samples,)`` by name.

    Example:
        >>> scores = ood_scores(torch.zeros(2, 1, 4), ["max_mean_probability", "pds"])
        >>> scores["max_mean_probability"].exp(), scores["pds"]
        (tensor([0.7500]), tensor([0.2500]))
    """
    names = list(scores)
    require(bool(names), "scores", "hold at least one name", names)
    for name in names:
        one_of("scores", name, get_args(Score))
    check_logits(logits)
    rows = [[_SCORES[name](chunk) for name in names] for chunk in chunks_of(logits)]
    columns = zip(*rows, strict=True)
    return {name: torch.cat(part) for name, part in zip(names, columns, strict=True)}


def _pds(chunk: Chunk) -> Tensor:
    if len(chunk.probs) == 1:  # rounding would put equal samples in an order
        return torch.full_like(chunk.probs[0, :, 0], 1 / chunk.probs.shape[2])
    return chunk.probs.amax(0).mean(-1)


def _mutual_information(chunk: Chunk) -> Tensor:
    if len(chunk.probs) == 1:  # likewise
        return torch.zeros_like(chunk.probs[0, :, 0])
    return (chunk.ensemble_entropy - chunk.member_entropy.mean(0)).clamp(min=0)


def _energy(chunk: Chunk) -> Tensor:
    # The largest log-probability is the largest logit less the logarithm of the sum.
    return (chunk.log_probs.amax(-1) - chunk.top[0]).mean(0)


_SCORES: dict[str, Callable[[Chunk], Tensor]] = {
    "max_mean_probability": lambda chunk: chunk.log_doubt("probability"),
    "pds": _pds,
    "entropy": lambda chunk: chunk.ensemble_entropy,
    "mutual_information": _mutual_information,
    "energy": _energy,
    "max_logit": lambda chunk: -chunk.top[0].mean(0),
    "predictive_variance": lambda chunk: spread(chunk.probs),
}
