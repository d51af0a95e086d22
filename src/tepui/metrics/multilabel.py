"""Samples that may have several labels, or none: each label is a yes or a no.

Probabilities are those of the ensemble, ``(samples, labels)``, each of its label alone;
targets of the same shape say which labels a sample has.
"""

from collections.abc import Iterator
from typing import final

import torch
from torch import Tensor

from tepui.core.checks import require, values_in
from tepui.metrics.calibration import check_bins, label_width_bins
from tepui.metrics.chunks import dtype_of, wide
from tepui.metrics.ood import average_precision, halves_below
from tepui.metrics.streaming import State, Streaming


class _OfLabels(Streaming[Tensor]):
    """A metric of each label's probabilities."""

    def update(self, probs: Tensor, targets: Tensor) -> None:
        """Take in some samples.

        Args:
            probs: Probabilities of shape ``(samples, labels)``.
            targets: Of the same shape, true or one where a sample has the label.

        Raises:
            ValueError: If a probability lies outside [0, 1], a target is neither 0 nor
                1, or the shapes differ.
        """
        _check_labels(probs, targets)
        values = probs.detach().to(dtype_of(probs))
        self.keep(self.statistics(values, targets.detach().bool()), probs)

    def statistics(self, probs: Tensor, targets: Tensor) -> State:
        """Return what some samples add to the state."""
        return probs, targets


def mean_average_precision(probs: Tensor, targets: Tensor) -> Tensor:
    """Mean over labels of the average precision (mAP).

    The average precision of a label is the mean, over samples that have it, of the
    precision at the threshold that just admits the sample. Higher is better; range
    (0, 1]. Labels that no sample has are left out; NaN, with a warning, where none is
    left.

    Args:
        probs: Probabilities of shape ``(samples, labels)``.
        targets: Of the same shape, true or one where a sample has the label.

    Returns:
        A scalar.

    Example:
        >>> probs = torch.tensor([[0.9, 0.1], [0.4, 0.8], [0.6, 0.3]])
        >>> mean_average_precision(probs, torch.tensor([[1, 0], [1, 1], [0, 0]]))
        tensor(0.9167)
    """
    return MeanAveragePrecision().once(probs, targets)


@final
class MeanAveragePrecision(_OfLabels):
    """Streaming :func:`mean_average_precision`; keeps every probability."""

    num_states = 2
    joined = True
    undefined = "mean_average_precision is NaN: no sample has any label"

    def value(self, *state: Tensor) -> Tensor:
        """Return the mean over labels that occur."""
        precisions = [average_precision(*each) for each in _parted(state)]
        return torch.stack(precisions).nanmean()


def label_auroc(probs: Tensor, targets: Tensor) -> Tensor:
    """Area under the ROC curve of each label.

    The probability that a sample with the label has a higher probability of it than one
    without, where equal ones count half. Higher is better; range [0, 1], 0.5 for
    guesses. NaN for a label that all samples have or none.

    Args:
        probs: Probabilities of shape ``(samples, labels)``.
        targets: Of the same shape, true or one where a sample has the label.

    Returns:
        Areas of shape ``(labels,)``.

    Example:
        >>> probs = torch.tensor([[0.9, 0.1], [0.4, 0.8], [0.6, 0.3]])
        >>> label_auroc(probs, torch.tensor([[1, 0], [1, 1], [0, 0]]))
        tensor([0.5000, 1.0000])
    """
    return LabelAUROC().once(probs, targets)


@final
class LabelAUROC(_OfLabels):
    """Streaming :func:`label_auroc`; keeps every probability."""

    num_states = 2
    joined = True

    def value(self, *state: Tensor) -> Tensor:
        """Return the area of each label."""
        areas = [
            (wide(halves_below(lacks, has)) / 2).mean() / len(lacks)
            for has, lacks in _parted(state)
        ]
        return torch.stack(areas)


def label_ece(probs: Tensor, targets: Tensor, *, num_bins: int = 15) -> Tensor:
    """Calibration error of each label, ``Σ_b (n_b/N) |share with label - mean prob.|``.

    The bins ``b`` are of equal width on [0, 1], closed on the left. Lower is better;
    range [0, 1].

    Args:
        probs: Probabilities of shape ``(samples, labels)``.
        targets: Of the same shape, true or one where a sample has the label.
        num_bins: Number of bins.

    Returns:
        Errors of shape ``(labels,)``.

    Example:
        >>> label_ece(torch.tensor([[0.5, 0.1]]), torch.tensor([[True, False]]))
        tensor([0.5000, 0.1000])
    """
    return LabelECE(num_bins=num_bins).once(probs, targets)


@final
class LabelECE(_OfLabels):
    """Streaming :func:`label_ece`, with its ``num_bins``."""

    num_states = 3

    def __init__(self, *, num_bins: int = 15) -> None:
        check_bins(num_bins)
        super().__init__()
        self.num_bins = num_bins

    def statistics(self, probs: Tensor, targets: Tensor) -> State:
        """Return the bins of each label."""
        return label_width_bins(probs, targets, self.num_bins)

    def value(self, *state: Tensor) -> Tensor:
        """Return the mean gap of each label."""
        count, sums, hits = state
        return (hits - sums).abs().sum(-1) / count.sum(-1)


def two_classes(logits: Tensor) -> Tensor:
    """Return a logit as two, 0 and itself, whose softmax is its sigmoid."""
    return torch.stack([torch.zeros_like(logits), logits], -1)


def label_rows(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return logits and targets with the labels last and every pixel a sample.

    Args:
        outputs: Logits of shape ``(members, samples, labels, …)``.
        targets: 0 or 1, of shape ``(samples, labels, …)``.

    Returns:
        Shapes ``(members, samples and pixels, labels)`` and without members.
    """
    known = bool(((targets == 0) | (targets == 1)).all())
    require(known, "targets", "be 0 or 1 for each label", values_in(targets))
    logits = outputs.movedim(2, -1).flatten(1, -2)
    return logits, targets.movedim(1, -1).flatten(0, -2).long()


def _parted(state: State) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the ordered probabilities of samples with each label, and without."""
    for probs, targets in zip(*(part.T for part in state), strict=True):
        yield probs[targets].sort().values, probs[~targets].sort().values


def _check_labels(probs: Tensor, targets: Tensor) -> None:
    shape = tuple(probs.shape)
    require(probs.ndim == 2, "probs", "have shape (samples, labels)", shape)
    require(probs.numel() > 0, "probs", "hold at least one sample and label", shape)
    require(probs.is_floating_point(), "probs", "be floating point", probs.dtype)
    low, high = (float(bound) for bound in torch.aminmax(probs.detach()))
    require(low >= 0 and high <= 1, "probs", "lie in [0, 1]", (low, high))
    rule = f"have the shape of probs, {shape}"
    require(targets.shape == probs.shape, "targets", rule, tuple(targets.shape))
    known = targets.dtype == torch.bool or bool(((targets == 0) | (targets == 1)).all())
    require(known, "targets", "be 0 or 1", values_in(targets))
