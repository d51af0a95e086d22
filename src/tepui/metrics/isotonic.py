"""Isotonic calibration: for each class, the best map of its probability that rises.

For class ``c`` the map is scikit-learn's isotonic regression of "the label is ``c``" on
the ensemble's probability of ``c``, straight between the samples it was fitted on.
Mapped probabilities are divided by their sum. Each is first kept at ``1 / (C n)`` or
above, for ``n`` samples and ``C`` classes: what never happened in ``n`` samples is not
impossible.

Between two samples of a class lie others whose regression is constant, so that they
enter as one weighted point: the regression has as many points as the class has samples,
not as many as there are samples at all.

References:
    Zadrozny and Elkan 2002, "Transforming classifier scores into accurate multiclass
    probability estimates".
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from tepui.core.checks import have_values
from tepui.metrics import chunks
from tepui.metrics.binning import sorted_rows


def isotonic_maps(probs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the maps' points, ``(classes, points)``, padded with their last.

    Args:
        probs: Probabilities of shape ``(samples, classes)``.
        labels: Class indices of shape ``(samples,)``.

    Returns:
        Probabilities in rising order and what they are mapped to, in float64.
    """
    samples, classes = probs.shape
    at_once = max(1, chunks.LOGITS_AT_ONCE // samples)
    of_label = probs.gather(1, labels.long().unsqueeze(1))[:, 0]
    by_class = of_label[labels.argsort()].cpu()
    counts = torch.bincount(labels.cpu(), minlength=classes).tolist()
    own = iter(by_class.split(counts))
    maps = []
    for start in range(0, classes, at_once):
        rows = sorted_rows(probs[:, start : start + at_once].T).cpu().numpy()
        maps += [_map(ordered, next(own).numpy()) for ordered in rows]
    longest = max(len(x) for x, _ in maps)
    x, y = (
        torch.from_numpy(np.stack([_padded(part[axis], longest) for part in maps]))
        for axis in (0, 1)
    )
    return x.to(probs.device), y.to(probs.device)


def mapped(probs: Tensor, x: Tensor, y: Tensor, floor: float) -> Tensor:
    """Return probabilities after the maps, their rows summing to one."""
    columns = probs.T.contiguous()
    x, y = x.to(columns), y.to(columns)
    right = _first_not_below(x, columns).clamp_(1, max(1, x.shape[1] - 1))
    left = right - 1
    right = right.clamp_(max=x.shape[1] - 1)
    low, high = x.gather(1, left), x.gather(1, right)
    share = ((columns - low) / (high - low)).nan_to_num_(0.0).clamp_(0, 1)
    values = torch.lerp(y.gather(1, left), y.gather(1, right), share)
    values = values.clamp_(min=floor).T
    return values / values.sum(-1, keepdim=True)


def _first_not_below(x: Tensor, columns: Tensor) -> Tensor:
    """Return where each value would stand among the points of its row."""
    if have_values():
        return torch.searchsorted(x, columns)
    # Graphs for other programs have no search; so many points lie below.
    return (x.unsqueeze(1) < columns.unsqueeze(2)).sum(-1)


def _map(ordered: Any, hits: Any) -> tuple[Any, Any]:
    """Return the points of one class's map, of all probabilities and of its own."""
    from sklearn.isotonic import isotonic_regression

    at, count = np.unique(hits, return_counts=True)
    first = np.searchsorted(ordered, at, side="left")
    last = np.searchsorted(ordered, at, side="right")
    low, high, share, weight = [], [], [], []
    begin = 0
    for value, own, start, end in zip(at, count, first, last, strict=True):
        if start > begin:
            low.append(ordered[begin])
            high.append(ordered[start - 1])
            share.append(0.0)
            weight.append(float(start - begin))
        low.append(value)
        high.append(value)
        share.append(own / (end - start))
        weight.append(float(end - start))
        begin = end
    if begin < len(ordered):
        low.append(ordered[begin])
        high.append(ordered[-1])
        share.append(0.0)
        weight.append(float(len(ordered) - begin))
    fitted = isotonic_regression(share, sample_weight=weight)
    x = np.stack([low, high], axis=1).flatten().astype(np.float64)
    return _without_inner(x, np.repeat(fitted, 2))


def _without_inner(x: Any, y: Any) -> tuple[Any, Any]:
    """Return points without those that repeat one or lie inside a constant piece."""
    kept = np.ones(len(x), dtype=bool)
    kept[1:] = x[1:] > x[:-1]
    x, y = x[kept], y[kept]
    kept = np.ones(len(x), dtype=bool)
    kept[1:-1] = (y[1:-1] != y[:-2]) | (y[1:-1] != y[2:])
    return x[kept], y[kept]


def _padded(values: Any, size: int) -> Any:
    return np.pad(values, (0, size - len(values)), mode="edge")
