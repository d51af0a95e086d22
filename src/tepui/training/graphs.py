"""Running members side by side on one GPU, each as a captured graph.

A member's whole step, from the cutting of its batch to the optimizer, is captured once
and replayed on a stream of its own; streams meet at the end of an epoch. What a step
may do is written in :mod:`tepui.methods.base`.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import final

import torch

from tepui.core.warning import warn
from tepui.training.feeds import Feed, feed_of
from tepui.training.member import TrainingMember
from tepui.training.member_state import tensors_of
from tepui.training.recording import NotCapturable, Recording, record
from tepui.training.runner import EagerRunner, Plan, Runner, member_step
from tepui.training.shards import ALONE
from tepui.training.streams import lane

log = logging.getLogger(__name__)


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
        self._eager: EagerRunner | None = None

    def run_epoch(self, members: Sequence[TrainingMember], epoch: int) -> None:
        """Run what is left of an epoch."""
        last = (epoch + 1) * self.plan.steps
        if all(member.step == last for member in members):
            return
        with torch.cuda.device(members[0].device):
            self._run(members, epoch)

    def _run(self, members: Sequence[TrainingMember], epoch: int) -> None:
        # What members received changes their steps, and so does another phase.
        now = [(m.index, m.exchanged, m.phase) for m in members]
        if self._eager is None and now != self._captured_for:
            self.release()
            self._captured_for = now
            with self.plan.clock.during("capturing", epoch):
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
        self._captured, self._captured_for = {}, []
        torch.cuda.empty_cache()

    def _capture_all(self, members: Sequence[TrainingMember], epoch: int) -> None:
        try:
            for member in members:
                member.module.train()
                feed = feed_of(self.plan, member, epoch)
                self._captured[member.index] = capture(member, feed)
        except NotCapturable as reason:
            warn_of_eager_steps(reason)
            self._captured, self._eager = {}, EagerRunner(self.plan)
            return
        log.info(
            "captured the steps of %d members before epoch %d", len(members), epoch
        )


def warn_of_eager_steps(reason: NotCapturable) -> None:
    """Say why steps are not captured."""
    text = f"members' steps run eagerly instead of as captured graphs: {reason}"
    warn(text)


def capture(member: TrainingMember, feed: Feed) -> Captured:
    """Capture a member's step, leaving its state as it was."""
    # Collectives of two streams could meet in another order on another rank.
    stream = lane(member.device, member.index if member.shards.group is ALONE else 0)
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
