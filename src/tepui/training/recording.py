"""Capturing a step as a CUDA graph, or saying why it cannot be captured."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch

from tepui.core.seeding import derive
from tepui.data.arrays import Batch
from tepui.training.draws import Draws, drawing_from, rehearsed
from tepui.training.foreign_draws import Watch, foreign_draws, streams_kept
from tepui.training.member import TrainingMember

WARM_UP_STEPS = 4

Result = TypeVar("Result")


class NotCapturable(Exception):  # noqa: N818 - what a step is, in plain words
    """A step that must run eagerly; the message says why."""


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
