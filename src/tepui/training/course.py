"""The course of a run: which members train in which epochs, and from where they begin.

Three courses exist. All members train in all epochs; or the first one trains alone
until members part, and the others go on from its weights; or members train one after
the other, each from where its predecessor ended.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple


class Stretch(NamedTuple):
    """The epochs in which a member trains."""

    first: int
    end: int  # the first epoch in which it does not train any more
    origin: int | None = None  # the member from which it goes on; None begins anew


@dataclass(frozen=True)
class Course:
    """Which members train in which epochs.

    Attributes:
        stretches: One per member, none of which begins before an earlier one.

    Example:
        >>> Course.parting(3, epochs=5, part_at=3).member_epochs()
        9
        >>> [*map(Course.successive(2, epochs=5).active, range(5))]
        [[0], [0], [1], [1], [1]]
    """

    stretches: tuple[Stretch, ...]

    @classmethod
    def parting(cls, members: int, epochs: int, part_at: int = 0) -> "Course":
        """Return that of members which are one until an epoch."""
        origin = 0 if part_at else None
        others = (Stretch(part_at, epochs, origin) for _ in range(1, members))
        return cls((Stretch(0, epochs), *others))

    @classmethod
    def successive(cls, members: int, epochs: int) -> "Course":
        """Return that of members which share the epochs, one after the other."""
        ends = [index * epochs // members for index in range(members + 1)]
        stretches = (
            Stretch(ends[index], ends[index + 1], index - 1)
            for index in range(1, members)
        )
        return cls((Stretch(0, ends[1]), *stretches))

    @cached_property
    def all_begin_anew(self) -> bool:
        """Whether no member goes on from another."""
        return all(stretch.origin is None for stretch in self.stretches)

    def active(self, epoch: int) -> list[int]:
        """Return the members that train in an epoch."""
        numbered = enumerate(self.stretches)
        return [index for index, each in numbered if each.first <= epoch < each.end]

    def following(self, epoch: int) -> list[int]:
        """Return the members that go on from another before an epoch."""
        return [
            index
            for index, stretch in enumerate(self.stretches)
            if stretch.origin is not None and stretch.first == epoch
        ]

    def begun(self, epoch: int) -> int:
        """Return how many members, the first ones, have begun in an epoch."""
        return sum(stretch.first <= epoch for stretch in self.stretches)

    def cycle(self, epoch: int) -> Stretch:
        """Return the epochs over which the schedule runs that an epoch is part of."""
        last = max(stretch.end for stretch in self.stretches) - 1
        return self.stretches[self.active(min(epoch, last))[0]]

    def member_epochs(self, first: int = 0, end: int | None = None) -> int:
        """Return for how many epochs members train, all of them together.

        Args:
            first: The first epoch that counts.
            end: The first one after it that does not count.
        """
        ends = [min(s.end, s.end if end is None else end) for s in self.stretches]
        firsts = [max(stretch.first, first) for stretch in self.stretches]
        return sum(max(0, e - f) for f, e in zip(firsts, ends, strict=True))
