"""Running the steps of an epoch, one after the other, on any device."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import final

import torch
from torch import Tensor

from tepui.core.seeding import derive, generator
from tepui.data.arrays import Batch
from tepui.methods.base import ActiveMembers, CoupledBatch, CoupledMethod, MemberMethod
from tepui.modules.running import evaluating
from tepui.training.batches import (
    Source,
    index_stream,
    steps_per_epoch,
    stratified_stream,
)
from tepui.training.learner import Learner
from tepui.training.schedule import Schedule


@dataclass(frozen=True)
class Plan:
    """What does not change during a run.

    Attributes:
        source: The training data.
        unlabeled: Unlabeled data that come beside them, if any.
        batch_size: Samples per step.
        epochs: Length of the run.
        schedule: Learning rate over time.
        advance: Called with the number of member-steps just done.
        stopping: Whether the run was asked to stop.
    """

    source: Source
    unlabeled: Source | None
    batch_size: int
    epochs: int
    schedule: Schedule
    advance: Callable[[int], None]
    stopping: Callable[[], bool]

    @property
    def steps(self) -> int:
        """Steps per epoch."""
        return steps_per_epoch(self.source.samples, self.batch_size)

    def rows(self, seed: int, step: int, epoch: int) -> Tensor:
        """Return the indices of the steps left in an epoch, ``(steps, batch)``."""
        left = (epoch + 1) * self.steps - step
        return index_stream(self.source.samples, self.batch_size, seed, step, left)

    def rows_of(self, learner: Learner, epoch: int) -> Tensor:
        """Return the indices of the steps a learner has left in an epoch.

        After an exchange that divided the data, each part is a stream of its own that
        begins with that exchange.
        """
        strata = learner.member.strata
        if strata is None:
            return self.rows(learner.seed, learner.step, epoch)
        return stratified_stream(
            strata,
            min(self.batch_size, self.source.samples),
            derive(learner.seed, "since", learner.exchanged),
            learner.step - learner.exchanged * self.steps,
            (epoch + 1) * self.steps - learner.step,
        )

    def pairs(
        self, seed: int, step: int, epoch: int
    ) -> Iterator[tuple[Batch, Batch | None]]:
        """Yield the batches that coupled members have left in an epoch.

        Each comes with an unlabeled one, where there are such data.
        """
        labeled = self.source.batches(self.rows(seed, step, epoch), seed, epoch)
        if self.unlabeled is None:
            return zip(labeled, repeat(None), strict=False)
        own, left = derive(seed, "unlabeled"), (epoch + 1) * self.steps - step
        rows = index_stream(self.unlabeled.samples, self.batch_size, own, step, left)
        return zip(labeled, self.unlabeled.batches(rows, own, epoch), strict=True)

    def turn(
        self, method: CoupledMethod, members: int, seed: int, step: int
    ) -> ActiveMembers:
        """Return which coupled members take part in a step."""
        _, progress = self.time(step)
        return method.turn(members, progress, generator(seed, "active", step))

    def time(self, step: int) -> tuple[float, float]:
        """Return the learning rate's factor at a step and the share of the run done."""
        return self.factor(step), step / (self.steps * self.epochs)

    def factor_after(self, progress: float) -> float:
        """Return the learning rate's factor after a share of the run."""
        return self.factor(int(progress * self.steps * self.epochs))

    def factor(self, step: int) -> float:
        """Return the learning rate's factor at a step."""
        return self.schedule.factor(step, self.steps, self.epochs)


class Runner(ABC):
    """Runs the steps of an epoch for all learners."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    @abstractmethod
    def run_epoch(self, learners: Sequence[Learner], epoch: int) -> None:
        """Run what is left of an epoch; return early when asked to stop."""


@final
class EagerRunner(Runner):
    """Members in turn, an epoch each, operation by operation."""

    def run_epoch(self, learners: Sequence[Learner], epoch: int) -> None:
        """Run what is left of an epoch."""
        for learner in learners:
            with learner.present():
                self._run_member(learner, epoch)
            if self.plan.stopping():
                return

    def _run_member(self, learner: Learner, epoch: int) -> None:
        rows = self.plan.rows_of(learner, epoch)
        learner.member.module.train()
        for batch in self.plan.source.batches(rows, learner.seed, epoch):
            self._step(learner, batch)
            self.plan.advance(1)
            if self.plan.stopping():
                return

    def _step(self, learner: Learner, batch: Batch) -> None:
        method = learner.method
        assert isinstance(method, MemberMethod)
        learner.set_time(*self.plan.time(learner.step))
        learner.member.noise_seed = derive(learner.seed, "noise", learner.step)
        loss, gradients = method.gradient(learner.member, batch)
        learner.update(gradients)
        method.after_update(learner.member)
        learner.losses[learner.step % self.plan.steps] = loss
        learner.step += 1


@final
class CoupledRunner(Runner):
    """All members on the same batches, coupled inside the loss.

    Members that sit out a step keep weights and optimizer state; the step's cost
    follows the members of its turn alone.
    """

    def run_epoch(self, learners: Sequence[Learner], epoch: int) -> None:
        """Run what is left of an epoch."""
        seed = coupled_seed(learners)
        for learner in learners:
            learner.member.module.train()
        for batch, other in self.plan.pairs(seed, learners[0].step, epoch):
            self._step(learners, batch, other, seed)
            self.plan.advance(len(learners))
            if self.plan.stopping():
                break
        for learner in learners:
            learner.set_time(*self.plan.time(max(learner.step - 1, 0)))

    def _step(
        self, learners: Sequence[Learner], batch: Batch, other: Batch | None, seed: int
    ) -> None:
        method, step = learners[0].method, learners[0].step
        assert isinstance(method, CoupledMethod)
        turn = self.plan.turn(method, len(learners), seed, step)
        active = [learners[index] for index in turn.active]
        observed = [learners[index] for index in turn.observed]
        for learner in active:
            learner.set_time(self.plan.factor_after(turn.progress), turn.progress)
            learner.member.noise_seed = derive(learner.seed, "noise", step)
        total = coupled_step(method, active, observed, batch, other)
        learners[0].losses[step % self.plan.steps] = total
        for learner in learners:
            learner.step += 1


def coupled_seed(learners: Sequence[Learner]) -> int:
    """Return what the draws that coupled members share derive from."""
    return derive(*(learner.seed for learner in learners), "coupled")


def coupled_step(
    method: CoupledMethod,
    active: Sequence[Learner],
    observed: Sequence[Learner],
    batch: Batch,
    other: Batch | None,
) -> Tensor:
    """Update the active members along the gradient of their joint loss."""
    outputs = _outputs(active, observed if other is None else (), batch)
    losses = [
        learner.member.losses_of(output, batch.targets)
        for learner, output in zip(active, outputs, strict=False)
    ]
    beside = None if other is None else _outputs(active, observed, other)
    total = method.loss(
        CoupledBatch(outputs, torch.stack(losses), batch.targets, beside)
    )
    parameters = [p for learner in active for p in learner.member.parameters]
    own = iter(torch.autograd.grad(total, parameters, materialize_grads=True))
    for learner in active:
        values = [next(own) for _ in learner.member.parameters]
        learner.update(learner.member.masked(values))
    return total.detach()


def _outputs(
    active: Sequence[Learner], observed: Sequence[Learner], batch: Batch
) -> Tensor:
    """Return outputs of active members, then of observed ones without gradient."""
    found = [learner.member.seeded_outputs(batch) for learner in active]
    for learner in observed:
        with torch.no_grad(), evaluating(learner.member.module):
            found.append(learner.member.outputs(batch))
    return torch.stack(found)
