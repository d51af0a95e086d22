"""Running members side by side on one GPU, each as a captured graph.

A member's whole step, from the cutting of its batch to the optimizer, is captured once
and replayed on a stream of its own; streams meet at the end of an epoch. What a step
may do is written in :mod:`tepui.methods.base`.

A replayed graph does the same work on the same tensors. One that finds its batch, its
learning rate and the place of its loss by a counter on the device needs nothing from
the host but the launch, so that many small members share a GPU without waiting for it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar, final

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.core.seeding import derive
from tepui.core.warning import warn
from tepui.data.arrays import Batch
from tepui.training.batches import TensorSource
from tepui.training.foreign_draws import Watch, foreign_draws, streams_kept
from tepui.training.member import TrainingMember, tensors_of
from tepui.training.passes import MemberPasses, lane, rank_seed
from tepui.training.runner import EagerRunner, Plan, Runner, member_step

WARM_UP_STEPS = 4

Result = TypeVar("Result")


class NotCapturable(Exception):  # noqa: N818 - what a step is, in plain words
    """A step that must run eagerly; the message says why."""


@final
class Draws:
    """The generator states of one member's passes in a step, in their order.

    An eager step seeds the default generator before each of its passes, so that all see
    the same dropout masks. A replayed graph cannot: what it captured of a generator is
    a state, whose seed and offset it reads anew at every replay. Each captured pass
    therefore draws from a state of its own, which takes the place of the default
    generator's while the pass is captured and is seeded with the step's key before
    every replay.
    """

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


class Feed(ABC):
    """What one member's captured step reads and writes."""

    def __init__(self, plan: Plan, member: TrainingMember) -> None:
        self.plan = plan
        self.member = member
        self._last = 0  # the step at which the epoch ends
        # Which step of the epoch is next, and the learning rates and progress of all.
        self._position = torch.zeros(1, dtype=torch.int64, device=member.device)
        width = len(member.peak_rates) + 1
        self._times = member.learning_rate.new_zeros(plan.steps, width)

    def begin(self, epoch: int) -> None:
        """Load what is left of an epoch."""
        first, self._last = self.member.step, (epoch + 1) * self.plan.steps
        times = [self.plan.time(step) for step in range(first, self._last)]
        rows = [(*self.member.rates(factor), progress) for factor, progress in times]
        place = first % self.plan.steps
        self._times[place:] = torch.tensor(rows, dtype=self._times.dtype)
        self._position.fill_(place)

    def set_time(self) -> None:
        """Set learning rate and progress; part of the captured step."""
        row = self._times.index_select(0, self._position)[0]
        self.member.set_time_from(row)

    def record(self, loss: Tensor) -> None:
        """Keep a loss and count the step; part of the captured step."""
        self.member.step_losses.index_copy_(0, self._position, loss.detach().view(1))
        self._position.add_(1).remainder_(self.plan.steps)

    @abstractmethod
    def batch(self) -> Batch:
        """Return the step's batch; part of the captured step."""

    @abstractmethod
    def advance(self) -> bool:
        """Get the next step's batch ready; return whether there is a step left."""


@final
class TableFeed(Feed):
    """Batches of data that lie on the device, cut there by a table of indices."""

    def __init__(
        self, plan: Plan, member: TrainingMember, source: TensorSource, epoch: int
    ) -> None:
        super().__init__(plan, member)
        self._source = source
        rows, self._division = plan.member_rows(member, epoch)
        self._rows = self._position.new_zeros(plan.steps, rows.shape[1])
        self._draws = source.draws(member.seed, 0, member.device)

    def begin(self, epoch: int) -> None:
        """Load what is left of an epoch."""
        super().begin(epoch)
        place = self.member.step % self.plan.steps
        self._rows[place:], _ = self.plan.member_rows(self.member, epoch)
        draws = self._source.draws(self.member.seed, epoch, self.member.device)
        self._draws.copy_(draws)

    def batch(self) -> Batch:
        """Cut, augment and normalize the step's batch."""
        index = self._rows.index_select(0, self._position)[0]
        batch = in_fastest_format(self._source.cut(index, self._draws))
        return batch._replace(division=self._division)

    def advance(self) -> bool:
        """Return whether there is a step left."""
        return self.member.step < self._last


