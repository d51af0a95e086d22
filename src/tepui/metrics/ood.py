"""How well a score tells unfamiliar samples from familiar ones.

Scores are high where a sample is unfamiliar. Everything rests on their order alone,
counted in whole numbers: equal scores count half in :func:`auroc` and pass a threshold
together in :func:`aupr` and :func:`fpr95`, so that the order of the samples does not
matter.

``positive`` names the class that is to be detected. ``"ood"``, the default, asks how
well unfamiliar samples are found; ``"in"`` asks how well familiar ones are recognized,
by low scores. Literature reports both, as AUPR-Out and AUPR-In, and FPR95 mostly for
``"in"``. AUROC is the same for both.

Ranks say whether two scores put samples in the same order, and a risk-coverage curve
what an ensemble gains by not answering where it is unsure.
"""

from typing import Literal, NamedTuple, final, get_args

import torch
from torch import Tensor

from tepui.core.checks import one_of, require
from tepui.core.warning import warn
from tepui.metrics.chunks import Chunk, Rule, dtype_of, wide
from tepui.metrics.streaming import (
    LogitsStreaming,
    State,
    Value,
    WithRule,
    in_one_type,
)

Positive = Literal["ood", "in"]
"""The class to be detected: unfamiliar samples by high, familiar by low scores."""


def auroc(in_scores: Tensor, ood_scores: Tensor) -> Tensor:
    """Area under the ROC curve: how often an unfamiliar sample has the higher score.

    ``P(s_ood > s_in) + P(s_ood = s_in) / 2`` over all pairs. Higher is better; range
    [0, 1], 0.5 for a score that tells nothing.

    Args:
        in_scores: Scores of familiar samples, of shape ``(samples,)``.
        ood_scores: Scores of unfamiliar samples, of any length.

    Returns:
        A scalar.

    Example:
        >>> auroc(torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0.2, 0.9]))
        tensor(0.7500)
    """
    unfamiliar, familiar = _ordered(in_scores, ood_scores)
    below = halves_below(familiar, unfamiliar).sum()
    area = wide(below) / (2 * len(familiar) * len(unfamiliar))
    return area.to(familiar.dtype)


def aupr(
    in_scores: Tensor, ood_scores: Tensor, *, positive: Positive = "ood"
) -> Tensor:
    """Area under the precision-recall curve, as average precision.

    The mean, over positive samples, of the precision at the threshold that just admits
    the sample. Higher is better; range (0, 1]. A score that tells nothing gets the
    share of positive samples, so values compare only where that share is equal. Steps
    are not joined by straight lines, which would flatter.

    Args:
        in_scores: Scores of familiar samples, of shape ``(samples,)``.
        ood_scores: Scores of unfamiliar samples, of any length.
        positive: The class to be detected: ``"ood"`` (AUPR-Out) or ``"in"`` (AUPR-In).

    Returns:
        A scalar.

    Example:
        >>> aupr(torch.tensor([0.1, 0.3]), torch.tensor([0.2, 0.9]))
        tensor(0.8333)
    """
    positives, negatives = _ordered(in_scores, ood_scores, positive)
    return average_precision(positives, negatives).to(positives.dtype)


