"""How well the ensemble's probabilities match what happens."""

from typing import NamedTuple

import torch
from torch import Tensor

from tepui.checks import require
from tepui.metrics.aggregate import (
    Rule,
    _check,
    _log_probs,
    _map_samples,
    _parts,
    _probs,
    _top,
)


class Reliability(NamedTuple):
    """What a reliability diagram shows, one entry per confidence bin.

    Attributes:
        count: Whole number of samples in the bin.
        confidence: Their mean confidence; NaN for an empty bin.
        accuracy: The share of them that is right; NaN for an empty bin.
    """

    count: Tensor  # type: ignore[assignment]  # hides tuple.count
    confidence: Tensor
    accuracy: Tensor


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
        >>> logits = torch.tensor([[[0.0, 0.0]], [[0.0, 0.0]]])
        >>> nll(logits, torch.tensor([1]))
        tensor(0.6931)
        >>> nll(logits, torch.tensor([1]), "vote")
        tensor(inf)
    """
    _check(logits, labels, rule=rule)
    log_probs = _map_samples(lambda part: _log_probs(part, rule), logits)
    return -log_probs.gather(1, labels.long().unsqueeze(1)).mean()


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
        >>> brier(torch.tensor([[[0.0, 0.0]]]), torch.tensor([1]))
        tensor(0.5000)
    """
    _check(logits, labels, rule=rule)
    index = labels.long().unsqueeze(1)
    probs = _map_samples(lambda part: _probs(part, rule), logits)
    residual = probs.scatter(1, index, probs.gather(1, index) - 1)
    return residual.square().sum(-1).mean()


def ece(
    logits: Tensor,
    labels: Tensor,
    *,
    bins: int = 15,
    rule: Rule = "probability",
    torchmetrics_bins: bool = False,
) -> Tensor:
    """Expected calibration error, ``Σ_b (n_b/N) |accuracy_b - confidence_b|``.

    Lower is better; range [0, 1]. The bins ``b`` are those of :func:`reliability`.

    Args:
        logits: Logits of shape ``(members, samples, classes)``.
        labels: Class indices of shape ``(samples,)``.
        bins: Number of bins of equal width.
        rule: How members are joined.
        torchmetrics_bins: Bin as torchmetrics does: confidences that are one in float32
            get a bin of their own instead of counting in the last one.

    Returns:
        A scalar.

    Raises:
        ValueError: If logits or labels break their rules, the rule is unknown or
            ``bins`` is not positive.

    Example:
        >>> ece(torch.tensor([[[0.0, 0.0]]]), torch.tensor([0]))  # 50 % sure and right
        tensor(0.5000)
    """
    _check(logits, labels, rule=rule)
    each = _reliability(logits, labels, bins, rule, closed=not torchmetrics_bins)
    gap = (each.accuracy - each.confidence).abs()
    return (gap * each.count / len(labels)).nansum()


def reliability(
    logits: Tensor, labels: Tensor, *, bins: int = 15, rule: Rule = "probability"
) -> Reliability:
    """Confidence and accuracy in bins of equal width on [0, 1].

    The confidence is the largest probability of a sample. Bins are closed on the left
    and open on the right, except the last, which also holds a confidence of one.
    Neither end is better: a calibrated ensemble has equal confidence and accuracy.

    Args:
        logits: Logits of shape ``(members, samples, classes)``.
        labels: Class indices of shape ``(samples,)``.
        bins: Number of bins.
        rule: How members are joined.

    Returns:
        Counts, mean confidences and accuracies, each of shape ``(bins,)``; the latter
        two in [0, 1].

    Raises:
        ValueError: If logits or labels break their rules, the rule is unknown or
            ``bins`` is not positive.

    Example:
        >>> logits = torch.tensor([[[0.0, 0.0], [0.0, 99.0]]])
        >>> reliability(logits, torch.tensor([1, 1]), bins=3).accuracy
        tensor([nan, 0., 1.])
    """
    _check(logits, labels, rule=rule)
    return _reliability(logits, labels, bins, rule, closed=True)


def _reliability(
    logits: Tensor, labels: Tensor, bins: int, rule: Rule, *, closed: bool
) -> Reliability:
    require(bins >= 1, "bins", "be at least 1", bins)
    tops = [_top(part, rule) for part in _parts(logits)]
    confidence, predicted = (torch.cat(each) for each in zip(*tops, strict=True))
    binned, last = (confidence, bins - 1) if closed else (confidence.float(), bins)
    edges = torch.linspace(0, 1, bins + 1, dtype=binned.dtype, device=binned.device)
    index = (torch.bucketize(binned, edges, right=True) - 1).clamp(max=last)
    # Sums over a mask and not scatter_add, whose order of addition varies on a GPU.
    inside = index == torch.arange(last + 1, device=index.device).unsqueeze(1)
    count = inside.sum(1)
    return Reliability(
        count,
        torch.where(inside, confidence, 0).sum(1) / count,
        (inside & (predicted == labels)).sum(1).to(confidence.dtype) / count,
    )
