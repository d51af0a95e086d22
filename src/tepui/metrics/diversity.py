"""How much the members differ."""

import warnings
from typing import Literal, final, get_args

import torch
from torch import Tensor

from tepui.core.checks import one_of
from tepui.metrics.chunks import Rule, _Chunk, _spread, _wide
from tepui.metrics.streaming import LogitsStreaming, State, _count

Output = Literal["logits", "probs"]
"""What varies over members: their logits, or the softmax of these."""


@final
class PairwiseDisagreement(LogitsStreaming[Tensor]):
    """Streaming :func:`pairwise_disagreement`."""

    num_states = 2
    labeled = False
    min_members = 2

    def _statistics(self, chunk: _Chunk) -> State:
        return _count(chunk), chunk.pair_differences

    def _value(self, *state: Tensor) -> Tensor:
        samples, differences = state
        return _wide(differences) / samples


@final
class Disagreement(LogitsStreaming[Tensor]):
    """Streaming :func:`disagreement`."""

    num_states = 2
    labeled = False
    min_members = 2

    def _statistics(self, chunk: _Chunk) -> State:
        return _count(chunk), chunk.pair_differences

    def _value(self, *state: Tensor) -> Tensor:
        samples, differences = state
        return _mean_over_pairs(_wide(differences)) / samples


@final
class DER(LogitsStreaming[Tensor]):
    """Streaming :func:`der`, pooled over all samples seen."""

    num_states = 2
    min_members = 2

    def _statistics(self, chunk: _Chunk) -> State:
        return chunk.pair_differences, chunk.member_errors

    def _value(self, *state: Tensor) -> Tensor:
        differences, errors = state
        return _mean_over_pairs(_wide(differences)) / _wide(errors).mean()

    def _warn(self, value: Tensor, stacklevel: int) -> None:
        _warn_without_errors("der", value, stacklevel + 1)


@final
class EIR(LogitsStreaming[Tensor]):
    """Streaming :func:`eir`, pooled over all samples seen.

    Args:
        rule: How members are joined.
    """

    num_states = 2

    def __init__(self, rule: Rule = "probability") -> None:
        one_of("rule", rule, get_args(Rule))
        super().__init__()
        self.rule = rule

    def _statistics(self, chunk: _Chunk) -> State:
        return chunk.member_errors, (~chunk.right(self.rule)).sum()

    def _value(self, *state: Tensor) -> Tensor:
        members, ensemble = state
        # In whole numbers: equal members improve by exactly nothing.
        gained = members.sum() - len(members) * ensemble
        errors = _wide(members.sum())
        return torch.where(errors > 0, gained / errors, torch.nan)

    def _warn(self, value: Tensor, stacklevel: int) -> None:
        _warn_without_errors("eir", value, stacklevel + 1)


@final
class Variance(LogitsStreaming[Tensor]):
    """Streaming :func:`variance`.

    Args:
        of: Whether logits or their softmax vary.
    """

    num_states = 2
    labeled = False
    min_members = 2

    def __init__(self, of: Output = "logits") -> None:
        one_of("of", of, get_args(Output))
        super().__init__()
        self.of = of

    def _statistics(self, chunk: _Chunk) -> State:
        values = chunk.logits if self.of == "logits" else chunk.probs
        return _count(chunk), _wide(_spread(values)).sum()

    def _value(self, *state: Tensor) -> Tensor:
        samples, total = state
        return total / samples


@final
class PairwiseKL(LogitsStreaming[Tensor]):
    """Streaming :func:`pairwise_kl`."""

    num_states = 2
    labeled = False
    min_members = 2

    def _statistics(self, chunk: _Chunk) -> State:
        return _count(chunk), chunk.pair_kl

    def _value(self, *state: Tensor) -> Tensor:
        samples, total = state
        # Rounding can leave a divergence of nearly equal members just below zero.
        return total.clamp(min=0) / samples


@final
class KL(LogitsStreaming[Tensor]):
    """Streaming :func:`kl`.

    Args:
        symmetric: Take the divergence of a pair to be the sum of both directions.
    """

    num_states = 2
    labeled = False
    min_members = 2

    def __init__(self, symmetric: bool = False) -> None:
        super().__init__()
        self.symmetric = symmetric

    def _statistics(self, chunk: _Chunk) -> State:
        return _count(chunk), chunk.pair_kl

    def _value(self, *state: Tensor) -> Tensor:
        samples, total = state
        ordered = _mean_over_pairs(total.clamp(min=0)) / samples
        return 2 * ordered if self.symmetric else ordered


@final
class UniquePredictions(LogitsStreaming[Tensor]):
    """Streaming :func:`unique_predictions`."""

    num_states = 2
    labeled = False

    def _statistics(self, chunk: _Chunk) -> State:
        ordered = chunk.top[1].sort(0).values
        return _count(chunk), (ordered[1:] != ordered[:-1]).sum()

    def _value(self, *state: Tensor) -> Tensor:
        samples, changes = state
        return 1 + _wide(changes) / samples


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
    return PairwiseDisagreement()._of(logits)


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
    return Disagreement()._of(logits)


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
    return DER()._of(logits, labels)


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
    return EIR(rule)._of(logits, labels)


def variance(logits: Tensor, of: Output = "logits") -> Tensor:
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
    return Variance(of)._of(logits)


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
    return PairwiseKL()._of(logits)


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
    return KL(symmetric)._of(logits)


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
    return UniquePredictions()._of(logits)


def _mean_over_pairs(matrix: Tensor) -> Tensor:
    """Mean off the diagonal, which holds zeros."""
    return matrix.sum() / (len(matrix) * (len(matrix) - 1))


def _warn_without_errors(name: str, value: Tensor, stacklevel: int) -> None:
    if torch.isnan(value):
        warnings.warn(f"{name} is NaN: no member makes an error", stacklevel=stacklevel)
