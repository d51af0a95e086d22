"""Isotonic calibration: for each class, the best map of its probability that rises.

For class ``c`` the map is scikit-learn's isotonic regression of "the label is ``c``" on
the ensemble's probability of ``c``, straight between the samples it was fitted on.
Mapped probabilities are divided by their sum. Each is first kept at ``1 / (C n)`` or
above, for ``n`` samples and ``C`` classes: what never happened in ``n`` samples is not
impossible.

Probabilities equal but for rounding count as one, as in scikit-learn.

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
        Probabilities in rising order and what they are mapped to.
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
    from sklearn.isotonic import IsotonicRegression

    hits = np.sort(hits)
    # Of equal probabilities the first are hits, as many as there are.
    among_equal = np.arange(len(hits)) - np.searchsorted(hits, hits)
    is_hit = np.zeros_like(ordered)
    is_hit[np.searchsorted(ordered, hits) + among_equal] = 1
    regression = IsotonicRegression().fit(ordered, is_hit)
    return regression.X_thresholds_, regression.y_thresholds_


def _padded(values: Any, size: int) -> Any:
    return np.pad(values, (0, size - len(values)), mode="edge")
