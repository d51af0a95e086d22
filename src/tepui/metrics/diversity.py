"""How much the members differ."""

import warnings
from typing import Literal

import torch
from torch import Tensor

from tepui.checks import one_of
from tepui.metrics.aggregate import (
    Rule,
    _check,
    _dtype,
    _map_samples,
    _parts,
    _share,
    _top,
)


def pairwise_disagreement(logits: Tensor) -> Tensor:
    """Share of samples on which two members predict different classes.

    ``D_ij = (1/N) Σ_n 1[argmax f_i(x_n) ≠ argmax f_j(x_n)]``. Higher is more diverse;
    range [0, 1].

    Args:
        logits: Logits of shape ``(members, samples, classes)``, two members or more.

    Returns:
        A symmetric matrix of shape ``(members, members)`` with a diagonal of zeros.

    Raises:
        ValueError: If the logits break their rules or hold one member.

    Example:
        >>> logits = torch.tensor([[[2.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 3.0]]])
        >>> pairwise_disagreement(logits)
        tensor([[0.0000, 0.5000],
                [0.5000, 0.0000]])
    """
    _check(logits, min_members=2)
    return _pairwise_disagreement(logits.argmax(-1), _dtype(logits))


def disagreement(logits: Tensor) -> Tensor:
    """Mean of :func:`pairwise_disagreement` over pairs of different members.

    ``2/(M(M-1)) Σ_{i<j} D_ij``. Higher is more diverse; range [0, 1].

    Args:
        logits: Logits of shape ``(members, samples, classes)``, two members or more.

    Returns:
        A scalar.

    Raises:
        ValueError: If the logits break their rules or hold one member.

    Example:
        >>> logits = torch.tensor([[[2.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 3.0]]])
        >>> disagreement(logits)
        tensor(0.5000)
    """
    _check(logits, min_members=2)
    matrix = _pairwise_disagreement(logits.argmax(-1), _dtype(logits))
    return _mean_over_pairs(matrix)


def der(logits: Tensor, labels: Tensor) -> Tensor:
    """Disagreement-error ratio: :func:`disagreement` over the mean member error.

    ``DER = mean_{i<j} D_ij / mean_i err_i``. Higher is more diverse for what the
    members get wrong; range [0, 2], because two members that differ cannot both be
    right. NaN, with a warning, when no member errs.

    Args:
        logits: Logits of shape ``(members, samples, classes)``, two members or more.
        labels: Class indices of shape ``(samples,)``.

    Returns:
        A scalar.

    Raises:
        ValueError: If logits or labels break their rules or there is one member.

    Example:
        >>> logits = torch.tensor([[[2.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 3.0]]])
        >>> der(logits, torch.tensor([0, 1]))
        tensor(2.)
    """
    _check(logits, labels, min_members=2)
    predicted, dtype = logits.argmax(-1), _dtype(logits)
    error = _share((predicted != labels).flatten(), dtype)
    mean_disagreement = _mean_over_pairs(_pairwise_disagreement(predicted, dtype))
    return _over_error(mean_disagreement, error, "der")


def eir(logits: Tensor, labels: Tensor, rule: Rule = "probability") -> Tensor:
    """Ensemble improvement rate, ``(mean_i err_i - err_ensemble) / mean_i err_i``.

    Higher is better; at most 1 (the ensemble never errs), 0 when it errs as often as
    its members do, negative when more often. NaN, with a warning, when no member errs.

    Args:
        logits: Logits of shape ``(members, samples, classes)``.
        labels: Class indices of shape ``(samples,)``.
        rule: How members are joined.

    Returns:
        A scalar.

    Raises:
        ValueError: If logits or labels break their rules or the rule is unknown.

    Example:
        >>> logits = torch.tensor([[[2.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 3.0]]])
        >>> eir(logits, torch.tensor([0, 1]))
        tensor(1.)
    """
    _check(logits, labels, rule=rule)
    dtype = _dtype(logits)
    predicted = _map_samples(lambda part: _top(part, rule)[1], logits)
    error = _share((logits.argmax(-1) != labels).flatten(), dtype)
    return _over_error(error - _share(predicted != labels, dtype), error, "eir")


