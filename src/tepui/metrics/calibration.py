"""How well the ensemble's confidence matches how often it is right."""

from typing import Literal, NamedTuple, final, get_args

import torch  # noqa: F401 - the examples use it
from torch import Tensor

from tepui.core.checks import one_of, require
from tepui.metrics.binning import (
    Bins,
    check_bins,
    class_mass_bins,
    class_width_bins,
    mass_bins,
    width_bins,
)
from tepui.metrics.chunks import Chunk, Rule
from tepui.metrics.streaming import LogitsStreaming, State, Value, WithRule

Binning = Literal["equal_width", "equal_mass"]
"""Bins of equal width on [0, 1], or of equal numbers of samples."""

CalibrationScope = Literal["top_1", "classwise"]
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


class _Binned(WithRule, LogitsStreaming[Value]):
    """Bins of confidences; equal mass keeps them all until the end."""

    scope: CalibrationScope = "top_1"
    torchmetrics_bins: bool = False

    def __init__(
        self,
        *,
        num_bins: int = 15,
        rule: Rule = "probability",
        binning: Binning = "equal_width",
    ) -> None:
        check_bins(num_bins)
        one_of("binning", binning, get_args(Binning))
        super().__init__(rule=rule)
        self.num_bins, self.binning = num_bins, binning
        self.joined = binning == "equal_mass"
        self.num_states = 2 if self.joined else 3

    def statistics(self, chunk: Chunk) -> State:
        """Return probabilities and whether each is of the label, or their bins."""
        if self.scope == "classwise":
            probs, labels = chunk.ensemble_probs(self.rule), chunk.labels
            if self.joined:
                return probs, labels
            return class_width_bins(probs, labels, self.num_bins)
        confidence, correct = chunk.ensemble_top(self.rule)[0], chunk.correct(self.rule)
        if self.joined:
            return confidence, correct
        closed = not self.torchmetrics_bins
        return width_bins(confidence, correct, self.num_bins, closed=closed)

    def _bins(self, state: State) -> Bins:
        if self.joined:
            values, events = state
            by_mass = class_mass_bins if self.scope == "classwise" else mass_bins
            return by_mass(values, events, self.num_bins)
        count, sums, hits = state
        return count, sums, hits


class _MeanGap(_Binned[Tensor]):
    def value(self, *state: Tensor) -> Tensor:
        """Return the mean gap between confidence and accuracy."""
        count, sums, hits = self._bins(state)
        return ((hits - sums).abs().sum(-1) / count.sum(-1)).mean()


def ece(
    logits: Tensor,
    labels: Tensor,
    *,
    num_bins: int = 15,
    rule: Rule = "probability",
    binning: Binning = "equal_width",
    scope: CalibrationScope = "top_1",
    torchmetrics_bins: bool = False,
) -> Tensor:
    """Expected calibration error, ``Σ_b (n_b/N) |accuracy_b - confidence_b|``.

    Lower is better; range [0, 1]. The bins ``b`` are those of :func:`reliability`. With
    ``classwise`` it is the mean over classes of the same sum for the probability of the
    class and the share of samples that have it as their label.

    Args:
        logits: Logits of shape ``(members, samples, classes)``.
        labels: Class indices of shape ``(samples,)``.
        num_bins: Number of bins.
        rule: How members are combined.
        binning: Bins of equal width or of equal numbers of samples.
        scope: Look at the predicted class only, or at each class.
        torchmetrics_bins: Bin as torchmetrics does: confidences that are one in float32
            get a bin of their own instead of counting in the last one.

    Returns:
        A scalar.

    Raises:
        ValueError: If ``torchmetrics_bins`` comes with other than the default bins.

    Example:
        >>> import torch
        >>> ece(torch.tensor([[[0.0, 0.0]]]), torch.tensor([0]))  # 50 % sure and right
        tensor(0.5000)
    """
    return ECE(
        num_bins=num_bins,
        rule=rule,
        binning=binning,
        scope=scope,
        torchmetrics_bins=torchmetrics_bins,
    ).once(logits, labels)


@final
class ECE(_MeanGap):
    """Streaming :func:`ece`.

    Equal mass keeps two numbers per sample, with ``classwise`` all probabilities of the
    ensemble.

    Args:
        num_bins: Number of bins.
        rule: How members are combined.
        binning: Bins of equal width or of equal numbers of samples.
        scope: Look at the predicted class only, or at each class.
        torchmetrics_bins: Bin as torchmetrics does.
    """

    def __init__(
        self,
        *,
        num_bins: int = 15,
        rule: Rule = "probability",
        binning: Binning = "equal_width",
        scope: CalibrationScope = "top_1",
        torchmetrics_bins: bool = False,
    ) -> None:
        one_of("scope", scope, get_args(CalibrationScope))
        default = (binning, scope) == ("equal_width", "top_1")
        rule_of_bins = "go with binning='equal_width' and scope='top_1'"
        fits = default or not torchmetrics_bins
        require(fits, "torchmetrics_bins", rule_of_bins, (binning, scope))
        super().__init__(num_bins=num_bins, rule=rule, binning=binning)
        self.scope, self.torchmetrics_bins = scope, torchmetrics_bins


