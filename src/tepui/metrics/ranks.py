"""Whether two scores put samples in the same order."""

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.core.warning import warn
from tepui.metrics.chunks import dtype_of
from tepui.metrics.ood import check_scores


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
    require(len(scores) > 0, "scores", "hold at least one sample", 0)
    values = scores.detach().to(dtype_of(scores)).contiguous()
    ordered = values.sort().values
    below = torch.searchsorted(ordered, values)
    not_above = torch.searchsorted(ordered, values, right=True)
    return (below + not_above + 1).double() / 2


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
    check_scores("first", first)
    check_scores("second", second)
    require(len(first) > 1, "first", "hold at least two samples", len(first))
    rule = f"hold {len(first)} samples"
    require(len(first) == len(second), "second", rule, len(second))
    dtype = torch.promote_types(dtype_of(first), dtype_of(second))
    middle = (len(first) + 1) / 2
    offset, other = ranks(first) - middle, ranks(second) - middle
    scale = (offset.square().sum() * other.square().sum()).sqrt()
    if scale == 0:
        message = "rank_correlation is NaN: all values of a score are equal"
        warn(message)
    return ((offset * other).sum() / scale).clamp(-1, 1).to(dtype)
