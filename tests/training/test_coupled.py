"""The hooks for methods whose members meet inside the loss."""

import itertools
import warnings
from dataclasses import dataclass
from typing import final

import pytest
import torch
import torch.nn.functional as F

import tepui
from tepui.core.seeding import derive, generator
from tepui.methods import ActiveMembers, CoupledBatch, CoupledMethod
from tepui.training.batches import index_stream
from tepui.training.member import TrainingMember
from training.cases import (
    CLASSES,
    assert_different,
    assert_same_bits,
    checkpointed,
    copied,
    fitted,
    images,
    interrupted_everywhere,
    mlp,
    noisy_net,
    numbers,
)

LOG = []


@pytest.fixture(autouse=True)
def _fresh_log():
    LOG.clear()


def logged(kind):
    return [entry for entry in LOG if entry[0] == kind]


@final
@dataclass(frozen=True, kw_only=True)
class Repelled(CoupledMethod):
    """Rewards different outputs; a random choice of members trains in each step."""

    weight: float = 0.5
    chosen: int = 2

    def turn(self, members, progress, generator):
        picked = torch.randperm(members, generator=generator)[: self.chosen]
        LOG.append(("active", sorted(picked.tolist())))
        return ActiveMembers(tuple(sorted(picked.tolist())), (), progress)

    def loss(self, batch):
        outputs, losses = batch.outputs, batch.losses
        assert outputs.shape == (self.chosen, len(batch.targets), CLASSES)
        assert losses.shape == outputs.shape[:2]
        assert batch.unlabeled is None
        center = outputs.mean(0, keepdim=True)
        return losses.mean() - self.weight * (outputs - center).square().mean()


def exact_mlp():
    return mlp().double()


