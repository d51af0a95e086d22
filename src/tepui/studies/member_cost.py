"""What a member costs: operations, bytes, and how often a method uses them."""

from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from tepui.core.seeding import generator, seeded
from tepui.data.loading import at_rows
from tepui.methods import CoupledMethod, Method, SharpBalance, SnapshotEnsemble
from tepui.methods.sharpness_aware import SharpnessAware
from tepui.models.untrained import untrained
from tepui.modules.running import evaluating, forward
from tepui.modules.state import description
from tepui.studies.specifications import Trial
from tepui.training import SGD


@dataclass(frozen=True)
class MemberCost:
    """What one member costs.

    Attributes:
        operations: Floating-point operations of a forward pass of one sample.
        weights: Bytes of its weights and buffers.
        activations: Bytes that its layers return for one sample.
        passing: Bytes that are there at once of one sample where no gradient is taken:
            no more than four times the largest of these.
        outputs: How many numbers it returns for one sample.
        model: What it is, as a run folder describes it.
    """

    operations: int
    weights: int
    activations: int
    passing: int
    outputs: int
    model: dict[str, Any]


def member_cost(trial: Trial, dataset: Dataset[Any]) -> MemberCost:
    """Build a member, show it one sample and count."""
    with seeded(0, "price"), untrained():
        return module_cost(trial.model(), dataset)


def module_cost(member: nn.Module, dataset: Dataset[Any]) -> MemberCost:
    """Show a module one sample and count."""
    from torch.utils.flop_counter import FlopCounterMode  # brings Triton

    (batch,) = at_rows(dataset, [torch.zeros(1).long()], device=torch.device("cpu"))
    returned: list[int] = []

    def note(_: nn.Module, __: object, output: object) -> None:
        if isinstance(output, Tensor):
            returned.append(output.nbytes)

    leaves = [module for module in member.modules() if not [*module.children()]]
    handles = [leaf.register_forward_hook(note) for leaf in leaves]
    with torch.no_grad(), evaluating(member), FlopCounterMode(display=False) as counter:
        output = forward(member, batch.inputs)
    for handle in handles:
        handle.remove()
    return MemberCost(
        counter.get_total_flops(),
        sum(tensor.nbytes for tensor in member.state_dict().values()),
        sum(returned),
        4 * max(returned),
        prod(output.shape[1:]),
        description(member),
    )


def gradients_per_step(method: Method, members: int) -> float:
    """Return how many gradients a member takes in a step, on average over members."""
    if isinstance(method, SnapshotEnsemble):
        return gradients_per_step(method.base, members)
    flat = isinstance(method, SharpnessAware | SharpBalance)
    flat = flat or getattr(method, "base", None) is not None
    gradients = (2.0 if flat else 1.0) * (2 if method.needs_unlabeled else 1)
    if not isinstance(method, CoupledMethod):
        return gradients
    turn = method.turn(members, 0.5, generator(0, "price"))
    return gradients * (len(turn.active) + len(turn.observed) / 3) / members


def optimizer_slots(trial: Trial) -> int:
    """Return how many further numbers the optimizer keeps for each weight."""
    optimizer = trial.training.optimizer
    return int(optimizer.momentum > 0) if isinstance(optimizer, SGD) else 2
