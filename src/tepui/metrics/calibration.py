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
from tepui.metrics.chunks import Chunk, Rule, wide
from tepui.metrics.streaming import LogitsStreaming, State, Value, WithRule

Bins = tuple[Tensor, Tensor, Tensor]

Binning = Literal["equal_width", "equal_mass"]
"""Bins of equal width on [0, 1], or of equal numbers of samples."""


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

    def __init__(
        self,
        *,
        num_bins: int = 15,
        rule: Rule = "probability",
        binning: Binning = "equal_width",
        torchmetrics_bins: bool = False,
    ) -> None:
        check_bins(num_bins)
        one_of("binning", binning, get_args(Binning))
        fits = binning == "equal_width" or not torchmetrics_bins
        require(fits, "torchmetrics_bins", "go with binning='equal_width'", binning)
        super().__init__(rule=rule)
        self.num_bins, self.torchmetrics_bins = num_bins, torchmetrics_bins
        self.joined = binning == "equal_mass"
        self.num_states = 2 if self.joined else 3

    def statistics(self, chunk: Chunk) -> State:
        """Return confidences and whether each is right, or their bins."""
        confidence, correct = chunk.ensemble_top(self.rule)[0], chunk.correct(self.rule)
        if self.joined:
            return confidence, correct
        closed = not self.torchmetrics_bins
        return width_bins(confidence, correct, self.num_bins, closed=closed)

    def _bins(self, state: State) -> Bins:
        if self.joined:
            confidence, correct = state
            return mass_bins(confidence, correct, self.num_bins)
        count, sums, hits = state
        return count, sums, hits


def ece(
    logits: Tensor,
    labels: Tensor,
    *,
    num_bins: int = 15,
    rule: Rule = "probability",
    binning: Binning = "equal_width",
    torchmetrics_bins: bool = False,
) -> Tensor:
    """Expected calibration error, ``Σ_b (n_b/N) |accuracy_b - confidence_b|``.

    Lower is better; range [0, 1]. The bins ``b`` are those of :func:`reliability`. Bins
    of equal mass follow the confidences, so that none is empty where they crowd near
    one (Nguyen and O'Connor 2015, "Posterior calibration and exploratory analysis for
    natural language processing models").

    Args:
        logits: Logits of shape ``(members, samples, classes)``.
        labels: Class indices of shape ``(samples,)``.
        num_bins: Number of bins.
        rule: How members are combined.
        binning: Bins of equal width or of equal numbers of samples.
        torchmetrics_bins: Bin as torchmetrics does: confidences that are one in float32
            get a bin of their own instead of counting in the last one.

    Returns:
        A scalar.

    Raises:
        ValueError: If ``torchmetrics_bins`` comes with bins of equal mass.

    Example:
        >>> import torch
        >>> ece(torch.tensor([[[0.0, 0.0]]]), torch.tensor([0]))  # 50 % sure and right
        tensor(0.5000)
    """
    return ECE(
        num_bins=num_bins,
        rule=rule,
        binning=binning,
        torchmetrics_bins=torchmetrics_bins,
    ).once(logits, labels)


@final
class ECE(_Binned[Tensor]):
    """Streaming :func:`ece`, with its options; equal mass keeps two per sample."""

    def value(self, *state: Tensor) -> Tensor:
        """Return the mean gap between confidence and accuracy."""
        count, sums, hits = self._bins(state)
        return (hits - sums).abs().sum() / count.sum()


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
    """Streaming :func:`reliability`, with its options and those of :func:`ece`.

    Equal mass keeps two numbers per sample.
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
    ordered = sorted_rows(confidence)
    samples = len(ordered)
    edges = ordered[torch.arange(bins, device=ordered.device) * samples // bins]
    start = torch.searchsorted(ordered, edges)  # the first of equal values
    end = F.pad(start[1:], (0, 1), value=samples)
    before = [F.pad(part.cumsum(-1), (1, 0)) for part in _whole(ordered)]
    sums = _unit(*(part[end] - part[start] for part in before))
    # A value lies in the last of the bins, open at the top, whose edge it reaches.
    index = (confidence.unsqueeze(-1) >= edges).sum(-1) - 1
    inside = index == torch.arange(bins, device=ordered.device).unsqueeze(1)
    return end - start, sums, (inside & correct).sum(1)


def _width_index(values: Tensor, bins: int) -> Tensor:
    edges = torch.linspace(0, 1, bins + 1, dtype=values.dtype, device=values.device)
    return torch.bucketize(values, edges, right=True) - 1


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
