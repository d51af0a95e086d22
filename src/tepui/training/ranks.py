"""Members over the processes that torchrun starts, through ``torch.distributed``.

Rank ``r`` of ``R`` trains the members ``r, r + R, …``; rank 0 writes. Where ranks share
the batches of a member, each so many consecutive ones count as one, a row of a mesh of
members × data. What steps need of each other goes from device to device (gloo on CPUs,
nccl on GPUs), all else through host memory by gloo.
"""

import atexit
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cache
from itertools import chain, count
from typing import Any, TypeVar, final

import torch
from torch import Tensor, distributed
from torch._C._distributed_c10d import PrefixStore, Store
from torch.distributed import ProcessGroup
from torch.distributed.rendezvous import rendezvous
from torch.utils._pytree import tree_map_only

from tepui.core.checks import require
from tepui.core.processes import Place, is_over, mark, place_of_environment
from tepui.core.storage import raw_bytes
from tepui.training.exchange import (
    Exchange,
    LocalExchange,
    RankLost,
    StepRanks,
    unbroken,
)

T = TypeVar("T")

# Seconds without a sign of life after which a rank counts as lost, also at the start.
TIMEOUT_VARIABLE = "TEPUI_RANK_TIMEOUT"
TIMEOUT = 300.0
# torchrun keeps one store for all its attempts (--max-restarts), with what ranks of an
# earlier one left there.
ATTEMPT = "TORCHELASTIC_RESTART_COUNT"

_made = count()


BEAT = 1.0  # seconds between two beats
LOOK = 0.25  # seconds between two looks at the others while waiting
LONGEST_PAUSE = 0.01  # seconds between two questions whether all have come


@final
class Presence:
    """A rank's beat, and what it knows of the others', told by the store they share.

    Ranks may have to wait for each other for as long as a member's epoch takes, so that
    a collective which takes long says nothing. Every rank therefore leaves a beat in
    the store every second, and waits before a collective until all have come; one whose
    beat stops, whose process is gone or who said that it leaves is not waited for.
    """

    def __init__(self, store: Store, rank: int, size: int, timeout: float) -> None:
        self._store = store
        self._rank = rank
        self._size = size
        self._timeout = timeout
        self._meetings = 0
        self._run = 0
        self._beats: dict[int, tuple[int, float]] = {}  # and when they last changed
        store.set(f"process/{rank}", mark())
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()
        # A thread that is in the store when the interpreter ends would abort it.
        atexit.register(self.end)

    def end(self) -> None:
        """Beat no more."""
        self._ended.set()
        self._thread.join()

    def wait_for_all(self) -> None:
        """Return once all ranks have come here; raise if one never will."""
        self._meetings += 1
        meeting = f"arrived/{self._meetings}"
        with unbroken():
            arrived = self._store.add(meeting, 1)
            pause, looked = LONGEST_PAUSE / 20, time.monotonic()
            self._beats.clear()
            while arrived < self._size:
                time.sleep(pause)
                pause = min(1.5 * pause, LONGEST_PAUSE)
                lost = None
                if time.monotonic() - looked > LOOK:
                    lost, looked = self._lost(), time.monotonic()
                arrived = self._store.add(meeting, 0)
                # Who came may have gone on, and even have ended, since.
                if lost is not None and arrived < self._size:
                    raise RankLost(lost)

    @contextmanager
    def attending(self) -> Iterator[None]:
        """Tell the others if the block ends in an error."""
        self._run += 1
        try:
            yield
        except BaseException as error:
            known = error.reason if isinstance(error, RankLost) else error
            text = f"{type(error).__name__}: {known}"
            with suppress(RuntimeError):  # of a store that is gone too
                self._store.set(f"left/{self._run}/{self._rank}", text)
            raise

    def _lost(self) -> str | None:
        """Return who is gone, and how one knows; None if all others are there."""
        for rank in range(self._size):
            reason = None if rank == self._rank else self._why_lost(rank)
            if reason is not None:
                return f"rank {rank} {reason}"
        return None

    def _why_lost(self, rank: int) -> str | None:
        left, process = f"left/{self._run}/{rank}", f"process/{rank}"
        if self._store.check([left]):
            return f"left the run with {self._store.get(left).decode()}"
        known = self._store.check([process])
        if known and is_over(self._store.get(process).decode()):
            return "has died"
        now, beat = time.monotonic(), self._store.add(f"beat/{rank}", 0)
        last, since = self._beats.get(rank, (-1, now))
        if beat != last:
            self._beats[rank] = beat, now
        elif now - since > self._timeout:
            return f"gave no sign of life for {self._timeout:g} s"
        return None

    def _beat(self) -> None:
        while not self._ended.wait(min(BEAT, self._timeout / 4)):
            try:
                self._store.add(f"beat/{self._rank}", 1)
            except RuntimeError:
                return  # the store is gone, and with it the run


