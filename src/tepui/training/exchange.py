"""How the processes of a run reach each other, wherever their members train.

Training asks for nothing else about other processes, so that sequential, parallel
and distributed running share one code. All processes ask in the same order.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any, TypeVar, final

import torch
from torch import Tensor, distributed

from tepui.data.arrays import Division

T = TypeVar("T")


GO_ON = (
    "start the run again with resume=True (--resume) to go on from its last "
    "checkpoint, with any number of ranks"
)


class RankLost(RuntimeError):  # noqa: N818 - what happened, in plain words
    """Another process of the run is gone.

    Args:
        reason: Which, and how one knows; the message adds how to go on.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}; {GO_ON}")
        self.reason = reason


@contextmanager
def unbroken() -> Iterator[None]:
    """Say in plain words that the connection to the other ranks broke."""
    try:
        yield
    except RankLost:
        raise
    except RuntimeError as error:
        raise RankLost(f"the connection between ranks broke ({error})") from error


# BatchNorm cannot normalize a single sample.
FEWEST_SAMPLES = 2


@final
class StepRanks:
    """The ranks that share the batches of a member: each takes its rows of every batch.

    Losses and gradients are means over all rows: those of the ranks are averaged, each
    weighted by its number of rows. BatchNorm normalizes a rank's rows, as in
    ``DistributedDataParallel``, and what passes do to buffers is averaged alike. Mixed
    are the samples of one rank, and each rank has dropout masks of its own. Without
    these, results are those of one process within rounding. What ranks agree on goes
    through host memory, past what a GPU has yet to do.

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
