"""Shards: every batch in parts, summed in one order, whoever computes them.

The gradient of a batch is the sum of its shards' gradients, added as a balanced tree
over the shards' numbers. Ranks compute contiguous blocks of shards and only move data,
so that the sum has the same bits for any number of them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, final

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.data.arrays import Batch, Division
from tepui.optim import Perturbation

BatchNormPolicy = Literal["shard", "synchronized"]

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