def fpr95(
    in_scores: Tensor, ood_scores: Tensor, *, positive: Positive = "ood"
) -> Tensor:
    """Share of negative samples that pass where 95 % of the positive ones do.

    The threshold is the strictest at which at least 95 % pass. Lower is better; range
    [0, 1], about 0.95 for a score that tells nothing.

    Args:
        in_scores: Scores of familiar samples, of shape ``(samples,)``.
        ood_scores: Scores of unfamiliar samples, of any length.
        positive: The class to be detected: ``"ood"`` gives the false alarms where 95 %
            of unfamiliar samples are found, ``"in"`` the unfamiliar samples missed
            where 95 % of familiar ones are accepted.

    Returns:
        A scalar.

    Example:
        >>> fpr95(torch.tensor([0.1, 0.3]), torch.tensor([0.2, 0.9]))
        tensor(0.5000)
    """
    positives, negatives = _ordered(in_scores, ood_scores, positive)
    needed = -(-19 * len(positives) // 20)
    passing = (negatives >= positives[len(positives) - needed]).sum()
    return (wide(passing) / len(negatives)).to(positives.dtype)


def halves_below(ordered: Tensor, values: Tensor) -> Tensor:
    """Return twice how many of ordered values lie below each, equal ones by halves."""
    below = torch.searchsorted(ordered, values)
    return below + torch.searchsorted(ordered, values, right=True)


def average_precision(positives: Tensor, negatives: Tensor) -> Tensor:
    """Return the mean precision at the threshold of each positive, both ordered."""
    true = len(positives) - torch.searchsorted(positives, positives)
    false = len(negatives) - torch.searchsorted(negatives, positives)
    return (wide(true) / (true + false)).mean()


def check_scores(name: str, scores: Tensor, least: int = 1) -> None:
    """Check that scores are ``(samples,)``, floating, not NaN, and not too few."""
    require(scores.ndim == 1, name, "have shape (samples,)", tuple(scores.shape))
    require(scores.is_floating_point(), name, "be floating point", scores.dtype)
    require(len(scores) >= least, name, f"hold at least {least} sample(s)", len(scores))
    missing = int(scores.isnan().sum())
    require(missing == 0, name, "not be NaN", f"{missing} NaN value(s)")


def _ordered(
    in_scores: Tensor, ood_scores: Tensor, positive: Positive = "ood"
) -> tuple[Tensor, Tensor]:
    """Return the scores of positive and negative samples, high for positive, sorted."""
    one_of("positive", positive, get_args(Positive))
    check_scores("in_scores", in_scores)
    check_scores("ood_scores", ood_scores)
    # searchsorted and sort take no 16-bit numbers everywhere; widening keeps the order.
    familiar, unfamiliar = in_one_type(in_scores, ood_scores)
    if positive == "in":
        familiar, unfamiliar = -unfamiliar, -familiar
    return unfamiliar.sort().values, familiar.sort().values


def ranks(scores: Tensor) -> Tensor:
    """Place of each score in increasing order, from 1; equal scores share their mean.

    Args:
        scores: Shape ``(samples,)``.

    Returns:
        Ranks of shape ``(samples,)``; whole numbers and halves, exact in float64.

    Example:
        >>> ranks(torch.tensor([0.5, 0.1, 0.5]))
        tensor([2.5000, 1.0000, 2.5000], dtype=torch.float64)
    """
    check_scores("scores", scores)
    values = scores.detach().to(dtype_of(scores)).contiguous()
    return (halves_below(values.sort().values, values) + 1).double() / 2


def rank_correlation(first: Tensor, second: Tensor) -> Tensor:
    """Spearman's rank correlation of two scores of the same samples.

    The linear correlation of their :func:`ranks`. Range [-1, 1]: 1 for the same order,
    0 for orders that have nothing to do with each other, -1 for opposite ones. NaN,
    with a warning, where all values of a score are equal.

    Args:
        first: One score, of shape ``(samples,)``.
        second: Another score of the same samples.

    Returns:
        A scalar.

    Example:
        >>> first = torch.tensor([1.0, 2.0, 3.0])
        >>> rank_correlation(first, torch.tensor([0.1, 0.7, 0.2]))
        tensor(0.5000)
    """
    check_scores("first", first, least=2)
    check_scores("second", second, least=2)
    rule = f"hold {len(first)} samples"
    require(len(first) == len(second), "second", rule, len(second))
    dtype = torch.promote_types(dtype_of(first), dtype_of(second))
    middle = (len(first) + 1) / 2
    offset, other = ranks(first) - middle, ranks(second) - middle
    scale = (offset.square().sum() * other.square().sum()).sqrt()
    if scale == 0:
        warn("rank_correlation is NaN: all values of a score are equal")
    return ((offset * other).sum() / scale).clamp(-1, 1).to(dtype)


class RiskCoverage(NamedTuple):
    """Error among the samples answered, one entry per number of samples answered.

    Attributes:
        coverage: Share of samples answered, ``1/N, 2/N, …, 1``.
        risk: Share of errors among them.
    """

    coverage: Tensor
    risk: Tensor


class _Selective(WithRule, LogitsStreaming[Value]):
    num_states = 2
    joined = True

    def statistics(self, chunk: Chunk) -> State:
        """Return how sure the ensemble is, and whether it is right."""
        # In the order of the confidences, and of those that are rounded to one too.
        return -chunk.log_doubt(self.rule), chunk.correct(self.rule)


def selective_curve(
    logits: Tensor, labels: Tensor, *, rule: Rule = "probability"
) -> RiskCoverage:
    """Error among the most confident samples, for every number of them.

    ``risk_k`` is the share of errors among the ``k`` samples whose confidence, the
    largest probability of the ensemble, is highest. Lower is better; range [0, 1].
    Confidences are compared by what they lack of one, whose logarithm tells apart those
    that float32 rounds to one. Samples of equal confidence enter in random order, of
    which this is the mean.

    Args:
        logits: Logits of shape ``(members, samples, classes)``.
        labels: Class indices of shape ``(samples,)``.
        rule: How members are combined.

    Returns:
        Coverages and risks, each of shape ``(samples,)``; the last risk is the error.

    Example:
        >>> logits = torch.tensor([[[0.0, 9.0], [0.0, 1.0]]])
        >>> selective_curve(logits, torch.tensor([1, 0])).risk
        tensor([0.0000, 0.5000])
    """
    return SelectiveCurve(rule=rule).once(logits, labels)


@final
class SelectiveCurve(_Selective[RiskCoverage]):
    """Streaming :func:`selective_curve`, with its ``rule``; keeps every sample."""

    def value(self, *state: Tensor) -> RiskCoverage:
        """Return the curve."""
        return _risk_coverage(*state)


def aurc(logits: Tensor, labels: Tensor, *, rule: Rule = "probability") -> Tensor:
    """Area under the risk-coverage curve, the mean risk of :func:`selective_curve`.

    Lower is better; range [0, 1]. It falls with the error and with the share of errors
    that have low confidence.

    Args:
        logits: Logits of shape ``(members, samples, classes)``.
        labels: Class indices of shape ``(samples,)``.
        rule: How members are combined.

    Returns:
        A scalar.

    Example:
        >>> logits = torch.tensor([[[0.0, 9.0], [0.0, 1.0]]])
        >>> aurc(logits, torch.tensor([1, 0]))
        tensor(0.2500)
    """
    return AURC(rule=rule).once(logits, labels)


@final
class AURC(_Selective[Tensor]):
    """Streaming :func:`aurc`, with its ``rule``; keeps two numbers per sample."""

    def value(self, *state: Tensor) -> Tensor:
        """Return the mean risk."""
        return _risk_coverage(*state).risk.mean()


def _risk_coverage(confidence: Tensor, correct: Tensor) -> RiskCoverage:
    ordered, order = confidence.sort(descending=True)
    _, group, size = torch.unique_consecutive(
        ordered, return_inverse=True, return_counts=True
    )
    wrong = (~correct[order]).long()
    errors = torch.zeros_like(size).index_add_(0, group, wrong)
    answered = torch.arange(1, len(wrong) + 1, device=wrong.device)
    inside = answered - (size.cumsum(0) - size)[group]
    # Each of equal confidences is wrong with the probability that one of them is.
    share = wide(errors) / size
    expected = (errors.cumsum(0) - errors)[group] + inside * share[group]
    return RiskCoverage(wide(answered) / len(wrong), expected / answered)
