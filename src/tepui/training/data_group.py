"""Ranks of ``torch.distributed`` that share the batches of a member."""

from typing import final

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh

from tepui.core.checks import require
from tepui.training.shards import ALONE, DataGroup, tree_sum


def data_ranks(device: torch.device, size: int) -> DataGroup:
    """Return this process's group in a mesh of members and ranks that share data."""
    if size == 1:
        return ALONE
    world = dist.get_world_size() if dist.is_initialized() else 1
    rule = f"divide the number of processes ({world}), which torchrun starts"
    require(world % size == 0, "data_parallel", rule, size)
    shape, names = (world // size, size), ("member", "data")
    mesh = init_device_mesh(device.type, shape, mesh_dim_names=names)
    return DataRanks(mesh["data"].get_group())


@final
class DataRanks(DataGroup):
    """The ranks of a process group, summing in the order of a tree.

    Every rank adds up its share of the positions and sends the sums to all: as many
    bytes as a ring's all-reduce, in an order that does not depend on the ring.
    """

    def __init__(self, group: dist.ProcessGroup | None = None) -> None:
        self._group = group
        self.rank = dist.get_rank(group)
        self.size = dist.get_world_size(group)

    def summed(self, rows: Tensor) -> Tensor:
        """Return the tree's sum of the rows of all ranks, in rank order."""
        count, length = rows.shape
        width = -(-length // self.size)
        padded = F.pad(rows, (0, width * self.size - length))
        sent = padded.view(count, self.size, width).transpose(0, 1).contiguous()
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent, group=self._group)
        terms = received.view(self.size * count, width)
        own = tree_sum(lambda number: terms[number], range(len(terms)))
        total = own.new_empty(self.size * width)
        dist.all_gather_into_tensor(total, own, group=self._group)
        return total[:length]

    @property
    def capturable(self) -> bool:
        """Whether its backend works on a stream, as nccl does."""
        return dist.get_backend(self._group) == "nccl"
