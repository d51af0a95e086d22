"""From what was asked to members that are ready to train."""

import logging
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import nn

from tepui.core.checks import require
from tepui.core.per_member import for_member
from tepui.core.seeding import generator
from tepui.ensembles.ensemble import Ensemble
from tepui.losses import CrossEntropy
from tepui.methods.coupled import CoupledMethod
from tepui.models.base import Model
from tepui.training.batches import steps_per_epoch
from tepui.training.coupled import CoupledRunner
from tepui.training.graphs import GraphRunner
from tepui.training.member import TrainingMember
from tepui.training.numerics import Numerics
from tepui.training.optimizer import SGD, AdamW, capturable
from tepui.training.runner import EagerRunner, Plan, Runner
from tepui.training.shards import ALONE, DataGroup, Shards
from tepui.training.slot_runner import SlotRunner
from tepui.training.slots import have_same_structure
from tepui.training.spec import ExecutionSpec, RunnerName, TrainingSpec

log = logging.getLogger(__name__)

# A compiled step of ResNet-18 on an H200 saves 0.3 ms (of SAM 0.7 ms) and costs 14 s to
# build.
STEPS_WORTH_COMPILING = 50_000

# Noise that tells equal coupled members apart, relative to their head's weights.
SEPARATION = 0.01


def to_device(module: nn.Module, device: torch.device) -> None:
    """Move a module, in the memory format that is fastest there."""
    module.to(device)
    if device.type == "cuda":
        module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def compiles(
    compile: bool | None, numerics: Numerics, steps: int, modules: Iterable[nn.Module]
) -> bool:
    """Return whether forward passes are compiled."""
    if compile is not None:
        return compile
    on_cuda = numerics.device.type == "cuda"
    gains = any(not (isinstance(m, Model) and m.fused) for m in modules)
    return on_cuda and gains and steps >= STEPS_WORTH_COMPILING


def _resolved(spec: Any, index: int, members: int) -> Any:
    """Return one member's optimizer or loss, with its own values where they differ."""
    differs = isinstance(spec, SGD | AdamW | CrossEntropy)
    return for_member(spec, index, members) if differs else spec


def members_of(
    ensemble: Ensemble,
    owned: range,
    spec: TrainingSpec,
    execution: ExecutionSpec,
    numerics: Numerics,
    samples: int,
    group: DataGroup = ALONE,
) -> list[TrainingMember]:
    """Prepare the members that this process trains, with their state begun."""
    steps = steps_per_epoch(samples, spec.batch_size)
    all_steps = steps * spec.epochs * len(ensemble)
    compiled = compiles(execution.compile, numerics, all_steps, ensemble.members)
    shards = Shards(spec.virtual_shards, spec.perturbation, spec.batch_norm, group)
    # A compiled module would not notice that its layers normalize together.
    compiled &= shards.batch_norm == "shard"
    members = []
    for index in owned:
        module = ensemble.members[index]
        to_device(module, numerics.device)
        parameters = [p for p in module.parameters() if p.requires_grad]
        rule = "have trainable parameters"
        require(len(parameters) > 0, f"member {index}", rule, "none")
        member = TrainingMember(
            module,
            index=index,
            seed=ensemble.seeds[index],
            method=for_member(spec.method, index, len(ensemble)),
            optimizer=_resolved(spec.optimizer, index, len(ensemble))(parameters),
            loss=_resolved(spec.loss, index, len(ensemble)),
            samples=samples,
            steps=steps,
            numerics=numerics,
            compiled=compiled,
            accumulate=spec.accumulate,
            clip_norm=spec.clip_norm,
            average=spec.average,
            offload_device=torch.device("cpu") if execution.offload else None,
            shards=shards,
        )
        member.offload()
        members.append(member)
    if isinstance(spec.method, CoupledMethod):
        couple(members)
    for member in members:
        member.begin()
    return members


def couple(members: Sequence[TrainingMember]) -> None:
    """Make equal members differ, and give all of them one tensor of joint losses."""
    break_symmetry(members)
    joint = torch.zeros_like(members[0].step_losses)
    for member in members:
        member.joint_losses = joint


def break_symmetry(members: Sequence[TrainingMember]) -> None:
    """Add noise to the heads of equal members, with a warning.

    Members that start equal and share all batches have equal gradients under any
    symmetric loss, so that nothing could ever tell them apart.
    """
    clones = [
        member
        for number, member in enumerate(members)
        if any(_equal(member, earlier) for earlier in members[:number])
    ]
    if not clones:
        return
    for member in clones:
        head = [p for p in member.parameters if p.ndim > 1][-1]
        stream = generator(member.seed, "separation")
        noise = torch.randn(head.shape, generator=stream).to(head)
        with torch.no_grad():
            head.add_(noise * SEPARATION * head.std(correction=0))
    warnings.warn(
        f"members {[member.index for member in clones]} start equal to another and "
        "share all batches, so they could never become different: their heads get "
        f"noise of {SEPARATION:.0%} of their weights' spread",
        stacklevel=3,
    )


def _equal(first: TrainingMember, second: TrainingMember) -> bool:
    pairs = zip(first.parameters, second.parameters, strict=False)
    same_count = len(first.parameters) == len(second.parameters)
    return same_count and all(a.equal(b) for a, b in pairs)


def runner_of(
    name: RunnerName, plan: Plan, members: Sequence[TrainingMember]
) -> Runner:
    """Return what runs the steps of an epoch."""
    coupled = isinstance(members[0].method, CoupledMethod)
    obstacles = obstacles_to_capture(members)
    rule = f'be "auto" or "eager", since {" and ".join(obstacles)}'
    require(name != "graph" or not obstacles, "runner", rule, name)
    if name != "eager" and not obstacles:
        return SlotRunner(plan) if coupled else GraphRunner(plan)
    if name != "eager":
        log.info("steps run eagerly: %s", "; ".join(obstacles))
    return CoupledRunner(plan) if coupled else EagerRunner(plan)


def obstacles_to_capture(members: Sequence[TrainingMember]) -> list[str]:
    """Return in words why the members' steps cannot be captured as graphs."""
    first = members[0]
    coupled = isinstance(first.method, CoupledMethod)
    fits = all(capturable(member.optimizer) for member in members)
    reasons = {
        "members are not on a GPU": first.device.type != "cuda",
        "their optimizer cannot be captured": not fits,
        "their method changes its shapes": not first.method.fixed_shapes,
        "they are offloaded": first.offloaded,
        "ranks share their batches by gloo": not first.shards.group.capturable,
        "they are coupled and differ": coupled and not have_same_structure(members),
    }
    return [reason for reason, holds in reasons.items() if holds]