def adaptive_ece(
    logits: Tensor, labels: Tensor, *, num_bins: int = 15, rule: Rule = "probability"
) -> Tensor:
    """Expected calibration error over bins that hold equally many samples.

    :func:`ece` with ``binning="equal_mass"``, under the name it is known by: bins
    follow the confidences, so that none is empty where they crowd near one (Nguyen and
    O'Connor 2015, "Posterior calibration and exploratory analysis for natural language
    processing models"). Lower is better; range [0, 1].

    Args:
        logits: Logits of shape ``(members, samples, classes)``.
        labels: Class indices of shape ``(samples,)``.
        num_bins: Number of bins.
        rule: How members are combined.

    Returns:
        A scalar.

    Example:
        >>> import torch
        >>> logits = torch.tensor([[[0.0, 0.0], [0.0, 99.0]]])
        >>> adaptive_ece(logits, torch.tensor([0, 1]), num_bins=2)
        tensor(0.2500)
    """
    return AdaptiveECE(num_bins=num_bins, rule=rule).once(logits, labels)


@final
class AdaptiveECE(_MeanGap):
    """Streaming :func:`adaptive_ece`; keeps two numbers per sample.

    Args:
        num_bins: Number of bins.
        rule: How members are combined.
    """

    def __init__(self, *, num_bins: int = 15, rule: Rule = "probability") -> None:
        super().__init__(num_bins=num_bins, rule=rule, binning="equal_mass")


def mce(
    logits: Tensor,
    labels: Tensor,
    *,
    num_bins: int = 15,
    rule: Rule = "probability",
    binning: Binning = "equal_width",
) -> Tensor:
    """Maximum calibration error, ``max_b |accuracy_b - confidence_b|``.

    Over bins that hold samples. Lower is better; range [0, 1]. The bins ``b`` are those
    of :func:`reliability`.

    Args:
        logits: Logits of shape ``(members, samples, classes)``.
        labels: Class indices of shape ``(samples,)``.
        num_bins: Number of bins.
        rule: How members are combined.
        binning: Bins of equal width or of equal numbers of samples.

    Returns:
        A scalar.

    Example:
        >>> import torch
        >>> logits = torch.tensor([[[0.0, 0.0], [0.0, 99.0]]])
        >>> mce(logits, torch.tensor([0, 1]))
        tensor(0.5000)
    """
    return MCE(num_bins=num_bins, rule=rule, binning=binning).once(logits, labels)


@final
class MCE(_Binned[Tensor]):
    """Streaming :func:`mce`; equal mass keeps two numbers per sample.

    Args:
        num_bins: Number of bins.
        rule: How members are combined.
        binning: Bins of equal width or of equal numbers of samples.
    """

    def value(self, *state: Tensor) -> Tensor:
        """Return the largest gap between confidence and accuracy."""
        count, sums, hits = self._bins(state)
        return ((hits - sums).abs() / count.clamp(min=1)).max()


def reliability(
    logits: Tensor,
    labels: Tensor,
    *,
    num_bins: int = 15,
    rule: Rule = "probability",
    binning: Binning = "equal_width",
) -> Reliability:
    """Confidence and accuracy in bins of confidence.

    The confidence is the largest probability of a sample. Bins are closed on the left
    and open on the right, except the last, which also holds a confidence of one. Bins
    of equal mass start at every ``N/num_bins``-th of the ordered confidences; equal
    confidences share a bin, so that bins can differ in size or be empty. Neither end is
    better: a calibrated ensemble has equal confidence and accuracy.

    Args:
        logits: Logits of shape ``(members, samples, classes)``.
        labels: Class indices of shape ``(samples,)``.
        num_bins: Number of bins.
        rule: How members are combined.
        binning: Bins of equal width on [0, 1] or of equal numbers of samples.

    Returns:
        Counts, mean confidences and accuracies, each of shape ``(num_bins,)``; the
        latter two in [0, 1].

    Example:
        >>> import torch
        >>> logits = torch.tensor([[[0.0, 0.0], [0.0, 99.0]]])
        >>> reliability(logits, torch.tensor([1, 1]), num_bins=3).accuracy
        tensor([nan, 0., 1.])
    """
    stream = ReliabilityDiagram(num_bins=num_bins, rule=rule, binning=binning)
    return stream.once(logits, labels)


@final
class ReliabilityDiagram(_Binned[Reliability]):
    """Streaming :func:`reliability`; equal mass keeps two numbers per sample.

    Args:
        num_bins: Number of bins.
        rule: How members are combined.
        binning: Bins of equal width or of equal numbers of samples.
    """

    def value(self, *state: Tensor) -> Reliability:
        """Return the bins."""
        count, sums, hits = self._bins(state)
        return Reliability(count, sums / count, hits.to(sums.dtype) / count)
