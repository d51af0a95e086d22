"""The hooks for methods whose members meet between epochs."""

from dataclasses import dataclass
from typing import final

import pytest
import torch

from tepui.core.members import per_member
from tepui.methods import ExchangingMethod, Gradient
from tepui.training import LocalExchange
from training.cases import (
    assert_different,
    assert_same_bits,
    fitted,
    images,
    interrupted_everywhere,
)

LOG = []


@pytest.fixture(autouse=True)
def _fresh_log():
    LOG.clear()


@final
@dataclass(frozen=True, kw_only=True)
class Echo(ExchangingMethod):
    """Scales gradients by what members told each other, with some noise."""

    epochs: tuple[int, ...] = (1, 3)
    strength: float | tuple[float, ...] = per_member(1.0)

    def start(self, member):
        return {"heard": torch.zeros(()), "steps": torch.zeros(())}

    def gradient(self, member, batch):
        loss, values = member.gradient(batch)
        scale = 1 + self.strength * member.state["heard"]
        member.state["steps"].add_(1)
        return Gradient(loss, [value * scale for value in values])

    def exchanges_before(self, epoch, epochs):
        LOG.append(("asked", epoch, epochs))
        return epoch in self.epochs

    def publish(self, member, index, dataset, generator):
        LOG.append(("publish", int(member.state["steps"])))
        assert not any(part.training for part in member.module.modules())
        outputs = member.module(dataset.inputs[:4])
        return outputs.mean().detach() + torch.rand((), generator=generator)

    def receive(self, member, index, published, generator):
        LOG.append(("receive", index, published, torch.rand((), generator=generator)))
        heard = torch.stack(published).tanh().mean() / (index + 1)
        member.state["heard"].copy_(heard)


def logged(kind):
    return [entry for entry in LOG if entry[0] == kind]


def test_members_exchange_exactly_before_the_epochs_asked_for():
    fitted(images(), method=Echo(), epochs=5, members=3)
    at_the_door, before_epochs = [0, 1], range(5)  # until the first that exchanges
    asked = [("asked", epoch, 5) for epoch in (*at_the_door, *before_epochs)]
    assert logged("asked") == asked
    # Three steps an epoch: after one epoch and after three.
    assert [entry[1] for entry in logged("publish")] == [3, 3, 3, 9, 9, 9]


def test_all_members_receive_the_same_list_in_member_order_and_the_same_stream():
    fitted(images(), method=Echo(epochs=(1,)), members=3)
    received = logged("receive")
    assert [entry[1] for entry in received] == [0, 1, 2]
    first = received[0]
    assert len(first[2]) == 3
    assert len({float(told) for told in first[2]}) == 3
    for _, _, published, drawn in received[1:]:
        assert [float(t) for t in published] == [float(t) for t in first[2]]
        assert drawn == first[3]


def test_per_member_values_are_resolved():
    mixed = fitted(images(), method=Echo(strength=(0.0, 1.0)), epochs=4).ensemble
    none, all_ = (
        fitted(images(), method=Echo(strength=s), epochs=4).ensemble for s in (0.0, 1.0)
    )
    assert_same_bits(mixed.members[0], none.members[0])
    assert_different(mixed.members[1], none.members[1])
    assert_different(mixed.members[0], all_.members[0])


def test_stopped_in_the_middle_of_an_epoch_members_do_not_exchange_twice(tmp_path):
    interrupted_everywhere(tmp_path, Echo(epochs=(1,)), calls=12)
    assert len(logged("publish")) == 2 + 12 * 2


@final
@dataclass(frozen=True, kw_only=True)
class Divided(ExchangingMethod):
    """Asks for batches of two kinds and notes what came."""

    def start(self, member):
        return {"kind": torch.zeros(member.samples, dtype=torch.bool)}

    def gradient(self, member, batch):
        LOG.append(("batch", batch.index, batch.division))
        return member.gradient(batch)

    def exchanges_before(self, epoch, epochs):
        return epoch in (1, 3)

    def publish(self, member, index, dataset, generator):
        return torch.zeros(())

    def receive(self, member, index, published, generator):
        member.state["kind"].copy_(torch.arange(24) < 12)

    def divides_by(self, member):
        return member.state["kind"]


def test_divided_data_are_dealt_anew_after_every_exchange():
    """Both times the same sets, so that nothing but the shuffle can differ."""
    fitted(images(), method=Divided(), epochs=5, members=1)
    epochs = torch.stack([entry[1] for entry in logged("batch")]).view(5, 3, 8)
    divisions = [entry[2] for entry in logged("batch")]
    assert divisions == [(0, 0.0)] * 3 + [(4, 0.5)] * 12
    assert bool((epochs[1:] < 12).sum(2).eq(4).all())
    for epoch in epochs:
        assert sorted(epoch.flatten().tolist()) == list(range(24))
    orders = {tuple(epoch.flatten().tolist()) for epoch in epochs}
    assert len(orders) == 5


def test_values_are_collected_by_member():
    told = {2: torch.tensor(2), 0: torch.tensor(0), 1: torch.tensor(1)}
    gathered = LocalExchange().collect(told)
    assert [int(tensor) for tensor in gathered] == [0, 1, 2]
    assert list(LocalExchange().owned(3)) == [0, 1, 2]


def test_records_say_how_long_members_exchanged(tmp_path):
    run = fitted(images(), method=Echo(epochs=(1, 3)), epochs=4, out=tmp_path)
    spent = [record.exchange_seconds for record in run.history]
    assert [seconds > 0 for seconds in spent] == [False, True, False, True]
    assert spent[0] == spent[2] == 0
    again = fitted(
        images(), method=Echo(epochs=(1, 3)), epochs=4, out=tmp_path, resume=True
    )
    assert again.history == run.history
    plain = fitted(images(), epochs=2)
    assert [record.exchange_seconds for record in plain.history] == [0, 0]
