"""Every promise of a method is noticed when it is broken."""

from dataclasses import dataclass
from typing import ClassVar
from weakref import WeakKeyDictionary

import numpy as np
import pytest
import torch

from tepui.data import Batch
from tepui.methods import (
    ActiveMembers,
    CoupledMethod,
    DeepEnsemble,
    Gradient,
    MemberMethod,
)
from tepui.testing import check_method
from tepui.testing.expecting import Subject
from tepui.testing.methods import check_warming_up
from training.cases import global_states, one_thread

single = pytest.fixture(autouse=True)(one_thread)

method = dataclass(frozen=True, kw_only=True)


@method
class Plain(MemberMethod):
    def gradient(self, member, batch):
        return member.gradient(batch)


class Undecorated(Plain):
    """Has a hyperparameter that is no field."""

    rho: float = 0.1


@method
class Unspeakable(Plain):
    """Has a hyperparameter that no document holds."""

    value: object = object()


@method
class Moving(MemberMethod):
    def gradient(self, member, batch):
        found = member.gradient(batch)
        with torch.no_grad():
            member.parameters[0].add_(1e-3)
        return found


@method
class Storing(MemberMethod):
    def gradient(self, member, batch):
        member.losses(batch).mean().backward()
        return member.gradient(batch)


@method
class Exaggerating(MemberMethod):
    def gradient(self, member, batch):
        loss, values = member.gradient(batch)
        return Gradient(2 * loss, values)


@method
class Attached(MemberMethod):
    def gradient(self, member, batch):
        loss, values = member.gradient(batch)
        pairs = zip(values, member.parameters, strict=True)
        return Gradient(loss, [value + 0 * weight for value, weight in pairs])


@method
class Unseeded(MemberMethod):
    """Takes a second pass with other dropout masks."""

    def gradient(self, member, batch):
        loss, values = member.gradient(batch)
        member.module(batch.inputs)
        return Gradient(loss, values)


@method
class Sharing(Plain):
    def start(self, member):
        return {"slow": member.parameters[0].detach()}


@method
class Uphill(MemberMethod):
    def gradient(self, member, batch):
        loss, values = member.gradient(batch)
        return Gradient(loss, [-value for value in values])


@method
class Drawing(Plain):
    def after_update(self, member):
        np.random.rand()


@method
class Counting(MemberMethod):
    """Counts all its steps in all runs."""

    counts: ClassVar = []

    def gradient(self, member, batch):
        self.counts.append(1)
        loss, values = member.gradient(batch)
        return Gradient(loss, [value * (1 + len(self.counts) % 5) for value in values])


@method
class Remembering(MemberMethod):
    """Keeps its state beside the member's, where no checkpoint finds it."""

    steps: ClassVar = WeakKeyDictionary()

    def gradient(self, member, batch):
        count = self.steps[member] = self.steps.get(member, 0) + 1
        loss, values = member.gradient(batch)
        return Gradient(loss, [value * (1 + 1 / count) for value in values])


@method
class Late(Plain):
    def after_update(self, member):
        member.state["slow"] = member.parameters[0].detach().clone()


@method
class Narrow(Plain):
    """Has weights in float32 whatever the member's are."""

    def gradient(self, member, batch):
        loss, values = member.gradient(batch)
        return Gradient(loss, [value.float() for value in values])


@method
class Reading(Plain):
    def after_update(self, member):
        if member.progress.item() > 0.5:
            member.parameters[0].detach().mul_(0.99)


@method
class TwoPhases(Plain):
    """Does in the second half of a run what its kinds break."""

    def phase(self, epoch, epochs):
        return "late" if 2 * epoch >= epochs else "main"


@method
class ReadingLate(TwoPhases):
    def gradient(self, member, batch):
        if member.phase == "late":
            member.progress.item()
        return member.gradient(batch)


@method
class Numbering(Plain):
    """Numbers its phases."""

    def phase(self, epoch, epochs):
        return epoch


@method
class Misleading(MemberMethod):
    """Does not begin like a deep ensemble."""

    def gradient(self, member, batch):
        loss, values = member.gradient(batch)
        return Gradient(loss, [2 * value for value in values])

    def prefix(self, epochs):
        return DeepEnsemble(), epochs // 2


@method
class Wordless(Plain):
    def prefix(self, epochs):
        return DeepEnsemble()


