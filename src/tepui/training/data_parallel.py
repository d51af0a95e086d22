"""Ranks that share the batches of a member: each takes its rows of every batch.

Losses and gradients are means over all rows: those of the ranks are averaged, each
weighted by its number of rows. BatchNorm normalizes a rank's rows, as in
``DistributedDataParallel``, and what passes do to buffers is averaged alike. Mixed are
the samples of one rank, and each rank has dropout masks of its own. Without these,
results are those of one process within rounding.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Any, final

import torch
from torch import Tensor, distributed

from tepui.data.arrays import Division
from tepui.training.presence import unbroken

# BatchNorm cannot normalize a single sample.
FEWEST_SAMPLES = 2


@final
class StepRanks:
    """The ranks of a process group, which go through steps together.

    What they agree on goes through host memory, past what a GPU has yet to do.

    Args:
        group: The ranks, where the members' tensors lie; all by default.
        host: The same ranks, reached by gloo; all by default.
    """

    def __init__(self, group: Any = None, host: Any = None) -> None:
        self.group = group
        self._host = host
        self.rank = distributed.get_rank(group)
        self.size = distributed.get_world_size(group)

    def sum_(self, tensor: Tensor) -> None:
        """Overwrite a tensor by its sum over all ranks, the same bits on each."""
        with unbroken():
            distributed.all_reduce(tensor, group=self.group)

    def agreed(self, flag: bool) -> bool:
        """Return whether any rank raised its flag, the same on all of them."""
        flags = torch.tensor(float(flag))
        with unbroken():
            distributed.all_reduce(flags, distributed.ReduceOp.MAX, group=self._host)
        return bool(flags)

    @property
    def capturable(self) -> bool:
        """Whether its backend works on a stream, as nccl does."""
        return distributed.get_backend(self.group) == "nccl"


def own_rows(
    rows: Tensor, division: Division | None, rank: int, ranks: int
) -> tuple[Tensor, Division | None]:
    """Return a rank's part of each batch of indices, of either kind its own.

    Example:
        >>> own_rows(torch.arange(7)[None], Division(rows=3, share=0.4), 0, 2)
        (tensor([[0, 2, 3, 5]]), Division(rows=2, share=0.4))
    """
    kinds = rows.tensor_split([0 if division is None else division.rows], dim=1)
    own = [kind[:, rank::ranks] for kind in kinds]
    if division is not None:
        division = division._replace(rows=own[0].shape[1])
    return torch.cat(own, dim=1), division


def averaged(ranks: StepRanks, rows: int, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return tensors' means over ranks, each weighted by its number of rows.

    They travel together, as one flat tensor of a type that holds the widest of them.
    """
    kinds = (tensor.dtype for tensor in tensors)
    wide = reduce(torch.promote_types, kinds, torch.float32)
    parts = [tensor.detach().reshape(-1).to(wide) for tensor in tensors]
    flat = torch.cat([*parts, parts[0].new_ones(1)]) * rows
    ranks.sum_(flat)
    means = (flat[:-1] / flat[-1]).split([len(part) for part in parts])
    return [
        mean.view(tensor.shape).to(tensor.dtype)
        for mean, tensor in zip(means, tensors, strict=True)
    ]
