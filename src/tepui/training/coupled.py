"""Steps of members that meet inside the loss."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Self, final

import torch
from torch import Tensor

from tepui.core import foreach
from tepui.core.seeding import derive
from tepui.data.arrays import Batch
from tepui.losses import Loss
from tepui.methods.coupled import ActiveMembers, CoupledBatch, CoupledMethod
from tepui.modules.running import evaluating
from tepui.training.exchange import Exchange, LocalExchange
from tepui.training.member import TrainingMember
from tepui.training.passes import losses_on
from tepui.training.runner import Plan, Runner

BatchPair = tuple[Batch, Batch | None]


class JointLoss(NamedTuple):
    """The losses of one step of coupled members."""

    total: Tensor  # what the active members descended together
    members: Tensor  # the mean loss of each active member alone


class JointGradient(NamedTuple):
    """A joint loss and its gradient."""

    loss: JointLoss
    values: list[list[Tensor]]


@dataclass(frozen=True)
class Party:
    """Who meets in one step, and how."""

    turn: ActiveMembers
    members: Mapping[int, TrainingMember]  # those of the turn that are trained here
    losses: Sequence[Loss]  # of all active members
    exchange: Exchange  # how the others are reached
    size: int  # how many members there are in all
    perturbed: bool = False  # whether a sharpness-aware base moves the active members
    weights: Tensor | None = None  # factors on the losses of the training samples

    @classmethod
    def here(
        cls,
        active: Sequence[TrainingMember],
        observed: Sequence[TrainingMember] = (),
        *,
        perturbed: bool = False,
    ) -> Self:
        """Return members that all are in this process, known by their places."""
        members = dict(enumerate([*active, *observed]))
        places, count = tuple(members), len(active)
        turn = ActiveMembers(places[:count], places[count:], 0.0)
        losses = [member.loss for member in active]
        weights = members[0].sample_weights
        met = turn, members, losses, LocalExchange(), len(members), perturbed, weights
        return cls(*met)

    @property
    def active(self) -> list[TrainingMember]:
        """The members that are trained here and updated by the step."""
        here = self.members
        return [here[index] for index in self.turn.active if index in here]

    def outputs(self, batch: Batch, *, observed: bool) -> Tensor:
        """Return outputs of active members, then of observed ones without gradient."""
        found = {}
        for index in self.turn.active:
            if index in self.members:
                found[index] = self.members[index].outputs(batch)
        beside = self.turn.observed if observed else ()
        for index in beside:
            if index in self.members:
                member = self.members[index]
                with torch.no_grad(), evaluating(member.module):
                    found[index] = member.unseeded_outputs(batch)
        turn = (*self.turn.active, *beside)
        return self.exchange.meet(found, turn, batch.targets, self.size)


@final
class CoupledRunner(Runner):
    """All members on the same batches, coupled inside the loss.

    Members that sit out a step keep weights and optimizer state; the step's cost
    follows the members of its turn alone.
    """

    def run_epoch(self, members: Sequence[TrainingMember], epoch: int) -> None:
        """Run what is left of an epoch; without members there is nothing to do."""
        if members:
            turns = turns_left(self.plan, members, epoch)
            run_steps(self.plan, members, epoch, turns, partial(self._step, members))

    def _step(
        self, members: Sequence[TrainingMember], turn: ActiveMembers, batches: BatchPair
    ) -> JointLoss:
        method, step = coupled_method(members), members[0].step
        party = self._party(method, members, turn)
        for member in party.active:
            member.set_time(self.plan.factor_after(turn.progress), turn.progress)
            member.noise_seed = derive(member.seed, "noise", step)
        return coupled_step(method, party, batches)

    def _party(
        self,
        method: CoupledMethod,
        members: Sequence[TrainingMember],
        turn: ActiveMembers,
    ) -> Party:
        first, size = members[0], len(self.plan.seeds)
        there = {*turn.active, *turn.observed}
        return Party(
            turn,
            {member.index: member for member in members if member.index in there},
            [self.plan.spec.loss_of(index, size) for index in turn.active],
            self.plan.exchange,
            size,
            perturbed=method.base is not None and method.base.perturbs(first),
            weights=first.sample_weights,
        )


def coupled_method(members: Sequence[TrainingMember]) -> CoupledMethod:
    """Return the method that all members share."""
    method = members[0].method
    assert isinstance(method, CoupledMethod)
    return method


def turns_left(
    plan: Plan, members: Sequence[TrainingMember], epoch: int
) -> list[ActiveMembers]:
    """Return who takes part in the steps that are left of an epoch."""
    method, seed, size = coupled_method(members), plan.coupled_seed, len(plan.seeds)
    steps = range(members[0].step, (epoch + 1) * plan.steps)
    return [plan.turn(method, size, seed, step) for step in steps]


def run_steps(
    plan: Plan,
    members: Sequence[TrainingMember],
    epoch: int,
    turns: Sequence[ActiveMembers],
    take: Callable[[ActiveMembers, BatchPair], JointLoss],
) -> None:
    """Take the steps that are left of an epoch, and note their losses.

    Those of each active member, and the joint one, of which there is one tensor.
    """
    first = members[0]
    joint = first.joint_losses
    assert joint is not None, "coupled members share a tensor of joint losses"
    here = {member.index: member for member in members}
    for member in members:
        member.module.train()
        if first.step == epoch * plan.steps:
            member.step_losses.fill_(torch.nan)
    pairs = plan.pairs(plan.coupled_seed, first.step, epoch)
    for turn, batches in zip(turns, pairs, strict=True):
        loss, position = take(turn, batches), first.step % plan.steps
        joint[position] = loss.total
        for index, value in zip(turn.active, loss.members, strict=True):
            if index in here:
                here[index].step_losses[position] = value
        for member in members:
            member.step += 1
        plan.advance(len(members))
        if plan.stopping():
            break
    for member in members:
        member.set_time(*plan.time(max(member.step - 1, 0)))


def coupled_step(method: CoupledMethod, party: Party, batches: BatchPair) -> JointLoss:
    """Update the active members along the gradient of their joint loss.

    With a sharpness-aware base, along the gradient at weights of which each active
    member's are moved along its own part of the gradient.
    """
    loss, values = joint_gradient(method, party, batches)
    base, active = method.base, party.active
    if base is not None and party.perturbed:
        with ExitStack() as stack:
            for member, here in zip(active, values, strict=True):
                offsets = base.offsets(member, here)
                keep = base.update_statistics
                stack.enter_context(member.moved(offsets, update_buffers=keep))
            perturbed = joint_gradient(method, party, batches).values
        values = [base.combined(*pair) for pair in zip(values, perturbed, strict=True)]
    for member, gradient in zip(active, values, strict=True):
        member.take_step(gradient)
    return loss


def joint_gradient(
    method: CoupledMethod, party: Party, batches: BatchPair
) -> JointGradient:
    """Differentiate the joint loss by the parameters of the active members here.

    It is a mean over the active members: times their number, each moves as it would by
    its own loss alone, whatever the optimizer. Buffers, such as BatchNorm's running
    statistics, follow training samples alone: unlabeled ones may be of another kind.
    """
    batch, other = batches
    outputs = party.outputs(batch, observed=other is None)
    losses = torch.stack(
        [
            losses_on(loss, output, batch, party.weights)
            for loss, output in zip(party.losses, outputs, strict=False)
        ]
    )
    active = party.active
    buffers = [b for member in active for b in member.buffers if other is not None]
    before = [buffer.clone() for buffer in buffers]
    beside = None if other is None else party.outputs(other, observed=True)
    total = method.loss(CoupledBatch(outputs, losses, batch.targets, beside))
    parameters = [p for member in active for p in member.parameters]
    flat = iter(
        torch.autograd.grad(
            len(party.turn.active) * total, parameters, materialize_grads=True
        )
        if parameters
        else ()
    )
    foreach.copy_(buffers, before)  # not earlier: the gradient remembers them
    values = [
        member.masked([next(flat) for _ in member.parameters]) for member in active
    ]
    return JointGradient(JointLoss(total.detach(), losses.detach().mean(1)), values)
