"""Bins of probabilities: of equal width on [0, 1], or of equal numbers of samples.

Bins are closed on the left. Equal probabilities always share a bin, so that no result
depends on the order of the samples. A set of bins is three tensors whose last axis is
the bins: how many samples are inside, the sum of their probabilities, and how many of
them are hits (the prediction is right, or the class is the label).
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from tepui.core.checks import have_values, require
from tepui.metrics import chunks
from tepui.metrics.chunks import wide

Bins = tuple[Tensor, Tensor, Tensor]


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
