"""Proper scores of the ensemble's probabilities."""

from typing import NamedTuple, final, get_args

from torch import Tensor

from tepui.core.checks import one_of
from tepui.metrics.binning import _check_bins, _class_width_bins
from tepui.metrics.chunks import Rule, _Chunk, _wide
from tepui.metrics.streaming import LogitsStreaming, State, _count


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


@final
class NLL(LogitsStreaming[Tensor]):
    """Streaming :func:`nll`.

    Args:
        rule: How members are joined.
    """

    num_states = 2

    def __init__(self, rule: Rule = "probability") -> None:
        one_of("rule", rule, get_args(Rule))
        super().__init__()
        self.rule = rule

    def _statistics(self, chunk: _Chunk) -> State:
        return _count(chunk), -_wide(chunk.label_log_probs(self.rule)).sum()

    def _value(self, *state: Tensor) -> Tensor:
        samples, total = state
        return total / samples


@final
class Brier(LogitsStreaming[Tensor]):
    """Streaming :func:`brier`.

    Args:
        rule: How members are joined.
    """

    num_states = 2

    def __init__(self, rule: Rule = "probability") -> None:
        one_of("rule", rule, get_args(Rule))
        super().__init__()
        self.rule = rule

    def _statistics(self, chunk: _Chunk) -> State:
        return _count(chunk), _squared_error(chunk, self.rule)

    def _value(self, *state: Tensor) -> Tensor:
        samples, total = state
        return total / samples


@final
class BrierDecomposition(LogitsStreaming[BrierParts]):
    """Streaming :func:`brier_decomposition`.

    Args:
        bins: Number of bins of equal width.
        rule: How members are joined.
    """

    num_states = 5

    def __init__(self, *, bins: int = 15, rule: Rule = "probability") -> None:
        one_of("rule", rule, get_args(Rule))
        _check_bins(bins)
        super().__init__()
        self.bins, self.rule = bins, rule

    def _statistics(self, chunk: _Chunk) -> State:
        probs = chunk.ensemble_probs(self.rule)
        binned = _class_width_bins(probs, chunk.labels, self.bins)
        return _count(chunk), _squared_error(chunk, self.rule), *binned

    def _value(self, *state: Tensor) -> BrierParts:
        samples, total, count, sums, hits = state
        filled = count.clamp(min=1)
        base = (_wide(hits).sum(-1) / samples).unsqueeze(-1)
        reliability = ((hits - sums).square() / filled).sum() / samples
        resolution = (count * (_wide(hits) / filled - base).square()).sum() / samples
        uncertainty = (base * (1 - base)).sum()
        within = total / samples - (reliability - resolution + uncertainty)
        return BrierParts(reliability, resolution, uncertainty, within)


def nll(logits: Tensor, labels: Tensor, rule: Rule = "probability") -> Tensor:
    """Negative log-likelihood of the ensemble, ``-(1/N) Σ_n log P(y_n | x_n)``.

    Lower is better; range [0, ∞]. Infinity occurs only for ``vote``: when a label
    received no vote at all, the ensemble called it impossible.

    Args:
        logits: Logits of shape ``(members, samples, classes)``.
        labels: Class indices of shape ``(samples,)``.
        rule: How members are joined.

    Returns:
        A scalar, in nats.

    Raises:
        ValueError: If logits or labels break their rules or the rule is unknown.

    Example:
        >>> import torch
        >>> logits = torch.tensor([[[0.0, 0.0]], [[0.0, 0.0]]])
        >>> nll(logits, torch.tensor([1]))
        tensor(0.6931)
        >>> nll(logits, torch.tensor([1]), "vote")
        tensor(inf)
    """
    return NLL(rule)._of(logits, labels)


def brier(logits: Tensor, labels: Tensor, rule: Rule = "probability") -> Tensor:
    """Brier score over all classes, ``(1/N) Σ_n Σ_c (P_c(x_n) - 1[y_n = c])²``.

    Lower is better; range [0, 2]. For two classes this is twice the score that looks at
    one class only.

    Args:
        logits: Logits of shape ``(members, samples, classes)``.
        labels: Class indices of shape ``(samples,)``.
        rule: How members are joined.

    Returns:
        A scalar.

    Raises:
        ValueError: If logits or labels break their rules or the rule is unknown.

    Example:
        >>> import torch
        >>> brier(torch.tensor([[[0.0, 0.0]]]), torch.tensor([1]))
        tensor(0.5000)
    """
    return Brier(rule)._of(logits, labels)


def brier_decomposition(
    logits: Tensor, labels: Tensor, *, bins: int = 15, rule: Rule = "probability"
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
        bins: Number of bins of equal width on [0, 1].
        rule: How members are joined.

    Returns:
        The four parts.

    Raises:
        ValueError: If logits or labels break their rules, the rule is unknown or
            ``bins`` is not positive.

    Example:
        >>> import torch
        >>> logits = torch.tensor([[[0.0, 0.0], [0.0, 0.0]]])
        >>> parts = brier_decomposition(logits, torch.tensor([0, 1]))
        >>> parts.reliability, parts.uncertainty
        (tensor(0.), tensor(0.5000))
    """
    return BrierDecomposition(bins=bins, rule=rule)._of(logits, labels)


def _squared_error(chunk: _Chunk, rule: Rule) -> Tensor:
    probs, index = chunk.ensemble_probs(rule), chunk.labels.unsqueeze(1)
    residual = probs.scatter(1, index, probs.gather(1, index) - 1)
    return _wide(residual.square_().sum(-1)).sum()
