"""Proper scores of the ensemble's probabilities."""

from typing import NamedTuple, final

from torch import Tensor

from tepui.metrics.calibration import check_bins, class_width_bins
from tepui.metrics.chunks import Chunk, Rule, wide
from tepui.metrics.streaming import LogitsStreaming, SampleMean, State, WithRule


class BrierParts(NamedTuple):
    """What a Brier score is made of.

    The score is ``reliability - resolution + uncertainty + within``.

    Attributes:
        reliability: How far the probabilities of a bin lie from what happens there;
            lower is better.
        resolution: How far what happens in a bin lies from what happens on the whole;
            higher is better.
        uncertainty: How uncertain the labels are; no model changes it.
        within: What differences between the probabilities of one bin add; zero where
            they are equal.
    """

    reliability: Tensor
    resolution: Tensor
    uncertainty: Tensor
    within: Tensor


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


def brier_decomposition(
    logits: Tensor, labels: Tensor, *, num_bins: int = 15, rule: Rule = "probability"
) -> BrierParts:
    """Murphy's decomposition of the Brier score, summed over classes.

    With ``n_cb`` samples whose probability of class ``c`` lies in bin ``b``, their mean
    probability ``p_cb`` and the share ``y_cb`` of them that have the label ``c``::

        reliability = (1/N) Σ_cb n_cb (p_cb - y_cb)²
        resolution  = (1/N) Σ_cb n_cb (y_cb - y_c)²
        uncertainty = Σ_c y_c (1 - y_c)

    :func:`brier` is ``reliability - resolution + uncertainty + within``, where the last
    part, of either sign, comes from unequal probabilities in one bin (Stephenson et al.
    2008, "Two extra components in the Brier score decomposition").

    Args:
        logits: Logits of shape ``(members, samples, classes)``.
        labels: Class indices of shape ``(samples,)``.
        num_bins: Number of bins of equal width on [0, 1].
        rule: How members are combined.

    Returns:
        The four parts.

    Example:
        >>> import torch
        >>> logits = torch.tensor([[[0.0, 0.0], [0.0, 0.0]]])
        >>> parts = brier_decomposition(logits, torch.tensor([0, 1]))
        >>> parts.reliability, parts.uncertainty
        (tensor(0.), tensor(0.5000))
    """
    return BrierDecomposition(num_bins=num_bins, rule=rule).once(logits, labels)


@final
class BrierDecomposition(WithRule, LogitsStreaming[BrierParts]):
    """Streaming :func:`brier_decomposition`.

    Args:
        num_bins: Number of bins of equal width on [0, 1].
        rule: How members are combined.
    """

    num_states = 5

    def __init__(self, *, num_bins: int = 15, rule: Rule = "probability") -> None:
        check_bins(num_bins)
        super().__init__(rule=rule)
        self.num_bins = num_bins

    def statistics(self, chunk: Chunk) -> State:
        """Return number of samples, squared error, and the bins of every class."""
        total = wide(_squared_errors(chunk, self.rule)).sum()
        probs = chunk.ensemble_probs(self.rule)
        bins = class_width_bins(probs, chunk.labels, self.num_bins)
        return chunk.num_samples, total, *bins

    def value(self, *state: Tensor) -> BrierParts:
        """Return the parts of the mean squared error."""
        num_samples, total, count, sums, hits = state
        filled = count.clamp(min=1)
        base = (wide(hits).sum(-1) / num_samples).unsqueeze(-1)
        reliability = ((hits - sums).square() / filled).sum() / num_samples
        gap = wide(hits) / filled - base
        resolution = (count * gap.square()).sum() / num_samples
        uncertainty = (base * (1 - base)).sum()
        within = total / num_samples - (reliability - resolution + uncertainty)
        return BrierParts(reliability, resolution, uncertainty, within)


def _squared_errors(chunk: Chunk, rule: Rule) -> Tensor:
    probs, index = chunk.ensemble_probs(rule), chunk.labels.unsqueeze(1)
    residual = probs.scatter(1, index, probs.gather(1, index) - 1)
    return residual.square_().sum(-1)
