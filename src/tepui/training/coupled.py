"""Steps of members that meet inside the loss."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple, final

import torch
from torch import Tensor

from tepui.core.seeding import derive
from tepui.data.arrays import Batch
from tepui.methods.coupled import CoupledBatch, CoupledMethod
from tepui.modules.running import evaluating
from tepui.training.member import TrainingMember
from tepui.training.runner import Runner

BatchPair = tuple[Batch, Batch | None]


class JointLoss(NamedTuple):
    """The losses of one step of coupled members."""

    total: Tensor  # what the active members descended together
    members: Tensor  # the mean loss of each active member alone


class JointGradient(NamedTuple):
    """A joint loss and its gradient."""

    loss: JointLoss
    values: list[list[Tensor]]


@final
class CoupledRunner(Runner):
    """All members on the same batches, coupled inside the loss.

    Members that sit out a step keep weights and optimizer state; the step's cost
    follows the members of its turn alone.
    """

    def run_epoch(self, members: Sequence[TrainingMember], epoch: int) -> None:
        """Run what is left of an epoch."""
        seed = coupled_seed(members)
        prepare_losses(members, epoch * self.plan.steps)
        for member in members:
            member.module.train()
        for batches in self.plan.pairs(seed, members[0].step, epoch):
            self._step(members, batches, seed)
            self.plan.advance(len(members))
            if self.plan.stopping():
                break
        for member in members:
            member.set_time(*self.plan.time(max(member.step - 1, 0)))

    def _step(
        self, members: Sequence[TrainingMember], batches: BatchPair, seed: int
    ) -> None:
        method, step = coupled_method(members), members[0].step
        turn = self.plan.turn(method, len(members), seed, step)
        active = [members[index] for index in turn.active]
        observed = [members[index] for index in turn.observed]
        for member in active:
            member.set_time(self.plan.factor_after(turn.progress), turn.progress)
            member.noise_seed = derive(member.seed, "noise", step)
        loss = coupled_step(method, active, observed, batches)
        record_losses(active, loss, step % self.plan.steps)
        for member in members:
            member.step += 1


def coupled_method(members: Sequence[TrainingMember]) -> CoupledMethod:
    """Return the method that all members share."""
    method = members[0].method
    assert isinstance(method, CoupledMethod)
    return method


def coupled_seed(members: Sequence[TrainingMember]) -> int:
    """Return what the draws that coupled members share derive from."""
    return derive(*(member.seed for member in members), "coupled")


def prepare_losses(members: Sequence[TrainingMember], first_step: int) -> None:
    """Clear the losses of the last epoch, unless this epoch has begun."""
    if members[0].step == first_step:
        for member in members:
            member.step_losses.fill_(torch.nan)


def record_losses(
    active: Sequence[TrainingMember], loss: JointLoss, position: int
) -> None:
    """Note the losses of a step: that of each active member, and the joint one."""
    joint = active[0].joint_losses
    assert joint is not None, "coupled members share a tensor of joint losses"
    joint[position] = loss.total
    for member, value in zip(active, loss.members, strict=True):
        member.step_losses[position] = value


def coupled_step(
    method: CoupledMethod,
    active: Sequence[TrainingMember],
    observed: Sequence[TrainingMember],
    batches: BatchPair,
) -> JointLoss:
    """Update the active members along the gradient of their joint loss.

    With a sharpness-aware base, along the gradient at weights of which each active
    member's are moved along its own part of the gradient.
    """
    loss, values = joint_gradient(method, active, observed, batches)
    base = method.base
    if base is not None and base.perturbs(active[0]):
        with ExitStack() as stack:
            for member, here in zip(active, values, strict=True):
                offsets = base.offsets(member, here)
                keep = base.update_statistics
                stack.enter_context(member.moved(offsets, update_buffers=keep))
            perturbed = joint_gradient(method, active, observed, batches).values
        values = [base.combined(*pair) for pair in zip(values, perturbed, strict=True)]
    for member, gradient in zip(active, values, strict=True):
        member.take_step(gradient)
    return loss


def joint_gradient(
    method: CoupledMethod,
    active: Sequence[TrainingMember],
    observed: Sequence[TrainingMember],
    batches: BatchPair,
) -> JointGradient:
    """Differentiate the joint loss by the parameters of every active member."""
    batch, other = batches
    outputs = _outputs(active, observed if other is None else (), batch)
    losses = torch.stack(
        [
            member.losses_of(output, batch.targets)
            for member, output in zip(active, outputs, strict=False)
        ]
    )
    beside = None if other is None else _outputs(active, observed, other)
    total = method.loss(CoupledBatch(outputs, losses, batch.targets, beside))
    parameters = [p for member in active for p in member.parameters]
    flat = iter(torch.autograd.grad(total, parameters, materialize_grads=True))
    values = [
        member.masked([next(flat) for _ in member.parameters]) for member in active
    ]
    return JointGradient(JointLoss(total.detach(), losses.detach().mean(1)), values)


def _outputs(
    active: Sequence[TrainingMember], observed: Sequence[TrainingMember], batch: Batch
) -> Tensor:
    """Return outputs of active members, then of observed ones without gradient."""
    outputs = [member.outputs(batch) for member in active]
    for member in observed:
        with torch.no_grad(), evaluating(member.module):
            outputs.append(member.unseeded_outputs(batch))
    return torch.stack(outputs)