@final
class Ranks(Exchange):
    """The processes of a group, each with every so-manyth member.

    Args:
        group: The processes among which members are dealt; all by default.
        sharing: How many consecutive processes share the batches of each member.

    Raises:
        ValueError: If ``sharing`` does not divide the number of processes.
    """

    def __init__(self, group: ProcessGroup | None = None, sharing: int = 1) -> None:
        size = distributed.get_world_size(group)
        rule = f"divide the number of processes ({size})"
        require(size % sharing == 0, "data_parallel", rule, sharing)
        self._sharing = sharing
        self._steps: dict[tuple[range, str], StepRanks] = {}
        self._timeout = timeout_of_environment()
        self._processes = distributed.get_process_group_ranks(group)
        self._place = Place(distributed.get_rank(group), len(self._processes))
        self._group = self._new_group(self._processes, "gloo")
        self._forms: dict[int, tuple[torch.Size, torch.dtype]] = {}
        # Not the traces of ranks that were made before, by all processes alike.
        processes = "-".join(map(str, self._processes))
        name = f"tepui/{next(_made)}/{processes}/{sharing}"
        store = PrefixStore(name, distributed.distributed_c10d._get_default_store())
        self._presence = Presence(store, *self._place, self._timeout)

    @property
    def writer(self) -> bool:
        """Whether this is rank 0."""
        return self._place.rank == 0

    def owned(self, members: int) -> Sequence[int]:
        """Return every so-manyth member, from the rank on."""
        row, rows = (place // self._sharing for place in self._place)
        return range(row, members, rows)

    @property
    def sharing(self) -> int:
        """How many processes share the batches of each member."""
        return self._sharing

    def data_group(self, device: torch.device) -> StepRanks | None:
        """Return this rank's row of the mesh."""
        if self._sharing == 1:
            return None
        first = self._place.rank // self._sharing * self._sharing
        return self._together(range(first, first + self._sharing), device)

    def party(self, members: int, device: torch.device) -> StepRanks | None:
        """Return the first ranks, which have members."""
        attending = range(min(self._place.size, members))
        here = self._place.rank in attending
        return self._together(attending, device) if here else None

    def _together(self, ranks: range, device: torch.device) -> StepRanks:
        """Return some ranks, made when they are first asked for."""
        backend = "nccl" if device.type == "cuda" else "gloo"
        if (ranks, backend) not in self._steps:
            row = self._processes[ranks.start : ranks.stop]
            groups = self._new_group(row, backend), self._new_group(row, "gloo")
            self._steps[ranks, backend] = StepRanks(*groups)
        return self._steps[ranks, backend]

    def everywhere(self, value: T) -> list[T]:
        """Gather a value of every rank; its tensors arrive on the CPU."""
        self._presence.wait_for_all()
        values: list[Any] = [None] * self._place.size
        sent = tree_map_only(Tensor, _alone, value)
        with unbroken():
            distributed.all_gather_object(values, sent, group=self._group)
        return values

    def share(self, tensors: Sequence[Tensor], member: int) -> None:
        """Send a member's tensors from its rank to all others, as bytes."""
        rows = self._place.size // self._sharing
        owner = self._processes[member % rows * self._sharing]
        self._presence.wait_for_all()
        for tensor in tensors:
            message = raw_bytes(tensor)
            with unbroken():
                distributed.broadcast(message, owner, group=self._group)
            with torch.no_grad():
                tensor.copy_(message.view(tensor.dtype).view(tensor.shape))

    def meet(
        self,
        outputs: Mapping[int, Tensor],
        turn: Sequence[int],
        targets: Tensor,
        members: int,
    ) -> Tensor:
        """Gather the outputs of a turn from the ranks that have members."""
        party = self.party(members, targets.device)
        assert party is not None
        shape, dtype = self._form(outputs, len(targets), party.group)
        by_rank = [
            [index for index in turn if index % self._place.size == rank]
            for rank in range(party.size)
        ]
        places = max(map(len, by_rank))
        sent = torch.zeros((places, *shape), dtype=dtype, device=targets.device)
        for row, index in zip(sent, by_rank[party.rank], strict=False):
            row.copy_(outputs[index].detach())
        received = [torch.empty_like(sent) for _ in by_rank]
        with unbroken():
            distributed.all_gather(received, sent, group=party.group)
        found = {
            index: row
            for rows, indices in zip(received, by_rank, strict=True)
            for index, row in zip(indices, rows, strict=False)
        }
        return torch.stack([outputs.get(index, found[index]) for index in turn])

    @contextmanager
    def attending(self) -> Iterator[None]:
        """Let other ranks know if this one leaves the block by an error."""
        self._forms.clear()
        with self._presence.attending():
            yield

    def _form(
        self, outputs: Mapping[int, Tensor], samples: int, group: Any
    ) -> tuple[torch.Size, torch.dtype]:
        """Return shape and type of all outputs, also of those that lie elsewhere."""
        if samples not in self._forms:
            own = [(tensor.shape, tensor.dtype) for tensor in outputs.values()]
            forms: list[Any] = [None] * distributed.get_world_size(group)
            with unbroken():
                distributed.all_gather_object(forms, own, group=group)
            self._forms[samples] = next(chain.from_iterable(forms))
        return self._forms[samples]

    def _new_group(self, processes: Sequence[int], backend: str) -> Any:
        with unbroken():
            return distributed.new_group(
                list(processes),
                timeout=timedelta(seconds=self._timeout),
                backend=backend,
                use_local_synchronization=True,
            )


def _alone(tensor: Tensor) -> Tensor:
    """Return a copy on the CPU, since a view would take all of its memory along."""
    return tensor.detach().to("cpu", copy=True)


def exchange_here(sharing: int = 1) -> Exchange:
    """Return how this process reaches others: as a rank of many, or not at all.

    Args:
        sharing: How many processes share the batches of each member.

    Returns:
        The ranks of the process group that there is, or that torchrun's environment
        describes; without either, an exchange for this process alone.

    Raises:
        ValueError: If the environment is set in part, or does not fit.
    """
    if not distributed.is_initialized() and place_of_environment().size > 1:
        _join()
    if not distributed.is_initialized() or distributed.get_world_size() == 1:
        return LocalExchange()
    return _ranks_of(distributed.group.WORLD, sharing)


@cache
def _ranks_of(group: ProcessGroup, sharing: int) -> Ranks:
    """Return the ranks of a group; one object, since making it takes all of them."""
    with unbroken():
        return Ranks(group, sharing)


def _join() -> None:
    """Join the process group that the environment describes; leave it at exit."""
    if torch.cuda.is_available():  # "cuda" then means the GPU of this rank
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    seconds = timeout_of_environment()
    timeout = timedelta(seconds=seconds)
    try:
        store, rank, size = next(rendezvous("env://", timeout=timeout))
        distributed.init_process_group(
            backend,
            store=PrefixStore(f"tepui/{os.environ.get(ATTEMPT)}", store),
            rank=rank,
            world_size=size,
            timeout=timeout,
        )
    except RuntimeError as error:
        late = f"not all ranks came within {seconds:g} s ({TIMEOUT_VARIABLE})"
        raise RankLost(f"{late}: {error}") from error
    atexit.register(distributed.destroy_process_group)


def timeout_of_environment() -> float:
    """Return after how many seconds without a sign of life a rank counts as lost."""
    return float(os.environ.get(TIMEOUT_VARIABLE, TIMEOUT))
