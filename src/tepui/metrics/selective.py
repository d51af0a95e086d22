"""What an ensemble gains by not answering where it is unsure."""

from typing import NamedTuple, final

import torch
from torch import Tensor

from tepui.metrics.chunks import Chunk, Rule, wide
from tepui.metrics.ood import halves_below
from tepui.metrics.streaming import LogitsStreaming, State, Value, WithRule


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


def augrc(logits: Tensor, labels: Tensor, *, rule: Rule = "probability") -> Tensor:
    """Area under the generalized risk-coverage curve.

    The mean, over coverages, of the share of all samples that are answered and wrong:
    the risk of a silent failure. With ``n`` samples, ``w`` of them wrong, it is
    ``(pairs in which a mistake is more confident than a right answer + w²/2) / n²``,
    equal confidences counting half. Lower is better; range [0, 1/2]. Unlike
    :func:`aurc` it does not give most of its weight to the few most confident samples
    (Traub et al. 2024, "Overcoming common flaws in the evaluation of selective
    classification systems").

    Args:
        logits: Logits of shape ``(members, samples, classes)``.
        labels: Class indices of shape ``(samples,)``.
        rule: How members are combined.

    Returns:
        A scalar.

    Example:
        >>> logits = torch.tensor([[[0.0, 9.0], [0.0, 1.0]]])
        >>> augrc(logits, torch.tensor([1, 0]))
        tensor(0.1250)
    """
    return AUGRC(rule=rule).once(logits, labels)


@final
class AUGRC(_Selective[Tensor]):
    """Streaming :func:`augrc`, with its ``rule``; keeps two numbers per sample."""

    def value(self, *state: Tensor) -> Tensor:
        """Return the mean share of samples that are answered and wrong."""
        confidence, correct = state
        wrong = confidence[~correct]
        below = halves_below(confidence[correct].sort().values, wrong)
        halves = wide(below.sum()) + len(wrong) ** 2
        return halves / 2 / len(correct) ** 2


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
