"""How members learn what other members published, wherever those train.

Training asks for nothing else about other processes, so that sequential, parallel
and distributed running share one code.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import final

from torch import Tensor


class Exchange(ABC):
    """Which members this process trains, and what the others published."""

    @abstractmethod
    def owned(self, members: int) -> range:
        """Return the members that this process trains.

        Args:
            members: How many members the ensemble has.

        Returns:
            Their indices.
        """

    @abstractmethod
    def gather(self, published: Mapping[int, Tensor], members: int) -> list[Tensor]:
        """Return what all members published, in member order.

        Args:
            published: What this process's members published, by index.
            members: How many members the ensemble has.

        Returns:
            One tensor per member.
        """


@final
class LocalExchange(Exchange):
    """All members train in this process."""

    def owned(self, members: int) -> range:
        """Return all members."""
        return range(members)

    def gather(self, published: Mapping[int, Tensor], members: int) -> list[Tensor]:
        """Return the tensors in member order."""
        return [published[index] for index in range(members)]