def coupled_by_hand(ensemble, data, method, *, epochs=2, batch_size=8):
    """Train three members in a loop of their own."""
    seed = derive(*ensemble.seeds, "coupled")
    optimizers = [
        torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
        for m in ensemble.members
    ]
    steps, totals = -(-len(data) // batch_size), []
    ensemble.train()
    rows = index_stream(len(data), batch_size, seed, 0, epochs * steps)
    for step, row in enumerate(rows):
        stream = generator(seed, "active", step)
        active = method.turn(len(ensemble), step / (epochs * steps), stream).active
        outputs = []
        for index in active:
            torch.manual_seed(derive(ensemble.seeds[index], "noise", step))
            outputs.append(ensemble.members[index](data.inputs[row]))
        targets = data.targets[row]
        losses = [F.cross_entropy(o, targets, reduction="none") for o in outputs]
        batch = CoupledBatch(torch.stack(outputs), torch.stack(losses), targets, None)
        total = method.loss(batch)
        (len(active) * total).backward()
        totals.append(total.detach())
        for index in active:
            optimizers[index].step()
            optimizers[index].zero_grad()
    return torch.stack(totals).view(epochs, steps).mean(1)


@pytest.mark.parametrize("chosen", [1, 2, 3])
def test_coupled_equals_a_loop_by_hand(chosen):
    method, data = Repelled(chosen=chosen), images()
    by_hand = tepui.Ensemble.build(noisy_net, members=3, seed=3)
    with torch.random.fork_rng():
        losses = coupled_by_hand(by_hand, data, method)
    how = {"method": method, "members": 3, "schedule": tepui.Constant()}
    run = fitted(data, **how)
    assert_same_bits(run, by_hand)
    for record, loss in zip(run.history, losses, strict=True):
        assert record.joint_loss == pytest.approx(float(loss))


@pytest.mark.parametrize("chosen", [1, 2, 3])
def test_without_coupling_each_member_moves_as_it_would_alone(chosen):
    """The joint loss is a mean, which must not divide a member's learning rate."""
    data, method = numbers(24, torch.float64), Repelled(chosen=chosen, weight=0.0)
    how = {"members": 3, "epochs": 1, "schedule": tepui.Constant()}
    run = fitted(data, exact_mlp, method=method, batch_size=len(data), **how)
    ((_, active),) = logged("active")
    alone = tepui.Ensemble.build(exact_mlp, members=3, seed=3)
    for index in active:
        member = alone.members[index]
        optimizer = tepui.SGD()([*member.parameters()])
        F.cross_entropy(member(data.inputs), data.targets).backward()
        optimizer.step()
    for name, tensor in run.ensemble.state_dict().items():
        torch.testing.assert_close(tensor, alone.state_dict()[name])


def test_members_that_sit_out_keep_weights_buffers_and_momentum(tmp_path):
    start = tepui.Ensemble.build(noisy_net, members=3, seed=3)
    how = {"method": Repelled(chosen=1), "members": 3, "epochs": 1, "batch_size": 24}
    run = fitted(images(), out=tmp_path, **how)
    ((_, (only,)),) = logged("active")
    for index, (tensors, document) in enumerate(checkpointed(tmp_path)):
        before, after = copied(start.members[index]), run.ensemble.members[index]
        momentum = [name for name in tensors if name.startswith("optimizer")]
        assert document["step"] == 1
        if index == only:
            assert_different(before, after)
            assert int(after[2].num_batches_tracked) == 1
            assert momentum
        else:
            assert_same_bits(before, after)
            assert not momentum


@pytest.mark.parametrize("chosen", [1, 2])
def test_a_coupled_run_resumes_to_the_same_bits(tmp_path, chosen):
    method = Repelled(chosen=chosen)
    interrupted_everywhere(tmp_path, method, calls=6 * chosen)


def test_a_coupled_loss_must_return_one_value_per_sample():
    with pytest.raises(ValueError, match="loss must return one value per sample"):
        fitted(images(), method=Repelled(), loss=F.cross_entropy)


@final
@dataclass(frozen=True, kw_only=True)
class InTurn(CoupledMethod):
    """One member after the other, away from what earlier ones say of unlabeled data."""

    @property
    def needs_unlabeled(self):
        return True

    @property
    def fixed_shapes(self):
        return False

    def turn(self, members, progress, generator):
        now = min(int(progress * members), members - 1)
        return ActiveMembers((now,), tuple(range(now)), progress * members - now)

    def loss(self, batch):
        now, *earlier = batch.unlabeled
        LOG.append(("turn", len(earlier), [e.detach() for e in earlier], now.shape))
        apart = sum((now - outputs).square().mean() for outputs in earlier)
        return batch.losses.mean() - 0.1 * apart


def unlabeled(samples=10):
    data = images(samples, seed=5)
    return tepui.data.Arrays(data.inputs, torch.full_like(data.targets, -1))


def in_turn(**how):
    settings = {"method": InTurn(), "members": 3, "epochs": 6, "unlabeled": unlabeled()}
    return fitted(images(), **settings | how)


def test_observed_members_are_seen_but_not_touched(tmp_path):
    how = {"schedule": tepui.Constant(), "out": tmp_path, "checkpoint_every": 2}
    states = []

    def note(record):
        states.append([copied(member) for member in ensemble.members])

    ensemble = tepui.Ensemble.build(noisy_net, members=3, seed=3)
    tepui.fit(
        ensemble,
        images(),
        method=InTurn(),
        epochs=6,
        batch_size=8,
        unlabeled=unlabeled(),
        callbacks=[note],
        progress="none",
        **how,
    )
    # Three members have two epochs of three steps each.
    assert [entry[1] for entry in logged("turn")] == [0] * 6 + [1] * 6 + [2] * 6
    assert {entry[3] for entry in logged("turn")} == {(8, CLASSES)}
    for epoch, (before, after) in enumerate(itertools.pairwise(states), start=1):
        for member in range(3):
            same = assert_same_bits if member != epoch // 2 else assert_different
            same(before[member], after[member])


def test_members_in_turn_each_see_the_whole_schedule(monkeypatch):
    seen = []

    class Noting(TrainingMember):
        def set_time(self, factor, progress):
            seen.append((self.index, factor, progress))
            super().set_time(factor, progress)

    monkeypatch.setattr("tepui.training.prepare.TrainingMember", Noting)
    in_turn(schedule=tepui.Cosine(), epochs=3)
    # Nine steps; the run sets every member's time again at the end of an epoch.
    own = [entry for entry in seen if entry[2] * 9 % 3 == pytest.approx(0, abs=1e-9)]
    starts = {index: factor for index, factor, progress in own if progress == 0}
    assert starts == {0: 1.0, 1: 1.0, 2: 1.0}


def test_unlabeled_data_only_where_they_are_used():
    with pytest.raises(ValueError, match="a data set for InTurn"):
        in_turn(unlabeled=None)
    with pytest.raises(ValueError, match="unlabeled must be None for Repelled"):
        fitted(images(), method=Repelled(), unlabeled=unlabeled())
    with pytest.raises(ValueError, match="unlabeled must be None for DeepEnsemble"):
        fitted(images(), unlabeled=unlabeled())


def equal_members():
    ensemble = tepui.Ensemble.build(noisy_net, members=3, seed=3)
    ensemble.members[1].load_state_dict(ensemble.members[0].state_dict())
    return ensemble


def test_independent_members_may_start_equal():
    ensemble = equal_members()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        how = {"epochs": 1, "batch_size": 8, "progress": "none"}
        tepui.fit(ensemble, images(), method=tepui.methods.DeepEnsemble(), **how)


def test_members_that_start_equal_are_refused():
    """They share all batches, so that nothing could ever tell them apart."""
    with pytest.raises(ValueError, match=r"members \[1\] must start different"):
        tepui.fit(equal_members(), images(), method=Repelled(), epochs=1)
