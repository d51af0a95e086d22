"""How a metric changes with the number of members."""

import math
from collections.abc import Callable, Iterable
from itertools import combinations
from typing import NamedTuple

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.core.seeding import generator
from tepui.core.types import check_types
from tepui.metrics.chunks import check_logits


class SizeCurve(NamedTuple):
    """A metric of sub-ensembles, one entry per size.

    Attributes:
        size: Members per sub-ensemble.
        count: How many sub-ensembles were measured.
        mean: Mean of the metric over them.
        deviation: Standard deviation over them; NaN for one. They share members, so it
            is no standard error over independent ensembles.
    """

    size: Tensor
    count: Tensor  # type: ignore[assignment]  # hides tuple.count
    mean: Tensor
    deviation: Tensor


def sub_ensembles(
    num_members: int, size: int, *, limit: int = 100, seed: int = 0
) -> list[tuple[int, ...]]:
    """Return all sub-ensembles of a size, or a random sample of them.

    Args:
        num_members: Members of the whole ensemble.
        size: Members of a sub-ensemble.
        limit: If there are more than this, as many different ones are drawn.
        seed: What the draw depends on, beside ``num_members`` and ``size``.

    Returns:
        Increasing member indices of each, in lexicographic order.

    Example:
        >>> sub_ensembles(3, 2)
        [(0, 1), (0, 2), (1, 2)]
        >>> len(sub_ensembles(50, 5, limit=10))
        10
    """
    check_types(sub_ensembles, locals())
    require(num_members > 0, "num_members", "be positive", num_members)
    require(1 <= size <= num_members, "size", f"lie in [1, {num_members}]", size)
    require(limit >= 1, "limit", "be at least 1", limit)
    if math.comb(num_members, size) <= limit:
        return list(combinations(range(num_members), size))
    draws = generator(seed, "sub-ensembles", num_members, size)
    chosen: set[tuple[int, ...]] = set()
    while len(chosen) < limit:
        order = torch.randperm(num_members, generator=draws, device="cpu")
        chosen.add(tuple(sorted(order[:size].tolist())))
    return sorted(chosen)


def size_curve(
    metric: Callable[..., Tensor],
    logits: Tensor,
    labels: Tensor | None = None,
    *,
    sizes: Iterable[int] | None = None,
    limit: int = 100,
    seed: int = 0,
) -> SizeCurve:
    """Measure a metric on sub-ensembles of growing size.

    Args:
        metric: A function of logits, and of labels if given, that returns a scalar:
            ``accuracy``, ``disagreement``, ``lambda logits: pds(logits).mean()``.
        logits: Logits of shape ``(members, samples, classes)``.
        labels: Class indices of shape ``(samples,)``.
        sizes: Sizes of sub-ensembles; all if not given. Metrics of pairs need two
            members.
        limit: The most sub-ensembles of a size; of more, as many are drawn.
        seed: What the draw depends on.

    Returns:
        The curve; at the full size it is the metric itself.

    Example:
        >>> from tepui.metrics import accuracy
        >>> logits = torch.tensor([[[9.0, 0.0]], [[0.0, 1.0]], [[0.0, 1.0]]])
        >>> size_curve(accuracy, logits, torch.tensor([1])).mean
        tensor([0.6667, 0.3333, 0.0000])
    """
    check_types(size_curve, locals())
    check_logits(logits, labels)
    members = len(logits)
    chosen = list(range(1, members + 1) if sizes is None else sizes)
    require(bool(chosen), "sizes", "hold at least one size", chosen)
    data = () if labels is None else (labels,)
    count, mean, deviation = [], [], []
    for size in chosen:
        subsets = sub_ensembles(members, size, limit=limit, seed=seed)
        parts = [metric(logits[list(subset)], *data) for subset in subsets]
        tensors = all(isinstance(part, Tensor) for part in parts)
        kinds = sorted({type(part).__name__ for part in parts})
        require(tensors, "metric", "return a tensor", kinds)
        values = torch.stack(parts)
        require(values.ndim == 1, "metric", "return a scalar", tuple(values[0].shape))
        count.append(len(subsets))
        mean.append(values.mean())
        lone = torch.full_like(values[0], torch.nan)
        deviation.append(values.std() if len(values) > 1 else lone)
    whole = logits.new_tensor([chosen, count], dtype=torch.int64)
    return SizeCurve(whole[0], whole[1], torch.stack(mean), torch.stack(deviation))
