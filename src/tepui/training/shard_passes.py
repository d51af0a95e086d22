"""The gradient of a batch from those of its shards, and what passes do to buffers.

Every shard begins with the buffers that the pass found. Afterwards floating-point
buffers, such as BatchNorm's running statistics, have moved by the mean of what the
shards did to them, and counters by what the first shard did.
"""

from collections.abc import Callable, Sequence
from functools import reduce

import torch
from torch import Tensor

from tepui.core import foreach
from tepui.data.arrays import Batch
from tepui.methods.member import Gradient
from tepui.training.shards import Shards


def summed_gradient(
    shards: Shards,
    batch: Batch,
    gradient: Callable[[int, Batch], Gradient],
    parameters: Sequence[Tensor],
    buffers: Sequence[Tensor],
) -> Gradient:
    """Return mean loss and gradient of a batch, of which each shard gives its share.

    Losses, gradients and changes of buffers travel together, as one flat tensor.
    """
    changing = [b for b in buffers if b.dtype != torch.bool]
    if shards.batch_norm == "synchronized":
        changing = []  # all ranks did the same to them
    like = [parameters[0].new_empty(()), *parameters, *changing]
    before = [buffer.clone() for buffer in changing]

    def flat(number: int) -> Tensor:
        shard = shards.of(batch, number)
        if shard is None:
            return _flat([torch.zeros_like(tensor) for tensor in like])
        foreach.copy_(changing, before)
        loss, values = gradient(number, shard)
        share = len(shard.targets) / len(batch.targets)
        changes = [
            _change(now, then, share, first=number == 0)
            for now, then in zip(changing, before, strict=True)
        ]
        return _flat([loss.to(like[0]), *values, *changes])

    loss, *rest = _parts(shards.summed(flat), like)
    values, changes = rest[: len(parameters)], rest[len(parameters) :]
    foreach.copy_(changing, [b + c for b, c in zip(before, changes, strict=True)])
    return Gradient(loss, values)


def _change(now: Tensor, then: Tensor, share: float, *, first: bool) -> Tensor:
    if now.is_floating_point():
        return (now - then) * share
    return now - then if first else torch.zeros_like(now)


def _flat(tensors: Sequence[Tensor]) -> Tensor:
    """Return all values in one tensor, of a type that holds the widest of them."""
    wide = reduce(torch.promote_types, (tensor.dtype for tensor in tensors))
    return torch.cat([tensor.detach().reshape(-1).to(wide) for tensor in tensors])


def _parts(flat: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    values = flat.split([tensor.numel() for tensor in like])
    return [
        value.view(tensor.shape).to(tensor.dtype)
        for value, tensor in zip(values, like, strict=True)
    ]
