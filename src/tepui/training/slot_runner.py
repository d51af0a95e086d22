"""Running coupled members through slots, on a GPU as one captured graph."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import final

import torch

from tepui.core.seeding import derive
from tepui.methods.coupled import ActiveMembers, CoupledMethod
from tepui.training.coupled import (
    BatchPair,
    CoupledRunner,
    JointLoss,
    coupled_method,
    prepare_losses,
    record_losses,
)
from tepui.training.feeds import fixed_batch, refill
from tepui.training.graphs import warn_of_eager_steps
from tepui.training.member import TrainingMember
from tepui.training.recording import WARM_UP_STEPS, NotCapturable, Recording, record
from tepui.training.runner import Plan, Runner
from tepui.training.slots import Slots
from tepui.training.streams import lane

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CapturedStep:
    """A step of whichever members the slots' index names, as a graph."""

    recording: Recording[JointLoss]
    batches: BatchPair

    def replay(
        self, batches: BatchPair, active: Sequence[TrainingMember], step: int
    ) -> JointLoss:
        """Queue one step on the current stream; return its losses."""
        for fixed, new in zip(self.batches, batches, strict=True):
            if fixed is not None and new is not None:
                refill(fixed, new)
        self.recording.replay(active, step)
        return self.recording.result


@final
class SlotRunner(Runner):
    """Coupled members in slots; on a GPU their step is a captured graph.

    Members hold their tensors between epochs; the stacks do so within one. Members
    whose steps a graph would not repeat run eagerly, with a warning.
    """

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self._slots: Slots | None = None
        self._phase = ""
        self._captured: CapturedStep | None = None
        self._eager: CoupledRunner | None = None

    def run_epoch(self, members: Sequence[TrainingMember], epoch: int) -> None:
        """Run what is left of an epoch."""
        first, last = members[0].step, (epoch + 1) * self.plan.steps
        if first == last:
            return
        method, seed = coupled_method(members), self.plan.coupled_seed
        turns = [
            self.plan.turn(method, len(members), seed, step)
            for step in range(first, last)
        ]
        for member in members:
            member.module.train()
        if self._eager is None and self._phase != members[0].phase:
            self._phase, self._slots = members[0].phase, None
            batches = next(self.plan.pairs(seed, first, epoch))
            with self.plan.clock.during("capturing", epoch):
                self._prepare(members, method, turns[0], batches)
        if self._slots is None:
            assert self._eager is not None
            self._eager.run_epoch(members, epoch)
            return
        self._slots.check_turns(turns)
        prepare_losses(members, epoch * self.plan.steps)
        pairs = self.plan.pairs(seed, first, epoch)
        self._slots.load(members)
        updated = self._run(self._slots, members, turns, pairs)
        self._slots.store(members, updated)
        for member in members:
            member.set_time(*self.plan.time(member.step - 1))

    def _run(
        self,
        slots: Slots,
        members: Sequence[TrainingMember],
        turns: Sequence[ActiveMembers],
        pairs: Iterator[BatchPair],
    ) -> set[int]:
        """Run the steps of some turns; return the members they updated."""
        method = coupled_method(members)
        updated: set[int] = set()
        chosen = torch.tensor([[*turn.active, *turn.observed] for turn in turns])
        on_device = chosen.to(members[0].device)
        for turn, index, batches in zip(turns, on_device, pairs, strict=True):
            step = members[0].step
            slots.index.copy_(index)
            slots.set_time(self.plan.factor_after(turn.progress), turn.progress)
            active = [members[row] for row in turn.active]
            if self._captured is None:
                slots.set_noise([derive(m.seed, "noise", step) for m in active])
                loss = slots.step(method, batches)
            else:
                loss = self._captured.replay(batches, active, step)
            record_losses(members, turn, loss, step % self.plan.steps)
            updated.update(turn.active)
            for member in members:
                member.step += 1
            self.plan.advance(len(members))
            if self.plan.stopping():
                break
        return updated

    def _prepare(
        self,
        members: Sequence[TrainingMember],
        method: CoupledMethod,
        turn: ActiveMembers,
        batches: BatchPair,
    ) -> None:
        """Make the slots and capture their step; elsewhere only warm up for it."""
        slots, device = Slots(members, turn), members[0].device
        slots.load(members)
        slots.index.copy_(torch.tensor([*turn.active, *turn.observed]))
        slots.set_time(self.plan.factor_after(turn.progress), turn.progress)
        if device.type == "cuda":
            try:
                with torch.cuda.device(device):
                    self._captured = captured(slots, method, batches)
            except NotCapturable as reason:
                warn_of_eager_steps(reason)
                self._eager = CoupledRunner(self.plan)
                return
            log.info("captured one step for all %d members", len(members))
        else:
            slots.set_noise([0] * len(slots.active))
            warm_up(slots, method, batches)
        self._slots = slots


def captured(slots: Slots, method: CoupledMethod, batches: BatchPair) -> CapturedStep:
    """Capture a step of the slots, which must be loaded again after it."""
    batch, other = batches
    fixed = fixed_batch(batch), None if other is None else fixed_batch(other)
    stream = lane(slots.index.device, 0)
    recording = record(
        lambda: slots.step(method, fixed), slots.active, fixed[0], nullcontext(), stream
    )
    return CapturedStep(recording, fixed)


def warm_up(slots: Slots, method: CoupledMethod, batches: BatchPair) -> None:
    """Run a few steps on one batch; loading the slots again takes them back."""
    for _ in range(WARM_UP_STEPS):
        slots.step(method, batches)
