"""How well the ensemble's confidence matches how often it is right."""

from typing import Literal, NamedTuple, final, get_args

import torch  # noqa: F401 - the examples use it
from torch import Tensor

from tepui.core.checks import one_of, require
from tepui.metrics.binning import (
    _Bins,
    _check_bins,
    _class_mass_bins,
    _class_width_bins,
    _mass_bins,
    _width_bins,
)
from tepui.metrics.chunks import Rule, _Chunk
from tepui.metrics.streaming import LogitsStreaming, State, _Value

Binning = Literal["equal-width", "equal-mass"]
"""Bins of equal width on [0, 1], or of equal numbers of samples."""

Calibrated = Literal["top-1", "classwise"]
"""The probability of the predicted class, or those of all classes."""


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


class _Binned(LogitsStreaming[_Value]):
    """Bins of confidences; equal mass keeps them all until the end."""

    def __init__(
        self,
        bins: int,
        rule: Rule,
        binning: Binning,
        of: Calibrated = "top-1",
        closed: bool = True,
    ) -> None:
        _check_bins(bins)
        one_of("rule", rule, get_args(Rule))
        one_of("binning", binning, get_args(Binning))
        one_of("of", of, get_args(Calibrated))
        super().__init__()
        self.bins, self.rule, self.binning, self.of = bins, rule, binning, of
        self._closed = closed
        self.joined = binning == "equal-mass"
        self.num_states = 2 if self.joined else 3

    def _statistics(self, chunk: _Chunk) -> State:
        if self.of == "classwise":
            probs, labels = chunk.ensemble_probs(self.rule), chunk.labels
            if self.joined:
                return probs, labels
            return _class_width_bins(probs, labels, self.bins)
        confidence, right = chunk.ensemble_top(self.rule)[0], chunk.right(self.rule)
        if self.joined:
            return confidence, right
        return _width_bins(confidence, right, self.bins, closed=self._closed)

    def _binned(self, state: State) -> _Bins:
        if self.joined:
            values, events = state
            by_mass = _class_mass_bins if self.of == "classwise" else _mass_bins
            return by_mass(values, events, self.bins)
        count, sums, hits = state
        return count, sums, hits


@final
class ReliabilityDiagram(_Binned[Reliability]):
    """Streaming :func:`reliability`; equal mass keeps two numbers per sample.

    Args:
        bins: Number of bins.
        rule: How members are joined.
        binning: Bins of equal width or of equal numbers of samples.
    """

    def __init__(
        self,
        *,
        bins: int = 15,
        rule: Rule = "probability",
        binning: Binning = "equal-width",
    ) -> None:
        super().__init__(bins, rule, binning)

    def _value(self, *state: Tensor) -> Reliability:
        count, sums, hits = self._binned(state)
        return Reliability(count, sums / count, hits.to(sums.dtype) / count)


@final
class ECE(_Binned[Tensor]):
    """Streaming :func:`ece`.

    Equal mass keeps two numbers per sample, with ``classwise`` all probabilities of the
    ensemble.

    Args:
        bins: Number of bins.
        rule: How members are joined.
        binning: Bins of equal width or of equal numbers of samples.
        of: The predicted class's probability or those of all classes.
        torchmetrics_bins: Give certainty a bin of its own.
    """

    def __init__(
        self,
        *,
        bins: int = 15,
        rule: Rule = "probability",
        binning: Binning = "equal-width",
        of: Calibrated = "top-1",
        torchmetrics_bins: bool = False,
    ) -> None:
        require(
            not torchmetrics_bins or (binning, of) == ("equal-width", "top-1"),
            "torchmetrics_bins",
            "go with binning='equal-width' and of='top-1'",
            (binning, of),
        )
        super().__init__(bins, rule, binning, of, closed=not torchmetrics_bins)

    def _value(self, *state: Tensor) -> Tensor:
        count, sums, hits = self._binned(state)
        return ((hits - sums).abs().sum(-1) / count.sum(-1)).mean()


@final
class MCE(_Binned[Tensor]):
    """Streaming :func:`mce`; equal mass keeps two numbers per sample.

    Args:
        bins: Number of bins.
        rule: How members are joined.
        binning: Bins of equal width or of equal numbers of samples.
    """

    def __init__(
        self,
        *,
        bins: int = 15,
        rule: Rule = "probability",
        binning: Binning = "equal-width",
    ) -> None:
        super().__init__(bins, rule, binning)

    def _value(self, *state: Tensor) -> Tensor:
        count, sums, hits = self._binned(state)
        return ((hits - sums).abs() / count.clamp(min=1)).max()


