"""How the processes of a run reach each other, wherever their members train.

Training asks for nothing else about other processes, so that sequential, parallel
and distributed running share one code. All processes ask in the same order.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar, final

import torch
from torch import Tensor

from tepui.training.data_parallel import StepRanks

T = TypeVar("T")


class Exchange(ABC):
    """Which members this process trains, and what the others have to say."""

    @property
    @abstractmethod
    def writer(self) -> bool:
        """Whether this process writes what the run has in common; one of them does."""

    @abstractmethod
    def owned(self, members: int) -> Sequence[int]:
        """Return the members that this process trains.

        Args:
            members: How many members the ensemble has.

        Returns:
            Their indices, ascending; none where there are more processes than members.
        """

    @abstractmethod
    def everywhere(self, value: T) -> list[T]:
        """Return a value of every process, once all of them have come here.

        Args:
            value: What this process has to say.

        Returns:
            One value per process, the writer's first, in the same order everywhere.
        """

    @abstractmethod
    def share(self, tensors: Sequence[Tensor], member: int) -> None:
        """Overwrite a member's tensors by those of the process that trains it.

        Args:
            tensors: The member's tensors here, of the same shapes everywhere.
            member: Its index.
        """

    @abstractmethod
    def meet(
        self,
        outputs: Mapping[int, Tensor],
        turn: Sequence[int],
        targets: Tensor,
        members: int,
    ) -> Tensor:
        """Return the outputs of all members of a turn, within a step.

        Processes without members stay away.

        Args:
            outputs: ``(samples, outputs)`` of the members that this process trains, by
                index.
            turn: The members that take part, in the order of the result.
            targets: Those of the batch, which tell how many samples there are.
            members: How many members the ensemble has.

        Returns:
            ``(members, samples, outputs)``; what comes from elsewhere has no gradient.
        """

    def party(self, members: int, device: torch.device) -> StepRanks | None:
        """Return the processes that meet within the steps of coupled members.

        Args:
            members: How many members the ensemble has.
            device: Where they are trained.

        Returns:
            Those that have members; None if this one meets no other.
        """
        return None

    @property
    def sharing(self) -> int:
        """How many processes share the batches of each member."""
        return 1

    def data_group(self, device: torch.device) -> StepRanks | None:
        """Return the processes that share the batches of this process's members.

        Args:
            device: Where the members are trained.

        Returns:
            The group; None if this process has whole batches.
        """
        return None

    @contextmanager
    def attending(self) -> Iterator[None]:
        """Let others know if this process leaves the block by an error."""
        yield

    @final
    def collect(self, values: Mapping[int, T]) -> list[T]:
        """Return a value of every member.

        Args:
            values: Those of this process's members, by index.

        Returns:
            Those of all members, in member order.
        """
        found = {
            index: value
            for part in self.everywhere(values)
            for index, value in part.items()
        }
        return [found[index] for index in sorted(found)]

    @final
    def agreed(self, flag: bool) -> bool:
        """Return whether any process raised its flag.

        Args:
            flag: Whether this one does.

        Returns:
            The same everywhere.
        """
        return any(self.everywhere(flag))

    @final
    def told(self, value: T) -> T:
        """Return the writer's value.

        Args:
            value: What this process would say.

        Returns:
            The same everywhere.
        """
        return self.everywhere(value)[0]

    @final
    def wait(self) -> None:
        """Return once all processes have come here."""
        self.everywhere(None)

    @final
    @contextmanager
    def writer_first(self) -> Iterator[None]:
        """Let the writer run the block before all others."""
        if not self.writer:
            self.wait()
        yield
        if self.writer:
            self.wait()


@final
class LocalExchange(Exchange):
    """All members train in this process."""

    @property
    def writer(self) -> bool:
        """There is no other process to write."""
        return True

    def owned(self, members: int) -> Sequence[int]:
        """Return all members."""
        return range(members)

    def everywhere(self, value: T) -> list[T]:
        """Return the value."""
        return [value]

    def share(self, tensors: Sequence[Tensor], member: int) -> None:
        """Leave the tensors alone: the member is trained here."""

    def meet(
        self,
        outputs: Mapping[int, Tensor],
        turn: Sequence[int],
        targets: Tensor,
        members: int,
    ) -> Tensor:
        """Stack the outputs."""
        return torch.stack([outputs[index] for index in turn])