class LoadedBatches:
    """Batches of members that see the same, copied into tensors that stay in place."""

    def __init__(
        self, plan: Plan, members: Sequence[TrainingMember], epoch: int
    ) -> None:
        self._plan = plan
        self._members = members
        self.begin(epoch)
        self.fixed = fixed_batch(next(self._batches))

    def begin(self, epoch: int) -> None:
        """Begin what is left of an epoch."""
        behind = min(self._members, key=lambda member: member.step)
        self.step = behind.step - 1  # that of the batch in its place
        self._batches = self._plan.batches(behind, epoch)

    def advance(self, lanes: Sequence[torch.cuda.Stream] = ()) -> None:
        """Copy the next batch into its place, between the steps on some streams.

        It is loaded on the current one, beside these steps.
        """
        self.step += 1
        batch = next(self._batches, None)
        if batch is None:
            return
        for stream in lanes:
            torch.cuda.current_stream().wait_stream(stream)
        refill(self.fixed, batch)
        for stream in lanes:
            stream.wait_stream(torch.cuda.current_stream())


@final
class LoadedFeed(Feed):
    """Batches that it loads itself, or that are loaded for all who share them."""

    def __init__(
        self, plan: Plan, member: TrainingMember, batches: LoadedBatches, *, alone: bool
    ) -> None:
        super().__init__(plan, member)
        self._batches = batches
        self._alone = alone

    def begin(self, epoch: int) -> None:
        """Load what is left of an epoch."""
        super().begin(epoch)
        self._batches.begin(epoch)  # once more for each who shares them

    def batch(self) -> Batch:
        """Return the tensors that are filled before every step."""
        return self._batches.fixed

    def advance(self) -> bool:
        """Return whether the next step's batch is there; who is ahead waits for it."""
        if self._alone:
            self._batches.advance()
        return self._batches.step == self.member.step < self._last


def feed_of(
    plan: Plan, member: TrainingMember, epoch: int, shared: LoadedBatches | None = None
) -> Feed:
    """Return the fastest feed for a plan's data, at the beginning of an epoch."""
    feed: Feed
    source = plan.source_of(member)
    size, raw = min(plan.spec.batch_size, plan.source.samples), plan.body is None
    if raw and isinstance(source, TensorSource) and source.at_once(size) == 1:
        feed = TableFeed(plan, member, source, epoch)
    else:
        batches = shared or LoadedBatches(plan, [member], epoch)
        feed = LoadedFeed(plan, member, batches, alone=shared is None)
    feed.begin(epoch)
    return feed


def fixed_batch(batch: Batch) -> Batch:
    """Return a copy of a batch for a graph to read from, in its fastest format."""
    return in_fastest_format(batch.mapped(Tensor.clone))


def refill(fixed: Batch, batch: Batch) -> None:
    """Queue the copies that give a graph another batch of the same shape."""
    pairs = [*zip(_tensors(fixed), _tensors(batch), strict=True)]
    fits = all(old.shape == new.shape and old.dtype == new.dtype for old, new in pairs)
    rule = "have the shapes of the batch with which the step was captured; a method "
    got = f"{tuple(batch.targets.shape)} targets, divided by {batch.division}"
    fits = fits and fixed.division == batch.division
    require(fits, "batch", f"{rule}that varies them must say so in fixed_shapes", got)
    for old, new in pairs:
        old.copy_(new, non_blocking=True)


def in_fastest_format(batch: Batch) -> Batch:
    """Lay out images by pixel, as convolutions on a GPU read them."""
    if not isinstance(batch.inputs, Tensor) or batch.inputs.ndim != 4:
        return batch
    inputs, *views = (
        images.contiguous(memory_format=torch.channels_last)
        for images in (batch.inputs, *batch.views)
    )
    return batch._replace(inputs=inputs, views=tuple(views))


def _tensors(batch: Batch) -> list[Tensor]:
    inputs = batch.inputs
    parts = [inputs] if isinstance(inputs, Tensor) else list(inputs.values())
    return [*parts, batch.targets, batch.index, *(batch.partners or ()), *batch.views]


@dataclass(frozen=True)
class Captured:
    """A member's step as a graph."""

    recording: Recording[None]
    feed: Feed  # what it reads and writes


