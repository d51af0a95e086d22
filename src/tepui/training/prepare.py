"""From a caller's arguments to members that are ready to train."""

import warnings
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from tepui.core.checks import class_indices, require
from tepui.core.per_member import for_member
from tepui.core.seeding import generator
from tepui.data.arrays import Inputs
from tepui.data.class_names import class_names, same_classes
from tepui.data.loading import as_arrays, in_order
from tepui.ensembles.ensemble import Ensemble
from tepui.losses import CrossEntropy, Loss, cross_entropy
from tepui.methods.base import CoupledMethod, MemberMethod, Method
from tepui.methods.member import Member
from tepui.modules.running import evaluating, forward, refusal_named
from tepui.training.graphs import GraphRunner
from tepui.training.learner import Learner
from tepui.training.numerics import Numerics
from tepui.training.optimizer import SGD, AdamW, Optimizer, capturable
from tepui.training.runner import CoupledRunner, EagerRunner, Plan, Runner
from tepui.training.slots import SlotRunner, have_same_structure

RunnerName = Literal["auto", "eager", "graph"]

# A compiled step of ResNet-18 on an H200 saves 0.3 ms (of SAM 0.7 ms) and costs 14 s to
# build.
STEPS_WORTH_COMPILING = 50_000

# Noise that tells equal coupled members apart, relative to their head's weights.
SEPARATION = 0.01


def classes_of(
    ensemble: Ensemble,
    dataset: Dataset[Any],
    loss: Loss,
    device: torch.device,
    *,
    coupled: bool = False,
) -> int | None:
    """Run every member on two samples; return the classes that labels must fit."""
    few = next(in_order(dataset, 2, device=device))
    sizes = output_sizes(ensemble, few.inputs)
    require(
        not coupled or len(set(sizes)) == 1,
        "ensemble",
        "have members with equally many outputs where they meet inside the loss",
        sizes,
    )
    known = isinstance(loss, CrossEntropy)
    known |= getattr(loss, "func", loss) is cross_entropy
    if not known or few.targets.is_floating_point():
        return None
    return min(sizes)


def check_unlabeled(
    ensemble: Ensemble, unlabeled: Dataset[Any], device: torch.device
) -> None:
    """Run every member on two unlabeled samples; a refusal names their shape."""
    output_sizes(ensemble, next(in_order(unlabeled, 2, device=device)).inputs)


def output_sizes(ensemble: Ensemble, inputs: Inputs) -> list[int]:
    """Return how many outputs each member has for some samples."""
    with evaluating(ensemble), torch.no_grad(), refusal_named(inputs):
        outputs = [forward(member, inputs) for member in ensemble.members]
    return [output.shape[-1] for output in outputs]


def check_labels(
    argument: str, dataset: Dataset[Any], classes: int | None, train: Dataset[Any]
) -> None:
    """Check that labels fit the outputs and mean what they mean in training."""
    same_classes(argument, class_names(dataset), class_names(train), "the training set")
    arrays = as_arrays(dataset)
    if arrays is not None and classes is not None:
        class_indices(arrays.targets, classes, f"labels of {argument}")


def to_device(module: nn.Module, device: torch.device) -> None:
    """Move a module, in the memory format that is fastest there."""
    module.to(device)
    if device.type == "cuda":
        module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def compiles(compile: bool | None, numerics: Numerics, steps: int) -> bool:
    """Return whether forward passes are compiled."""
    if compile is not None:
        return compile
    return numerics.device.type == "cuda" and steps >= STEPS_WORTH_COMPILING


def optimizer_of(optimizer: Optimizer, index: int, members: int) -> Optimizer:
    """Return one member's optimizer, with its own values where they differ."""
    if isinstance(optimizer, SGD | AdamW):
        return for_member(optimizer, index, members)
    return optimizer


def loss_of(loss: Loss, index: int, members: int) -> Loss:
    """Return one member's loss, with its own values where they differ."""
    return for_member(loss, index, members) if isinstance(loss, CrossEntropy) else loss


def learner_of(
    module: nn.Module,
    *,
    index: int,
    seed: int,
    method: Method,
    optimizer: Optimizer,
    loss: Loss,
    steps: int,
    numerics: Numerics,
    compiled: bool,
    accumulate: int,
    clip_norm: float | None,
    home: torch.device | None,
) -> Learner:
    """Prepare one member for training."""
    to_device(module, numerics.device)
    parameters = [p for p in module.parameters() if p.requires_grad]
    require(len(parameters) > 0, f"member {index}", "have trainable parameters", "none")
    built = optimizer(parameters)
    rate = built.param_groups[0]["lr"]
    if not isinstance(rate, Tensor):
        rate = torch.tensor(rate, device=numerics.device)
    member = Member(
        module,
        loss=loss,
        learning_rate=rate,
        run=torch.compile(module, dynamic=False) if compiled else module,
        autocast=numerics.autocast,
        accumulate=accumulate,
    )
    learner = Learner(
        index=index,
        seed=seed,
        method=method,
        member=member,
        optimizer=built,
        losses=torch.zeros(steps, device=numerics.device),
        clip_norm=clip_norm,
        home=home,
    )
    learner.rest()
    return learner


def break_symmetry(learners: Sequence[Learner]) -> None:
    """Add noise to the heads of members that are equal, and say so.

    Members that start equal and share all batches have equal gradients under any
    symmetric loss, so that nothing could ever tell them apart.
    """
    clones = [
        learner
        for number, learner in enumerate(learners)
        if any(_equal(learner, earlier) for earlier in learners[:number])
    ]
    if not clones:
        return
    for learner in clones:
        head = [p for p in learner.member.parameters if p.ndim > 1][-1]
        stream = generator(learner.seed, "separation")
        noise = torch.randn(head.shape, generator=stream).to(head)
        with torch.no_grad():
            head.add_(noise * SEPARATION * head.std(correction=0))
    warnings.warn(
        f"members {[learner.index for learner in clones]} start equal to another and "
        "share all batches, so that they could never separate: their heads get noise "
        f"of {SEPARATION:.0%} of their weights' spread",
        stacklevel=3,
    )


def _equal(first: Learner, second: Learner) -> bool:
    pairs = zip(first.member.parameters, second.member.parameters, strict=False)
    same_count = len(first.member.parameters) == len(second.member.parameters)
    return same_count and all(a.equal(b) for a, b in pairs)


def runner_of(name: RunnerName, plan: Plan, learners: Sequence[Learner]) -> Runner:
    """Return what runs the steps of an epoch."""
    on_cuda = learners[0].losses.device.type == "cuda"
    able = on_cuda and all(capturable(learner.optimizer) for learner in learners)
    method = learners[0].method
    assert isinstance(method, MemberMethod | CoupledMethod)
    able = able and method.fixed_shapes and learners[0].home is None
    coupled = isinstance(method, CoupledMethod)
    able = able and (not coupled or have_same_structure(learners))
    require(
        name != "graph" or able,
        "runner",
        'be "auto" or "eager" unless all members are on a GPU, their optimizer can be '
        "captured, their method keeps its shapes and, where they are coupled, they "
        "are alike",
        name,
    )
    if able and name != "eager":
        return SlotRunner(plan) if coupled else GraphRunner(plan)
    return CoupledRunner(plan) if coupled else EagerRunner(plan)
