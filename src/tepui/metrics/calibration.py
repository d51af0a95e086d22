"""How well the ensemble's confidence matches how often it is right.

Bins of probabilities have equal width on [0, 1], or equal numbers of samples. They are
closed on the left. Equal probabilities always share a bin, so that no result depends on
the order of the samples. A set of bins is three tensors whose last axis is the bins:
how many samples are inside, the sum of their probabilities, and how many of them are
hits (the prediction is right, or the class is the label).
"""

from typing import Literal, NamedTuple, final, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from tepui.core.checks import have_values, one_of, require
from tepui.metrics import chunks
from tepui.metrics.chunks import Chunk, Rule, wide
from tepui.metrics.streaming import LogitsStreaming, State, Value, WithRule

Bins = tuple[Tensor, Tensor, Tensor]

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


def check_bins(bins: int) -> None:
    """Check that there is at least one bin."""
    whole = isinstance(bins, int) and not isinstance(bins, bool)
    require(whole, "num_bins", "be an integer", bins)
    require(bins >= 1, "num_bins", "be at least 1", bins)


def width_bins(
    confidence: Tensor, correct: Tensor, bins: int, *, closed: bool = True
) -> Bins:
    """Bin confidences of shape ``(samples,)``.

    Unless closed, certainty in float32 has a bin of its own, as in torchmetrics.
    """
    binned, last = (confidence, bins - 1) if closed else (confidence.float(), bins)
    index = _width_index(binned, bins).clamp_(max=last)
    # Sums over a mask and not scatter_add, whose order of addition varies on a GPU.
    inside = index == torch.arange(last + 1, device=index.device).unsqueeze(1)
    sums = wide(torch.where(inside, confidence, 0)).sum(1)
    return inside.sum(1), sums, (inside & correct).sum(1)


def class_width_bins(probs: Tensor, labels: Tensor, bins: int) -> Bins:
    """Bin each class's probabilities; ``(samples, classes)`` to ``(classes, bins)``."""
    samples, classes = probs.shape
    # At most this many classes of a sample can lie above the first bin.
    high, where = probs.topk(min(classes, bins), dim=-1)
    index = _width_index(high, bins).clamp_(max=bins - 1)
    cell = where * bins + index
    above = index > 0
    count = _added(cell, above.long(), classes * bins).view(classes, bins)
    sums = _exact_sums(cell, high.where(above, 0), classes * bins).view(classes, bins)
    count[:, 0] = samples - count.sum(-1)
    edge = torch.linspace(0, 1, bins + 1, dtype=probs.dtype, device=probs.device)[1:2]
    sums[:, 0] = wide(probs.where((probs < edge) | (bins == 1), 0).sum(0))
    of_label = probs.gather(1, labels.unsqueeze(1))[:, 0]
    hit = labels * bins + _width_index(of_label, bins).clamp_(max=bins - 1)
    hits = _added(hit, torch.ones_like(hit), classes * bins).view(classes, bins)
    return count, sums, hits


def label_width_bins(probs: Tensor, targets: Tensor, bins: int) -> Bins:
    """Bin each label's probabilities; ``(samples, labels)`` to ``(labels, bins)``."""
    labels = probs.shape[1]
    index = _width_index(probs, bins).clamp_(max=bins - 1)
    cell = torch.arange(labels, device=probs.device) * bins + index
    size, shape = labels * bins, (labels, bins)
    count = _added(cell, torch.ones_like(cell), size).view(shape)
    sums = _exact_sums(cell, probs, size).view(shape)
    return count, sums, _added(cell, targets.long(), size).view(shape)


def mass_bins(confidence: Tensor, correct: Tensor, bins: int) -> Bins:
    """Bin confidences of shape ``(samples,)`` into equal numbers of samples."""
    count, sums, edges = _mass_sums(confidence.unsqueeze(0), bins)
    number = torch.arange(bins, device=confidence.device).unsqueeze(1)
    inside = _mass_index(confidence, edges[0]) == number
    return count[0], sums[0], (inside & correct).sum(1)


def class_mass_bins(probs: Tensor, labels: Tensor, bins: int) -> Bins:
    """Bin each class's probabilities into equal numbers of samples."""
    samples, classes = probs.shape
    at_once = max(1, chunks.LOGITS_AT_ONCE // samples)
    parts = [_mass_sums(part.T, bins) for part in probs.split(at_once, dim=1)]
    count, sums, edges = (torch.cat(column) for column in zip(*parts, strict=True))
    of_label = probs.gather(1, labels.unsqueeze(1))[:, 0]
    hit = labels * bins + _mass_index(of_label, edges[labels])
    hits = _added(hit, torch.ones_like(hit), classes * bins).view(classes, bins)
    return count, sums, hits


def _width_index(values: Tensor, bins: int) -> Tensor:
    edges = torch.linspace(0, 1, bins + 1, dtype=values.dtype, device=values.device)
    return torch.bucketize(values, edges, right=True) - 1


def _mass_index(values: Tensor, edges: Tensor) -> Tensor:
    """Return the last of the bins, open at the top, whose edge a value reaches."""
    return (values.unsqueeze(-1) >= edges).sum(-1) - 1


def _mass_sums(rows: Tensor, bins: int) -> Bins:
    """Return counts, sums and lower edges of the bins of each row."""
    ordered = sorted_rows(rows)
    samples = rows.shape[1]
    first = torch.arange(bins, device=rows.device) * samples // bins
    edges = ordered[:, first]
    start = torch.searchsorted(ordered, edges)  # the first of equal values
    end = torch.cat([start[:, 1:], torch.full_like(start[:, :1], samples)], dim=1)
    before = [F.pad(part.cumsum(-1), (1, 0)) for part in _whole(ordered)]
    sums = _unit(*(part.gather(1, end) - part.gather(1, start) for part in before))
    return end - start, sums, edges


def sorted_rows(rows: Tensor) -> Tensor:
    """Return every row in rising order."""
    if rows.device.type != "cpu" or not have_values():
        return rows.contiguous().sort(-1).values
    import numpy as np

    # Without indices, which torch always sorts along: several times faster.
    return torch.from_numpy(np.sort(rows.contiguous().numpy(), axis=-1))


def _added(index: Tensor, values: Tensor, size: int) -> Tensor:
    """Return sums of whole numbers by index."""
    total = values.new_zeros(size)
    return total.index_add_(0, index.flatten(), values.flatten())


def _exact_sums(index: Tensor, values: Tensor, size: int) -> Tensor:
    """Return sums of numbers in [0, 1] by index."""
    return _unit(*(_added(index, part, size) for part in _whole(values)))


def _whole(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return numbers in [0, 1] as whole numbers of 2⁻³⁰ and of 2⁻⁶⁰.

    Their sums are exact and so the same in any order, which varies on a GPU.
    """
    scaled = wide(values) * 2**30
    coarse = scaled.long()
    return coarse, ((scaled - coarse) * 2**30).long()


def _unit(coarse: Tensor, fine: Tensor) -> Tensor:
    """Return what sums of such whole numbers stand for."""
    return (wide(coarse) + wide(fine) / 2**30) / 2**30