@method
class Listing(Plain):
    def start(self, member):
        return [torch.zeros(())]


@method
class Rebinding(Plain):
    def after_update(self, member):
        for parameter in member.parameters:
            parameter.data = parameter.data.clone()


@method
class ToNumpy(MemberMethod):
    def gradient(self, member, batch):
        batch.targets.numpy()
        return member.gradient(batch)


@method
class Dropping(MemberMethod):
    """Leaves out the samples with odd numbers, however many there are."""

    def gradient(self, member, batch):
        even = batch.index % 2 == 0
        parts = batch.inputs[even], batch.targets[even], batch.index[even]
        return member.gradient(Batch(*parts))


@method
class Focal(MemberMethod):
    """Weighs samples by their losses, and differentiates the sum itself."""

    def gradient(self, member, batch):
        certain = (-member.losses(batch).detach()).exp()
        losses = member.losses(batch)
        focal = ((1 - certain) ** 2 * losses).mean()
        values = torch.autograd.grad(focal, member.parameters)
        return Gradient(losses.mean().detach(), member.masked(values))


@method
class Coupled(CoupledMethod):
    def turn(self, members, progress, generator):
        return ActiveMembers(tuple(range(members)), (), progress)

    def loss(self, batch):
        return batch.losses.mean()


@method
class LeavingOut(Coupled):
    def loss(self, batch):
        return batch.losses[0].mean()


@method
class CoupledToList(Coupled):
    def loss(self, batch):
        batch.targets.tolist()
        return batch.losses.mean()


@method
class Unbinding(Coupled):
    """Goes through the members, which needs no value."""

    def loss(self, batch):
        return sum(losses.mean() for losses in batch.losses)


@method
class PerMember(Coupled):
    def loss(self, batch):
        return batch.losses.mean(1)


@method
class DrawingTurns(Coupled):
    def turn(self, members, progress, generator):
        return ActiveMembers((int(torch.randint(members, ())),), (), progress)


BROKEN = {
    Undecorated: "be a frozen dataclass",
    Unspeakable: "be described by values that are alike in every process",
    Moving: "leave weights as they were",
    Storing: "return gradients, not store them",
    Exaggerating: "return the loss at the member's weights",
    Attached: "return detached tensors",
    Unseeded: "see the same dropout masks",
    Sharing: "as a copy that shares no memory",
    Uphill: "lower the training loss",
    Drawing: "leave global ones alone, got draws from that of numpy",
    Counting: "give the same bits for the same seed",
    Remembering: "after a kill",
    Late: "train, got ValueError: state of Late must keep the tensors that start",
    Narrow: "return one gradient per parameter",
    Reading: r"read no value of a tensor in after_update",
    ReadingLate: "read no value of a tensor in gradient",
    Numbering: "name phases by strings, got 0",
    Misleading: r"the same bits after 2 epochs of its prefix DeepEnsemble\(",
    Wordless: "return a method and an epoch from prefix",
    Listing: "return a dict of tensors from start, got a list",
    Rebinding: "change weights and state in place.* got 6 of",
    ToNumpy: "read no value of a tensor in gradient .* got Tensor.numpy",
    CoupledToList: "read no value of a tensor in loss .* got Tensor.tolist",
    Dropping: "meet the same shapes in every step",
    LeavingOut: "have a loss that every active member descends",
    PerMember: "return a scalar loss",
    DrawingTurns: "leave global ones alone|draw a turn from its generator",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_a_broken_promise_is_named(kind):
    with pytest.raises(AssertionError, match=BROKEN[kind]) as raised:
        check_method(kind())
    assert str(raised.value).startswith(f"{kind.__name__} must ")


def test_state_that_warming_up_changes_is_noticed():
    with pytest.raises(AssertionError, match="if it warms up first"):
        check_warming_up(Subject("Remembering"), Remembering())


def test_a_class_is_no_method():
    message = r"^Plain must be an instance, got a class; pass an instance: Plain\(\)"
    with pytest.raises(AssertionError, match=message):
        check_method(Plain)


KEPT = [DeepEnsemble(), Plain(), Coupled(), TwoPhases(), Focal(), Unbinding()]


@pytest.mark.parametrize("kept", KEPT, ids=repr)
def test_a_kept_promise_passes_and_leaves_no_trace(kept):
    before = global_states()
    check_method(kept)
    assert global_states() == before
