"""Running members side by side on one GPU, each as a captured graph.

A member's whole step, optimizer included, is captured once and replayed on a stream of
its own. Between replays the host only queues copies into the graph's fixed inputs;
streams meet at the end of an epoch. What a step may do is written in
:mod:`tepui.methods.base`.
"""

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.data.arrays import Batch, Inputs
from tepui.training.checkpoint import tensors_of
from tepui.training.member import TrainingMember
from tepui.training.recording import WARM_UP_STEPS, NotCapturable, Recording, record
from tepui.training.runner import EagerRunner, Plan, Runner, member_step

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Captured:
    """A member's step as a graph."""

    recording: Recording[Tensor]
    batch: Batch  # the tensors it reads


@final
class GraphRunner(Runner):
    """Captured steps, all members side by side.

    Members whose steps a graph would not repeat run eagerly, with a warning.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._captured: dict[int, Captured] = {}
        self._captured_for: list[tuple[int, str]] = []
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
        now = [(member.exchanged, member.phase) for member in members]
        if self._eager is None and now != self._captured_for:
            self._captured, self._captured_for = {}, now
            with self.plan.clock.during("capturing", epoch):
                self._capture_all(members, epoch)
        if self._eager is not None:
            self._eager.run_epoch(members, epoch)
            return
        lanes = [
            (member, self._captured[member.index], self.plan.batches(member, epoch))
            for member in members
        ]
        running = True
        while running and not self.plan.stopping():
            running = False
            for member, captured, batches in lanes:
                running |= self._replay(member, captured, batches)
        torch.cuda.synchronize()

    def _replay(
        self, member: TrainingMember, captured: Captured, batches: Iterator[Batch]
    ) -> bool:
        """Queue a member's next step; return whether there was one."""
        recording = captured.recording
        with torch.cuda.stream(recording.stream):
            batch = next(batches, None)
            if batch is None:
                return False
            member.set_time(*self.plan.time(member.step))
            refill(captured.batch, batch)
            recording.replay([member], member.step)
            losses = member.step_losses
            losses[member.step % self.plan.steps].copy_(recording.result)
        member.step += 1
        self.plan.advance(1)
        return True

    def _capture_all(self, members: Sequence[TrainingMember], epoch: int) -> None:
        try:
            for member in members:
                batch = next(self.plan.batches(member, epoch))
                member.module.train()
                member.set_time(*self.plan.time(member.step))
                self._captured[member.index] = capture(member, batch)
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
    warnings.warn(text, stacklevel=3)


def capture(member: TrainingMember, batch: Batch) -> Captured:
    """Capture a member's step, leaving its state as it was."""
    fixed = fixed_batch(batch)
    recording = record(
        lambda: member_step(member, fixed), [member], fixed, taken_back(member)
    )
    return Captured(recording, fixed)


def warm_up(member: TrainingMember, batch: Batch) -> None:
    """Run a few steps on one batch and take back, in place, all that they changed.

    Needs no GPU, so that tests can do on any machine what precedes a capture.
    """
    with taken_back(member):
        for _ in range(WARM_UP_STEPS):
            member_step(member, batch)


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


def fixed_batch(batch: Batch) -> Batch:
    """Return a copy of a batch for a graph to read from, in its fastest format."""
    return batch._replace(
        inputs=_fixed(batch.inputs),
        targets=batch.targets.clone(),
        index=batch.index.clone(),
    )


def refill(fixed: Batch, batch: Batch) -> None:
    """Queue the copies that give a graph another batch of the same shape."""
    expected, given = _shape(fixed), _shape(batch)
    rule = (
        "have the shapes of the batch with which the step was captured "
        f"({expected}); a method whose steps differ in shape must say so in "
        "fixed_shapes"
    )
    require(expected == given, "batch", rule, given)
    for old, new in zip(_tensors(fixed), _tensors(batch), strict=True):
        old.copy_(new, non_blocking=True)


def _shape(batch: Batch) -> dict[str, object]:
    inputs = batch.inputs
    named = {"inputs": inputs} if isinstance(inputs, Tensor) else dict(inputs)
    shapes: dict[str, object] = {
        name: (tuple(tensor.shape), tensor.dtype)
        for name, tensor in {**named, "targets": batch.targets}.items()
    }
    return {**shapes, "division": batch.division}


def _tensors(batch: Batch) -> list[Tensor]:
    inputs = batch.inputs
    parts = [inputs] if isinstance(inputs, Tensor) else list(inputs.values())
    return [*parts, batch.targets, batch.index]


def _fixed(inputs: Inputs) -> Inputs:
    if not isinstance(inputs, Tensor):
        return {name: tensor.clone() for name, tensor in inputs.items()}
    if inputs.ndim == 4:
        return inputs.clone(memory_format=torch.channels_last)
    return inputs.clone()