@final
class GraphRunner(Runner):
    """Captured steps, all members side by side.

    Members whose steps a graph would not repeat run eagerly, with a warning.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._captured: dict[int, Captured] = {}
        self._captured_for: list[tuple[int, int, str]] = []
        # What heads see, with the streams on which their steps read it.
        self._shared: list[tuple[LoadedBatches, list[torch.cuda.Stream]]] = []
        self._eager: EagerRunner | None = None

    def run_epoch(self, members: Sequence[TrainingMember], epoch: int) -> None:
        """Run what is left of an epoch."""
        last = (epoch + 1) * self.plan.steps
        left = [member for member in members if member.step < last]
        if left:
            with torch.cuda.device(members[0].device):
                self._run(left, epoch)

    def _run(self, members: Sequence[TrainingMember], epoch: int) -> None:
        # What members received changes their steps, and so does another phase.
        now = [(m.index, m.exchanged, m.phase) for m in members]
        if self._eager is None and now != self._captured_for:
            self.release()
            self._captured_for = now
            with self.plan.clock.during("capturing"):
                self._capture_all(members, epoch)
        if self._eager is not None:
            self._eager.run_epoch(members, epoch)
            return
        lanes = [(member, self._captured[member.index]) for member in members]
        for _, captured in lanes:
            with torch.cuda.stream(captured.recording.stream):
                captured.feed.begin(epoch)
        running = True
        while running and not self.plan.stopping():
            running = False
            for shared, streams in self._shared:
                shared.advance(streams)
            for member, captured in lanes:
                running |= self._replay(member, captured)
        torch.cuda.synchronize()

    def _replay(self, member: TrainingMember, captured: Captured) -> bool:
        """Queue a member's next step; return whether there was one."""
        with torch.cuda.stream(captured.recording.stream):
            if not captured.feed.advance():
                return False
            captured.recording.replay([member], member.step)
        member.step += 1
        self.plan.advance(1)
        return True

    def release(self) -> None:
        """Give back the memory of all graphs."""
        self._captured, self._captured_for, self._shared = {}, [], []
        torch.cuda.empty_cache()

    def _capture_all(self, members: Sequence[TrainingMember], epoch: int) -> None:
        try:
            for group in self.plan.groups(members):
                self._capture(group, epoch)
        except NotCapturable as reason:
            warn_of_eager_steps(reason)
            self._captured, self._shared = {}, []
            self._eager = EagerRunner(self.plan)

    def _capture(self, group: Sequence[TrainingMember], epoch: int) -> None:
        """Capture the steps of members that see the same batches."""
        shared = LoadedBatches(self.plan, group, epoch) if len(group) > 1 else None
        for member in group:
            member.module.train()
            feed = feed_of(self.plan, member, epoch, shared)
            self._captured[member.index] = capture(member, feed)
        if shared is not None:
            streams = [self._captured[m.index].recording.stream for m in group]
            self._shared.append((shared, streams))


def warn_of_eager_steps(reason: NotCapturable) -> None:
    """Say why steps are not captured."""
    warn(f"members' steps run eagerly instead of as captured graphs: {reason}")


def capture(member: TrainingMember, feed: Feed) -> Captured:
    """Capture a member's step, leaving its state as it was."""
    # Collectives of two streams could meet in another order on another rank.
    stream = lane(member.device, member.index if member.ranks is None else 0)
    step = partial(fed_step, member, feed)
    recording = record(step, [member], feed.batch(), taken_back(member), stream)
    return Captured(recording, feed)


def fed_step(member: TrainingMember, feed: Feed) -> None:
    """Update a member with what its feed has for it. All of this is captured."""
    feed.set_time()
    feed.record(member_step(member, feed.batch()))


@contextmanager
def taken_back(member: TrainingMember) -> Iterator[None]:
    """Take back in place, after the block, all that steps in it changed."""
    before = {name: tensor.clone() for name, tensor in tensors_of(member).items()}
    try:
        yield
    finally:
        with torch.no_grad():
            for name, tensor in tensors_of(member).items():
                if name in before:
                    tensor.copy_(before[name])
                else:
                    # Made by the optimizer in its first step; its beginning is zero.
                    assert name.startswith("optimizer/"), name
                    tensor.zero_()
