"""What of a batch a rank has to load: the rows of its own shards.

The batch keeps its size, so that all else is as in one process. Rows of other ranks'
shards hold NaN, or -1 in whole numbers that have a sign: whoever reads them notices.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from tepui.data.arrays import Batch, Division
from tepui.training.batches import BatchSource
from tepui.training.shards import Shards


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
