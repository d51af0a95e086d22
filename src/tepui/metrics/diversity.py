"""How much the members differ, and how a metric changes with their number."""

from typing import final

import torch
from torch import Tensor

from tepui.metrics.chunks import Chunk, Rule, spread, wide
from tepui.metrics.streaming import LogitsStreaming, SampleMean, State, WithRule


class _OfPairs(LogitsStreaming[Tensor]):
    num_states = 2
    labeled = False
    min_members = 2


class _PairDifferences(_OfPairs):
    def statistics(self, chunk: Chunk) -> State:
        """Return number of samples, and of differences between two members."""
        return chunk.num_samples, chunk.pair_differences


class _PairDivergences(_OfPairs):
    def statistics(self, chunk: Chunk) -> State:
        """Return number of samples and summed divergences between two members."""
        return chunk.num_samples, chunk.pair_kl


def pairwise_disagreement(logits: Tensor) -> Tensor:
    """Share of samples on which two members predict different classes.

    ``D_ij = (1/N) Σ_n 1[argmax f_i(x_n) ≠ argmax f_j(x_n)]``. Higher is more diverse;
    range [0, 1].

    Args:
        logits: Logits of shape ``(members, samples, classes)``, two members or more.

    Returns:
        A symmetric matrix of shape ``(members, members)`` with a diagonal of zeros.

    Example:
        >>> logits = torch.tensor([[[2.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 3.0]]])
        >>> pairwise_disagreement(logits)
        tensor([[0.0000, 0.5000],
                [0.5000, 0.0000]])
    """
    return PairwiseDisagreement().once(logits)


@final
class PairwiseDisagreement(_PairDifferences):
    """Streaming :func:`pairwise_disagreement`."""

    def value(self, *state: Tensor) -> Tensor:
        """Return the share of samples on which two members differ."""
        num_samples, differences = state
        return wide(differences) / num_samples


def disagreement(logits: Tensor) -> Tensor:
    """Mean of :func:`pairwise_disagreement` over pairs of different members.

    ``2/(M(M-1)) Σ_{i<j} D_ij``. Higher is more diverse; range [0, 1].

    Args:
        logits: Logits of shape ``(members, samples, classes)``, two members or more.

    Returns:
        A scalar.

    Example:
        >>> logits = torch.tensor([[[2.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 3.0]]])
        >>> disagreement(logits)
        tensor(0.5000)
    """
    return Disagreement().once(logits)


@final
class Disagreement(_PairDifferences):
    """Streaming :func:`disagreement`."""

    def value(self, *state: Tensor) -> Tensor:
        """Return the mean over pairs of members."""
        num_samples, differences = state
        return _mean_over_pairs(wide(differences)) / num_samples


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

    Example:
        >>> logits = torch.tensor([[[2.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 3.0]]])
        >>> der(logits, torch.tensor([0, 1]))
        tensor(2.)
    """
    return DER().once(logits, labels)


@final
class DER(LogitsStreaming[Tensor]):
    """Streaming :func:`der`, pooled over all samples seen."""

    num_states = 2
    min_members = 2
    undefined = "der is NaN: no member makes an error"

    def statistics(self, chunk: Chunk) -> State:
        """Return how often two members differ, and how often each errs."""
        return chunk.pair_differences, chunk.member_errors

    def value(self, *state: Tensor) -> Tensor:
        """Return disagreement over error."""
        differences, errors = state
        return _mean_over_pairs(wide(differences)) / wide(errors).mean()


def eir(logits: Tensor, labels: Tensor, *, rule: Rule = "probability") -> Tensor:
    """Ensemble improvement rate, ``(mean_i err_i - err_ensemble) / mean_i err_i``.

    Higher is better; at most 1 (the ensemble never errs), 0 when it errs as often as
    its members do, negative when more often. NaN, with a warning, when no member errs.

    Args:
        logits: Logits of shape ``(members, samples, classes)``.
        labels: Class indices of shape ``(samples,)``.
        rule: How members are combined.

    Returns:
        A scalar.

    Example:
        >>> logits = torch.tensor([[[2.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 3.0]]])
        >>> eir(logits, torch.tensor([0, 1]))
        tensor(1.)
    """
    return EIR(rule=rule).once(logits, labels)


@final
class EIR(WithRule, LogitsStreaming[Tensor]):
    """Streaming :func:`eir`, with its ``rule``, pooled over all samples seen."""

    num_states = 2
    undefined = "eir is NaN: no member makes an error"

    def statistics(self, chunk: Chunk) -> State:
        """Return how often each member errs, and how often the ensemble does."""
        return chunk.member_errors, (~chunk.correct(self.rule)).sum()

    def value(self, *state: Tensor) -> Tensor:
        """Return the share of the members' errors that the ensemble removes."""
        members, ensemble = state
        # In whole numbers: equal members improve by exactly nothing.
        gained = members.sum() - len(members) * ensemble
        errors = wide(members.sum())
        return torch.where(errors > 0, gained / errors, torch.nan)


