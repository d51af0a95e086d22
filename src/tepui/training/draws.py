"""Random draws inside captured steps.

An eager step seeds the default generator before each of its passes, so that all see the
same dropout masks. A replayed graph cannot: what it captured of a generator is a state,
whose seed and offset it reads anew at every replay. Each captured pass therefore draws
from a state of its own, which takes the place of the default generator's while the pass
is captured and is seeded with the step's key before every replay.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import final

import torch

from tepui.training.passes import MemberPasses, shard_seed


@final
class Draws:
    """The generator states of one member's passes in a step, in their order."""

    def __init__(self, default: torch.Generator) -> None:
        self._default = default
        self._states: list[torch.Generator] = []
        self._shards: list[int | None] = []  # over which each pass goes
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

    def begin_pass(self, shard: int | None) -> None:
        """Let what is drawn from now on come from the next pass's state."""
        if self._begun == len(self._states):
            self._states.append(self._default.clone_state().manual_seed(0))
            self._shards.append(shard)
        self._default.graphsafe_set_state(self._states[self._begun])
        self._begun += 1

    def seed(self, seed: int) -> None:
        """Let every pass of the next replay draw as after this seed."""
        for state, shard in zip(self._states, self._shards, strict=True):
            state.manual_seed(shard_seed(seed, shard))


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
