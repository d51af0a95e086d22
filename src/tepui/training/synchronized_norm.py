"""BatchNorm whose statistics are those of all ranks that share a batch."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from tepui.training.shards import DataGroup, Shards

KINDS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


@contextmanager
def normalizing(module: nn.Module, shards: Shards) -> Iterator[None]:
    """Let layers in training normalize as the shards' policy says inside the block."""
    together = shards.batch_norm == "synchronized"
    norms = [n for n in module.modules() if together and isinstance(n, KINDS)]
    norms = [norm for norm in norms if norm.training]
    for norm in norms:
        vars(norm)["forward"] = partial(normalized_together, norm, shards.group)
    try:
        yield
    finally:
        for norm in norms:
            del vars(norm)["forward"]


def normalized_together(norm: Any, group: DataGroup, x: Tensor) -> Tensor:
    """Return BatchNorm of this rank's rows, with statistics over those of all ranks."""
    wide = x.float() if x.dtype.itemsize < 4 else x
    axes = [axis for axis in range(x.ndim) if axis != 1]
    shape = [1, -1, *[1] * (x.ndim - 2)]
    count = wide.new_full((1,), x.numel() // x.shape[1])
    sums = _added(torch.cat([wide.sum(axes), count]), group)
    total = sums[-1].detach()
    mean = sums[:-1] / total
    centered = wide - mean.view(shape)
    squares = _added(centered.square().sum(axes), group)
    variance = squares / total
    _track(norm, mean.detach(), squares.detach() / (total - 1))
    out: Tensor = centered * (variance + norm.eps).rsqrt().view(shape)
    if norm.affine:
        out = out * norm.weight.view(shape) + norm.bias.view(shape)
    return out.to(x.dtype)


@torch.no_grad()
def _track(norm: Any, mean: Tensor, variance: Tensor) -> None:
    if not norm.track_running_stats:
        return
    norm.num_batches_tracked.add_(1)
    share = norm.momentum
    if share is None:
        share = norm.num_batches_tracked.to(mean).reciprocal()
    norm.running_mean.lerp_(mean.to(norm.running_mean), share)
    norm.running_var.lerp_(variance.to(norm.running_var), share)


def _added(value: Tensor, group: DataGroup) -> Tensor:
    return _Added.apply(value, group)  # type: ignore[no-any-return,no-untyped-call]


class _Added(torch.autograd.Function):
    """The sum over ranks; every rank's loss depends on every rank's value."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, group: DataGroup) -> Tensor:
        ctx.group = group
        return group.summed(value[None])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.group.summed(gradient[None].contiguous()), None