def logit_variance(logits: Tensor) -> Tensor:
    """Variance of the logits over members: sum over classes, mean over samples.

    ``(1/N) Σ_n 1/(M-1) Σ_m ||f_m(x_n) - f̄(x_n)||²`` with ``f̄`` the mean over members.
    Higher is more diverse; range [0, ∞). A constant added to all logits of one member
    changes it, but nothing that the member predicts; :func:`probability_variance` is
    blind to that.

    Args:
        logits: Logits of shape ``(members, samples, classes)``, two members or more.

    Returns:
        A scalar.

    Example:
        >>> logit_variance(torch.tensor([[[2.0, 0.0]], [[0.0, 0.0]]]))
        tensor(2.)
    """
    return LogitVariance().once(logits)


@final
class LogitVariance(SampleMean):
    """Streaming :func:`logit_variance`."""

    labeled = False
    min_members = 2

    def per_sample(self, chunk: Chunk) -> Tensor:
        """Return the variance of each sample's logits."""
        return spread(chunk.logits)


def probability_variance(logits: Tensor) -> Tensor:
    """Variance of the probabilities over members: sum over classes, mean over samples.

    ``(1/N) Σ_n 1/(M-1) Σ_m ||P_m(x_n) - P̄(x_n)||²`` with ``P = softmax(f)`` and ``P̄``
    the mean over members: the mean of :func:`predictive_variance`. Higher is more
    diverse; range [0, 1].

    Args:
        logits: Logits of shape ``(members, samples, classes)``, two members or more.

    Returns:
        A scalar.

    Example:
        >>> probability_variance(torch.tensor([[[99.0, 0.0]], [[0.0, 99.0]]]))
        tensor(1.)
    """
    return ProbabilityVariance().once(logits)


@final
class ProbabilityVariance(SampleMean):
    """Streaming :func:`probability_variance`."""

    labeled = False
    min_members = 2

    def per_sample(self, chunk: Chunk) -> Tensor:
        """Return the variance of each sample's probabilities."""
        return spread(chunk.probs)


def pairwise_kl(logits: Tensor) -> Tensor:
    """Kullback-Leibler divergence between every two members, mean over samples.

    ``K_ij = (1/N) Σ_n Σ_c P_i (log P_i - log P_j)``, with ``P = softmax(f)``. Higher is
    more diverse; range [0, ∞).

    Args:
        logits: Logits of shape ``(members, samples, classes)``, two members or more.

    Returns:
        A matrix of shape ``(members, members)``, not symmetric, with a diagonal of
        zeros; rows are ``i``.

    Example:
        >>> pairwise_kl(torch.tensor([[[0.0, 0.0]], [[0.0, 2.0]]]))
        tensor([[0.0000, 0.4338],
                [0.3278, 0.0000]])
    """
    return PairwiseKL().once(logits)


@final
class PairwiseKL(_PairDivergences):
    """Streaming :func:`pairwise_kl`."""

    def value(self, *state: Tensor) -> Tensor:
        """Return the mean divergence of two members."""
        num_samples, total = state
        # Rounding can leave a divergence of nearly equal members just below zero.
        return total.clamp(min=0) / num_samples


def mean_kl(logits: Tensor, *, symmetric: bool = False) -> Tensor:
    """Mean of :func:`pairwise_kl` over ordered pairs of different members.

    ``1/(M(M-1)) Σ_{i≠j} K_ij``, or the mean of ``K_ij + K_ji`` over ``i < j`` if
    symmetric, which is twice as much. Higher is more diverse; range [0, ∞).

    Args:
        logits: Logits of shape ``(members, samples, classes)``, two members or more.
        symmetric: Take the divergence of a pair to be the sum of both directions.

    Returns:
        A scalar, in nats.

    Example:
        >>> mean_kl(torch.tensor([[[0.0, 0.0]], [[0.0, 2.0]]]))
        tensor(0.3808)
    """
    return MeanKL(symmetric=symmetric).once(logits)


@final
class MeanKL(_PairDivergences):
    """Streaming :func:`mean_kl`, with its option ``symmetric``."""

    def __init__(self, *, symmetric: bool = False) -> None:
        super().__init__()
        self.symmetric = symmetric

    def value(self, *state: Tensor) -> Tensor:
        """Return the mean over pairs of members."""
        num_samples, total = state
        ordered = _mean_over_pairs(total.clamp(min=0)) / num_samples
        return 2 * ordered if self.symmetric else ordered


def unique_predictions(logits: Tensor) -> Tensor:
    """Mean number of different classes that the members predict for a sample.

    ``(1/N) Σ_n |{argmax f_m(x_n) : m}|``. Higher is more diverse; range
    [1, min(members, classes)].

    Args:
        logits: Logits of shape ``(members, samples, classes)``.

    Returns:
        A scalar.

    Example:
        >>> logits = torch.tensor([[[2.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 3.0]]])
        >>> unique_predictions(logits)
        tensor(1.5000)
    """
    return UniquePredictions().once(logits)


@final
class UniquePredictions(SampleMean):
    """Streaming :func:`unique_predictions`."""

    labeled = False

    def per_sample(self, chunk: Chunk) -> Tensor:
        """Return how many classes are predicted of a sample beyond the first."""
        ordered = chunk.top[1].sort(0).values
        return (ordered[1:] != ordered[:-1]).sum(0)

    def value(self, *state: Tensor) -> Tensor:
        """Return the mean number of different predictions."""
        return 1 + super().value(*state)


def _mean_over_pairs(matrix: Tensor) -> Tensor:
    """Mean off the diagonal, which holds zeros."""
    return matrix.sum() / (len(matrix) * (len(matrix) - 1))
