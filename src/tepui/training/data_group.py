"""Ranks of ``torch.distributed`` that share the batches of a member."""

from typing import Any, final

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from tepui.training.presence import unbroken
from tepui.training.shards import DataGroup, tree_sum


@final
class DataRanks(DataGroup):
    """The ranks of a process group, summing in the order of a tree.

    Every rank adds up its share of the positions and sends the sums to all: as many
    bytes as a ring's all-reduce, in an order that does not depend on the ring. What
    they agree on goes through host memory, past what a GPU has yet to do.

    Args:
        group: The ranks, where the members' tensors lie; all by default.
        host: The same ranks, reached by gloo; all by default.
    """

    def __init__(self, group: Any = None, host: Any = None) -> None:
        self._group = group
        self._host = host
        self.rank = dist.get_rank(group)
        self.size = dist.get_world_size(group)

    def summed(self, rows: Tensor) -> Tensor:
        """Return the tree's sum of the rows of all ranks, in rank order."""
        count, length = rows.shape
        width = -(-length // self.size)
        padded = F.pad(rows, (0, width * self.size - length))
        sent = padded.view(count, self.size, width).transpose(0, 1).contiguous()
        terms = self._dealt(sent).view(self.size * count, width)
        own = tree_sum(lambda number: terms[number], range(len(terms)))
        return self._dealt(own.repeat(self.size))[:length]

    def _dealt(self, sent: Tensor) -> Tensor:
        """Give every rank its part of what each sends, in rank order."""
        received = torch.empty_like(sent)
        with unbroken():
            dist.all_to_all_single(received, sent, group=self._group)
        return received

    def agreed(self, flag: bool) -> bool:
        """Return whether any rank raised its flag, the same on all of them."""
        flags = torch.tensor(float(flag))
        with unbroken():
            dist.all_reduce(flags, dist.ReduceOp.MAX, group=self._host)
        return bool(flags)

    @property
    def capturable(self) -> bool:
        """Whether its backend works on a stream, as nccl does."""
        return dist.get_backend(self._group) == "nccl"