def variance(logits: Tensor, of: Literal["logits", "probs"] = "logits") -> Tensor:
    """Variance of the outputs over members, summed over classes, mean over samples.

    ``(1/N) Σ_n 1/(M-1) Σ_m ||f_m(x_n) - f̄(x_n)||²`` with ``f̄`` the mean over members.
    Higher is more diverse; range [0, ∞) for logits, [0, 1] for probabilities. A
    constant added to all logits of one member changes the variance of the logits but
    nothing that the member predicts.

    Args:
        logits: Logits of shape ``(members, samples, classes)``, two members or more.
        of: Whether ``f`` is the logits or their softmax.

    Returns:
        A scalar.

    Raises:
        ValueError: If the logits break their rules, hold one member, or ``of`` is
            unknown.

    Example:
        >>> logits = torch.tensor([[[2.0, 0.0]], [[0.0, 0.0]]])
        >>> variance(logits)
        tensor(2.)
    """
    _check(logits, min_members=2)
    one_of("of", of, ("logits", "probs"))
    if of == "probs":
        return _map_samples(lambda part: _spread(part.softmax(-1)), logits).mean()
    return _map_samples(_spread, logits).mean()


def pairwise_kl(logits: Tensor) -> Tensor:
    """Kullback-Leibler divergence between each two members, mean over samples.

    ``K_ij = (1/N) Σ_n Σ_c P_i (log P_i - log P_j)``, with ``P = softmax(f)``. Higher is
    more diverse; range [0, ∞).

    Args:
        logits: Logits of shape ``(members, samples, classes)``, two members or more.

    Returns:
        A matrix of shape ``(members, members)``, not symmetric, with a diagonal of
        zeros; rows are ``i``.

    Raises:
        ValueError: If the logits break their rules or hold one member.

    Example:
        >>> pairwise_kl(torch.tensor([[[0.0, 0.0]], [[0.0, 2.0]]]))
        tensor([[0.0000, 0.4338],
                [0.3278, 0.0000]])
    """
    _check(logits, min_members=2)
    return _pairwise_kl(logits)


def kl(logits: Tensor, symmetric: bool = False) -> Tensor:
    """Mean of :func:`pairwise_kl` over ordered pairs of different members.

    ``1/(M(M-1)) Σ_{i≠j} K_ij``, or the mean of ``K_ij + K_ji`` over ``i < j`` if
    symmetric, which is twice as much. Higher is more diverse; range [0, ∞).

    Args:
        logits: Logits of shape ``(members, samples, classes)``, two members or more.
        symmetric: Take the divergence of a pair to be the sum of both directions.

    Returns:
        A scalar, in nats.

    Raises:
        ValueError: If the logits break their rules or hold one member.

    Example:
        >>> kl(torch.tensor([[[0.0, 0.0]], [[0.0, 2.0]]]))
        tensor(0.3808)
    """
    _check(logits, min_members=2)
    return _mean_over_pairs(_pairwise_kl(logits)) * (2 if symmetric else 1)


def unique_predictions(logits: Tensor) -> Tensor:
    """Mean number of different classes that the members predict for a sample.

    ``(1/N) Σ_n |{argmax f_m(x_n) : m}|``. Higher is more diverse; range
    [1, min(members, classes)].

    Args:
        logits: Logits of shape ``(members, samples, classes)``.

    Returns:
        A scalar.

    Raises:
        ValueError: If the logits break their rules.

    Example:
        >>> logits = torch.tensor([[[2.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 3.0]]])
        >>> unique_predictions(logits)
        tensor(1.5000)
    """
    _check(logits)
    ordered = logits.argmax(-1).sort(0).values
    changes = (ordered[1:] != ordered[:-1]).sum(0)
    return 1 + changes.to(_dtype(logits)).mean()


def _pairwise_disagreement(predicted: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.stack([_share(predicted != row, dtype) for row in predicted])


def _pairwise_kl(logits: Tensor) -> Tensor:
    total = logits.new_zeros(len(logits), len(logits), dtype=_dtype(logits))
    for part in _parts(logits):
        log_p = part.log_softmax(-1)
        rows = [(row.exp() * (row - log_p)).sum((1, 2)) for row in log_p]
        total += torch.stack(rows)
    # Rounding can leave a divergence of nearly equal members just below zero.
    return total.clamp(min=0) / logits.shape[1]


def _mean_over_pairs(matrix: Tensor) -> Tensor:
    """Mean off the diagonal, which holds zeros."""
    return matrix.sum() / (len(matrix) * (len(matrix) - 1))


def _spread(values: Tensor) -> Tensor:
    """Unbiased variance over members, summed over classes; zero for one member."""
    # From the first member on, equal members give exactly zero, which the rounded mean
    # of equal numbers does not.
    offset = values - values[0]
    square = (offset - offset.mean(0)).square_()
    return square.sum((0, 2)) / max(1, len(values) - 1)


def _over_error(numerator: Tensor, error: Tensor, name: str) -> Tensor:
    if error == 0:
        warnings.warn(f"{name} is NaN: no member makes an error", stacklevel=3)
        return torch.full_like(error, torch.nan)
    return numerator / error
