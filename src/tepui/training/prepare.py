"""From what was asked to members that are ready to train."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.optim import Optimizer

from tepui.core.checks import require
from tepui.core.members import for_member
from tepui.ensembles.ensemble import Ensemble
from tepui.methods.coupled import CoupledMethod
from tepui.models.base import Model
from tepui.optim import require_step_alone
from tepui.training.batches import steps_per_epoch
from tepui.training.checks import RunData
from tepui.training.coupled import CoupledRunner, SlotRunner, have_same_structure
from tepui.training.exchange import Exchange
from tepui.training.graphs import GraphRunner
from tepui.training.history import Callbacks, Clock
from tepui.training.member import TrainingMember
from tepui.training.numerics import Numerics
from tepui.training.optimizer import capturable
from tepui.training.passes import Body
from tepui.training.run_folder import Checkpoint, RunFolder
from tepui.training.runner import EagerRunner, Plan, Runner
from tepui.training.spec import ExecutionSpec, RunnerName, TrainingSpec

# A compiled step of ResNet-18 without kernels of its own saves 0.3 ms on an H200 (of
# SAM 0.7 ms) and costs 14 s to build.
STEPS_WORTH_COMPILING = 50_000


def to_device(module: nn.Module, device: torch.device) -> None:
    """Move a module, in the memory format that is fastest there."""
    module.to(device)
    if device.type == "cuda":
        module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


class Order(NamedTuple):
    """What was asked for, checked."""

    ensemble: Ensemble
    data: RunData
    spec: TrainingSpec
    execution: ExecutionSpec
    numerics: Numerics
    exchange: Exchange
    folder: RunFolder | None
    resume: bool
    origin: Checkpoint | None
    config: dict[str, Any]  # what the run folder records
    callbacks: Callbacks
    clock: Clock

    @property
    def owned(self) -> Sequence[int]:
        """The members that this process trains."""
        return self.exchange.owned(len(self.ensemble))

    @property
    def body(self) -> Body | None:
        """What all members share and none trains, if they are heads."""
        shared = self.ensemble.extractor
        return None if shared is None else Body(shared, self.numerics.autocast)

    def trained(self, index: int) -> nn.Module:
        """Return what is trained of a member: its head, where they share a body."""
        member = self.ensemble.members[index]
        return member if self.body is None else member.get_submodule("head")

    @property
    def agreed_on(self) -> dict[str, Any]:
        """What processes of one run must agree on, beside what is recorded of it."""
        saved = None if self.folder is None else self.folder.load_checkpoint()
        return {
            "checkpoint": None if saved is None else saved.generation,
            "checkpoint_every": self.execution.checkpoint_every,
            "data_parallel": self.execution.data_parallel,
            "stop_after": self.execution.stop_after,
        }

    def place(self, members: Iterable[int]) -> None:
        """Bring members to where they wait or are trained."""
        offload, device = self.execution.offload, self.numerics.device
        for index in members:
            place = torch.device("cpu") if offload else device
            to_device(self.ensemble.members[index], place)


def compiles(
    compile: bool | None, numerics: Numerics, steps: int, modules: Iterable[nn.Module]
) -> bool:
    """Return whether forward passes are compiled."""
    if compile is not None:
        return compile
    on_cuda = numerics.device.type == "cuda"
    gains = any(not (isinstance(m, Model) and m.fused) for m in modules)
    return on_cuda and gains and steps >= STEPS_WORTH_COMPILING


def members_of(order: Order, samples: int) -> list[TrainingMember]:
    """Prepare the members that this process trains, with their state begun."""
    ensemble, spec, exchange = order.ensemble, order.spec, order.exchange
    numerics, weights = order.numerics, order.data.weights
    steps = steps_per_epoch(samples, spec.batch_size)
    all_steps = steps * spec.course(len(ensemble)).member_epochs()
    modules = [order.trained(index) for index in range(len(ensemble))]
    compiled = compiles(order.execution.compile, numerics, all_steps, modules)
    ranks = exchange.data_group(numerics.device)
    coupled = isinstance(spec.method, CoupledMethod)
    clones = clones_among(modules) if coupled else []
    rule = "start different, since members that share all batches would stay equal"
    require(not clones, f"members {clones}", rule, "the weights of another")
    members = []
    for index in exchange.owned(len(ensemble)):
        module = modules[index]
        to_device(module, numerics.device)
        parameters = [p for p in module.parameters() if p.requires_grad]
        rule = "have trainable parameters"
        require(len(parameters) > 0, f"member {index}", rule, "none")
        optimizer = spec.optimizer_of(index, len(ensemble))(parameters)
        rule, built = "build a torch optimizer", isinstance(optimizer, Optimizer)
        require(built, "optimizer", rule, type(optimizer).__name__)
        require_step_alone("optimizer", optimizer)
        loss = spec.loss_of(index, len(ensemble))
        bound = spec.clip_norm
        bound = getattr(loss, "clip_norm", None) if bound is None else bound
        member = TrainingMember(
            module,
            index=index,
            seed=ensemble.seeds[index],
            method=for_member(spec.method, index, len(ensemble)),
            optimizer=optimizer,
            loss=loss,
            samples=samples,
            steps=steps,
            numerics=numerics,
            compiled=compiled,
            accumulate=spec.accumulate,
            clip_norm=bound,
            average=spec.method.average,
            ema=spec.ema,
            offloaded=order.execution.offload,
            ranks=ranks,
            sample_weights=None if weights is None else weights.to(numerics.device),
        )
        member.offload()
        members.append(member)
    if coupled and members:
        joint = torch.zeros_like(members[0].step_losses)  # one tensor of joint losses
        for member in members:
            member.joint_losses = joint
    for member in members:
        member.begin()
    return members


def clones_among(modules: Sequence[nn.Module]) -> list[int]:
    """Return which modules equal an earlier one."""
    return [
        number
        for number, module in enumerate(modules)
        if any(_equal(module, earlier) for earlier in modules[:number])
    ]


def _equal(first: nn.Module, second: nn.Module) -> bool:
    one, other = (
        [p for p in module.parameters() if p.requires_grad]
        for module in (first, second)
    )
    same = len(one) == len(other)
    return same and all(
        a.equal(b.to(a.device)) for a, b in zip(one, other, strict=True)
    )


def runner_of(
    name: RunnerName, plan: Plan, members: Sequence[TrainingMember]
) -> Runner:
    """Return what runs the steps of an epoch; without members, nothing is captured."""
    coupled = isinstance(plan.spec.method, CoupledMethod)
    obstacles = obstacles_to_capture(members, len(plan.seeds)) if members else []
    rule = f'be "auto" or "eager", since {" and ".join(obstacles)}'
    require(name != "graph" or not obstacles, "runner", rule, name)
    if members and name != "eager" and not obstacles:
        return SlotRunner(plan) if coupled else GraphRunner(plan)
    return CoupledRunner(plan) if coupled else EagerRunner(plan)


def obstacles_to_capture(
    members: Sequence[TrainingMember], everywhere: int
) -> list[str]:
    """Return in words why the members' steps cannot be captured as graphs."""
    first = members[0]
    coupled = isinstance(first.method, CoupledMethod)
    fits = all(capturable(member.optimizer) for member in members)
    scattered = coupled and len(members) < everywhere
    reasons = {
        "members are not on a GPU": first.device.type != "cuda",
        "their optimizer cannot be captured": not fits,
        "their method changes its shapes": not first.method.fixed_shapes,
        "they are offloaded": first.offloaded,
        "ranks share their batches by gloo": not (
            first.ranks is None or first.ranks.capturable
        ),
        "they are coupled and differ": coupled and not have_same_structure(members),
        "they are coupled and in several processes": scattered,
    }
    return [reason for reason, holds in reasons.items() if holds]
