"""Capturing a step as a CUDA graph, or saying why it cannot be captured.

An eager step seeds the default generator before each of its passes, so that all see the
same dropout masks. A replayed graph cannot: what it captured of a generator is a state,
whose seed and offset it reads anew at every replay. Each captured pass therefore draws
from a state of its own, which takes the place of the default generator's while the pass
is captured and is seeded with the step's key before every replay.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, final

import torch

from tepui.core.seeding import derive
from tepui.data.arrays import Batch
from tepui.training.foreign_draws import Watch, foreign_draws, streams_kept
from tepui.training.member import TrainingMember
from tepui.training.passes import MemberPasses, rank_seed

WARM_UP_STEPS = 4

Result = TypeVar("Result")


class NotCapturable(Exception):  # noqa: N818 - what a step is, in plain words
    """A step that must run eagerly; the message says why."""


@final
class Draws:
    """The generator states of one member's passes in a step, in their order."""

    def __init__(self, default: torch.Generator) -> None:
        self._default = default
        self._states: list[torch.Generator] = []
        self._ranks: list[int | None] = []  # over whose rows each pass goes
        self._begun = 0

    @property
    def states(self) -> Sequence[torch.Generator]:
        """The states of the passes begun so far."""
        return self._states

    @property
    def drawn(self) -> bool:
        """Whether any pass of an eager step drew from its state."""
        return any(state.get_offset() > 0 for state in self._states)

    def begin_step(self) -> None:
        """Let the next pass be the first again."""
        self._begun = 0

    def begin_pass(self, rank: int | None) -> None:
        """Let what is drawn from now on come from the next pass's state."""
        if self._begun == len(self._states):
            self._states.append(self._default.clone_state().manual_seed(0))
            self._ranks.append(rank)
        self._default.graphsafe_set_state(self._states[self._begun])
        self._begun += 1

    def seed(self, seed: int) -> None:
        """Let every pass of the next replay draw as after this seed."""
        for state, rank in zip(self._states, self._ranks, strict=True):
            state.manual_seed(rank_seed(seed, rank))


@contextmanager
def drawing_from(
    default: torch.Generator, members: Sequence[MemberPasses], draws: Sequence[Draws]
) -> Iterator[None]:
    """Let members draw from their own states inside the block, never from the default.

    The default generator's own state is put aside even where the members have none: a
    capture that fails would leave a state that it found in place unusable.
    """
    kept = default.graphsafe_get_state()
    states = [state for each in draws for state in each.states]
    default.graphsafe_set_state(states[0] if states else default.clone_state())
    for member, each in zip(members, draws, strict=False):
        each.begin_step()
        member.begin_captured_pass = each.begin_pass
    try:
        yield
    finally:
        for member in members:
            member.begin_captured_pass = None
        default.graphsafe_set_state(kept)


def rehearsed(
    default: torch.Generator,
    members: Sequence[MemberPasses],
    step: Callable[[], object],
) -> tuple[Draws, ...]:
    """Run a step eagerly to learn its passes; return none where nothing is drawn."""
    draws = tuple(Draws(default) for _ in members)
    with drawing_from(default, members, draws):
        step()
    return draws if any(each.drawn for each in draws) else ()


@dataclass(frozen=True)
class Recording(Generic[Result]):
    """A step as a graph."""

    stream: torch.cuda.Stream
    graph: torch.cuda.CUDAGraph
    draws: tuple[Draws, ...]  # one per member, or none where the step draws nothing
    result: Result  # the tensors that its losses are written to

    def replay(self, members: Sequence[TrainingMember], step: int) -> None:
        """Queue some members' step on the current stream."""
        for draws, member in zip(self.draws, members, strict=False):
            draws.seed(derive(member.seed, "noise", step))
        self.graph.replay()


def record(
    step: Callable[[], Result],
    members: Sequence[TrainingMember],
    batch: Batch,
    undoing: AbstractContextManager[None],
    stream: torch.cuda.Stream,
) -> Recording[Result]:
    """Capture a step of some members, after a few that warm up for it.

    Args:
        step: The step, of tensors that stay in place.
        members: Those whose passes it takes.
        batch: A batch that it reads.
        undoing: Takes back what steps in its block changed.
        stream: Where it is captured.

    Raises:
        NotCapturable: If a replay would not do what the step does.
    """
    stream.wait_stream(torch.cuda.current_stream())
    try:
        with torch.cuda.stream(stream):
            draws = _warmed_up(step, members, batch, undoing)
    finally:  # before the caller frees or reads what these steps still write
        torch.cuda.synchronize()
    graph, pool = torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle()
    try:
        result = _captured(step, members, draws, graph, stream, pool)
    except Exception as error:
        reason = f"capturing them failed ({_told(error)})"
    else:
        return Recording(stream, graph, draws, result)
    # Out of the handler, where the error held tensors of the graph's memory.
    for member in members:
        member.module.zero_grad()
    _abandon(graph, pool)
    raise NotCapturable(reason)


def _warmed_up(
    step: Callable[[], Result],
    members: Sequence[TrainingMember],
    batch: Batch,
    undoing: AbstractContextManager[None],
) -> tuple[Draws, ...]:
    """Run a step eagerly until it can be captured; return what it draws from."""
    with streams_kept([member.module for member in members]), undoing:
        for member in members:
            member.noise_seed = 0
        step()  # the first one may compile and import
        watch = Watch([member.module for member in members])
        for _ in range(WARM_UP_STEPS - 1):
            step()
        drawn_from = watch.drawn_from()
        if drawn_from is not None:
            raise NotCapturable(f"a step draws from {drawn_from}")
        for member in members:
            reason = foreign_draws(member, batch)
            if reason is not None:
                raise NotCapturable(reason)
        return rehearsed(_default_generator(), members, step)


def _captured(
    step: Callable[[], Result],
    members: Sequence[TrainingMember],
    draws: Sequence[Draws],
    graph: torch.cuda.CUDAGraph,
    stream: torch.cuda.Stream,
    pool: Any,
) -> Result:
    for member in members:
        member.noise_seed = None
    with ExitStack() as stack:
        # A capture that fails leaves its stream the current one.
        stack.enter_context(torch.cuda.stream(stream))
        stack.enter_context(drawing_from(_default_generator(), members, draws))
        for each in draws:
            for state in each.states:
                graph.register_generator_state(state)
        stack.enter_context(torch.cuda.graph(graph, pool, stream))
        return step()


def _abandon(graph: torch.cuda.CUDAGraph, pool: Any) -> None:
    """Do what torch before 2.12 leaves undone where a capture fails.

    Without it, torch takes the capture to last: nothing more could be captured in this
    process and no unused memory be given back.
    """
    device = torch.cuda.current_device()
    graph.reset()
    # The first refuses where it was done; the second must then not be done again.
    with suppress(RuntimeError):
        torch._C._cuda_endAllocateToPool(device, pool)
        torch._C._cuda_releasePool(device, pool)
    torch.cuda.synchronize()


def _default_generator() -> torch.Generator:
    return torch.cuda.default_generators[torch.cuda.current_device()]


def _told(error: BaseException) -> str:
    """Return what went wrong first; ending a broken capture raises once more."""
    while error.__context__ is not None:
        error = error.__context__
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"