def ece(
    logits: Tensor,
    labels: Tensor,
    *,
    bins: int = 15,
    rule: Rule = "probability",
    binning: Binning = "equal-width",
    of: Calibrated = "top-1",
    torchmetrics_bins: bool = False,
) -> Tensor:
    """Expected calibration error, ``Σ_b (n_b/N) |accuracy_b - confidence_b|``.

    Lower is better; range [0, 1]. The bins ``b`` are those of :func:`reliability`. With
    ``classwise`` it is the mean over classes of the same sum for the probability of the
    class and the share of samples that have it as their label.

    Args:
        logits: Logits of shape ``(members, samples, classes)``.
        labels: Class indices of shape ``(samples,)``.
        bins: Number of bins.
        rule: How members are joined.
        binning: Bins of equal width or of equal numbers of samples.
        of: Look at the predicted class only, or at each class.
        torchmetrics_bins: Bin as torchmetrics does: confidences that are one in float32
            get a bin of their own instead of counting in the last one.

    Returns:
        A scalar.

    Raises:
        ValueError: If logits or labels break their rules, an option is unknown,
            ``bins`` is not positive or ``torchmetrics_bins`` meets other bins.

    Example:
        >>> import torch
        >>> ece(torch.tensor([[[0.0, 0.0]]]), torch.tensor([0]))  # 50 % sure and right
        tensor(0.5000)
    """
    return ECE(
        bins=bins,
        rule=rule,
        binning=binning,
        of=of,
        torchmetrics_bins=torchmetrics_bins,
    )._of(logits, labels)


def mce(
    logits: Tensor,
    labels: Tensor,
    *,
    bins: int = 15,
    rule: Rule = "probability",
    binning: Binning = "equal-width",
) -> Tensor:
    """Maximum calibration error, ``max_b |accuracy_b - confidence_b|``.

    Over bins that hold samples. Lower is better; range [0, 1]. The bins ``b`` are those
    of :func:`reliability`.

    Args:
        logits: Logits of shape ``(members, samples, classes)``.
        labels: Class indices of shape ``(samples,)``.
        bins: Number of bins.
        rule: How members are joined.
        binning: Bins of equal width or of equal numbers of samples.

    Returns:
        A scalar.

    Raises:
        ValueError: If logits or labels break their rules, an option is unknown or
            ``bins`` is not positive.

    Example:
        >>> import torch
        >>> logits = torch.tensor([[[0.0, 0.0], [0.0, 99.0]]])
        >>> mce(logits, torch.tensor([0, 1]))
        tensor(0.5000)
    """
    return MCE(bins=bins, rule=rule, binning=binning)._of(logits, labels)


def reliability(
    logits: Tensor,
    labels: Tensor,
    *,
    bins: int = 15,
    rule: Rule = "probability",
    binning: Binning = "equal-width",
) -> Reliability:
    """Confidence and accuracy in bins of confidence.

    The confidence is the largest probability of a sample. Bins are closed on the left
    and open on the right, except the last, which also holds a confidence of one. Bins
    of equal mass start at every ``N/bins``-th of the ordered confidences; equal
    confidences share a bin, so that bins can differ in size or be empty. Neither end is
    better: a calibrated ensemble has equal confidence and accuracy.

    Args:
        logits: Logits of shape ``(members, samples, classes)``.
        labels: Class indices of shape ``(samples,)``.
        bins: Number of bins.
        rule: How members are joined.
        binning: Bins of equal width on [0, 1] or of equal numbers of samples.

    Returns:
        Counts, mean confidences and accuracies, each of shape ``(bins,)``; the latter
        two in [0, 1].

    Raises:
        ValueError: If logits or labels break their rules, an option is unknown or
            ``bins`` is not positive.

    Example:
        >>> import torch
        >>> logits = torch.tensor([[[0.0, 0.0], [0.0, 99.0]]])
        >>> reliability(logits, torch.tensor([1, 1]), bins=3).accuracy
        tensor([nan, 0., 1.])
    """
    return ReliabilityDiagram(bins=bins, rule=rule, binning=binning)._of(logits, labels)
