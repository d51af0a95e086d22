"""Shards: every batch in parts, summed in one order, whoever computes them.

The gradient of a batch is the sum of its shards' gradients, added as a balanced tree
over the shards' numbers. Ranks compute contiguous blocks of shards and only move data,
so that the sum has the same bits for any number of them.

Every shard begins with the buffers that the pass found. Afterwards floating-point
buffers, such as BatchNorm's running statistics, have moved by the mean of what the
shards did to them, and counters by what the first shard did.

A rank loads the rows of its own shards. The batch keeps its size, so that all else is
as in one process. Rows of other ranks' shards hold NaN, or -1 in whole numbers that
have a sign: whoever reads them notices.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, Literal, final

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from tepui.core import foreach
from tepui.core.checks import require
from tepui.data.arrays import Batch, Division
from tepui.methods.member import Gradient
from tepui.optim import Perturbation
from tepui.training.batches import BatchSource

BatchNormPolicy = Literal["shard", "synchronized"]

KINDS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
# BatchNorm cannot normalize a single sample.
FEWEST_SAMPLES = 2


class DataGroup(ABC):
    """The ranks that share the batches of a member."""

    rank: int
    size: int

    @abstractmethod
    def summed(self, rows: Tensor) -> Tensor:
        """Return the tree's sum of the rows of all ranks, in rank order."""

    @abstractmethod
    def agreed(self, flag: bool) -> bool:
        """Return whether any rank raised its flag, the same on all of them."""

    @property
    def capturable(self) -> bool:
        """Whether what it does may be part of a captured graph."""
        return True


@final
class Alone(DataGroup):
    """One process that computes all shards."""

    rank, size = 0, 1

    def summed(self, rows: Tensor) -> Tensor:
        """Return the tree's sum of the rows."""
        return tree_sum(lambda number: rows[number], range(len(rows)))

    def agreed(self, flag: bool) -> bool:
        """Return the flag."""
        return flag


ALONE = Alone()


@final
@dataclass(frozen=True)
class Shards:
    """How the batches of a member are divided, and by whom the parts are computed."""

    count: int = 1  # shards of a batch
    perturbation: Perturbation = "global"
    batch_norm: BatchNormPolicy = "shard"
    group: DataGroup = ALONE

    def __post_init__(self) -> None:
        rule = f"be a multiple of the ranks that share a batch ({self.group.size})"
        require(self.count % self.group.size == 0, "virtual_shards", rule, self.count)

    @property
    def whole(self) -> bool:
        """Whether a batch goes through undivided, in one process."""
        return self.parts == 1 and self.group is ALONE

    @property
    def parts(self) -> int:
        """Parts of a batch: its shards, or one for each of synchronized ranks."""
        return self.group.size if self.batch_norm == "synchronized" else self.count

    @property
    def owned(self) -> range:
        """The parts that this process computes."""
        block = self.parts // self.group.size
        return range(self.group.rank * block, (self.group.rank + 1) * block)

    def of(self, batch: Batch, number: int) -> Batch | None:
        """Return one part of a batch; none where so few samples make fewer parts."""
        samples = len(batch.targets)
        if self.batch_norm == "synchronized":
            rule = f"have a sample for each of {self.parts} ranks that normalize it"
            require(samples >= self.parts, "batch", rule, f"{samples} samples")
            return shard_of(batch, number, self.parts)
        count = min(self.parts, max(samples // FEWEST_SAMPLES, 1))
        return shard_of(batch, number, count) if number < count else None

    def summed(self, part: Callable[[int], Tensor]) -> Tensor:
        """Return the sum over all parts, of which this process computes its own."""
        size = self.group.size
        if size & (size - 1) == 0:
            # Such blocks are subtrees: their sums are all that needs to travel.
            return self.group.summed(tree_sum(part, self.owned)[None])
        return self.group.summed(torch.stack([part(number) for number in self.owned]))


WHOLE = Shards()


def tree_sum(term: Callable[[int], Tensor], numbers: range) -> Tensor:
    """Return a sum in the order of a balanced tree, its terms computed in turn.

    Example:
        >>> tree_sum(lambda number: torch.tensor(2.0**number), range(4))
        tensor(15.)
    """
    if len(numbers) == 1:
        return term(numbers[0])
    middle = len(numbers) // 2
    return tree_sum(term, numbers[:middle]) + tree_sum(term, numbers[middle:])


def shard_of(batch: Batch, number: int, count: int) -> Batch:
    """Return every ``count``-th sample, of either kind where a batch is divided.

    Example:
        >>> numbers = torch.arange(7)
        >>> batch = Batch(numbers, numbers, numbers, Division(rows=3, share=0.4))
        >>> shard_of(batch, 0, 2).index, shard_of(batch, 1, 2).index
        (tensor([0, 2, 3, 5]), tensor([1, 4, 6]))
    """
    rows = slice(number, None, count)
    if batch.division is None:
        return batch.take(rows)
    places = torch.arange(len(batch.targets), device=batch.targets.device)
    first, share = batch.division
    kinds = places[:first][rows], places[first:][rows]
    shard = batch.take(torch.cat(kinds))
    return shard._replace(division=Division(len(kinds[0]), share))


def own_rows(samples: int, division: Division | None, shards: Shards) -> Tensor:
    """Return which rows of a batch this rank's shards are made of, in order.

    Example:
        >>> own_rows(6, None, Shards(2))
        tensor([0, 1, 2, 3, 4, 5])
    """
    numbers = torch.arange(samples)
    batch = Batch(numbers, numbers, numbers, division)
    undivided = division is None or division.rows in (0, samples)
    parts = [batch] if undivided else batch.parts()
    found = [shards.of(part, number) for part in parts for number in shards.owned]
    return torch.cat([part.index for part in found if part is not None]).sort().values


def own_batches(
    source: BatchSource,
    rows: Tensor,
    division: Division | None,
    shards: Shards,
    seed: int,
    epoch: int,
) -> Iterator[Batch]:
    """Yield batches of which only this rank's rows were loaded."""
    own = own_rows(rows.shape[1], division, shards)
    batches = source.batches(rows[:, own], seed, epoch)
    for index, batch in zip(rows, batches, strict=True):
        yield spread(batch, own, index)


def spread(batch: Batch, rows: Tensor, index: Tensor) -> Batch:
    """Return a batch whose samples lie in some rows of a larger one."""
    place = rows.to(batch.targets.device, non_blocking=True)

    def spread_out(tensor: Tensor) -> Tensor:
        missing = torch.nan if tensor.is_floating_point() else -tensor.dtype.is_signed
        whole = tensor.new_full((len(index), *tensor.shape[1:]), missing)
        return whole.index_copy_(0, place, tensor)

    whole = index.to(batch.index.device, non_blocking=True)
    return batch.mapped(spread_out)._replace(index=whole)


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
