"""Members that wait off the device leave nothing large on it."""

from contextlib import contextmanager

import pytest
import torch

from tepui.methods import SharpBalance
from tepui.training.epochs import Training
from tepui.training.member import TrainingMember, restore
from training.cases import (
    Lookahead,
    StoppedError,
    assert_same_runs,
    fitted,
    images,
    stop_after,
)

KEPT = {"average": 0.5, "keep": "best", "validation": 0.25}


@contextmanager
def moving_all_of(member, monkeypatch):
    """Check that every large tensor of a member is asked to move inside the block."""
    moved, to = set(), torch.Tensor.to

    def recorded(tensor, *args, **how):
        moved.add(tensor.data_ptr())
        return to(tensor, *args, **how)

    with monkeypatch.context() as patched:
        patched.setattr(torch.Tensor, "to", recorded)
        yield
    assert {tensor.data_ptr() for tensor in held(member)} <= moved


def held(member):
    """Return the tensors of a member that are as large as its weights or the data."""
    kept = (member.state, member.average, member.best.weights)
    assert all(kept)
    own = [*member.module.state_dict().values()]
    for entries in (*member.optimizer.state.values(), *kept):
        own += [value for value in entries.values() if isinstance(value, torch.Tensor)]
    return own


@pytest.mark.parametrize("method", [Lookahead(), SharpBalance(rho=0.1, switch_at=1)])
def test_all_that_a_member_holds_moves_with_it(method, monkeypatch):
    checked, finish = [], Training.finish

    def watched(training, member):
        with moving_all_of(member, monkeypatch):
            member.offload()
        with member.on_device(), moving_all_of(member, monkeypatch):
            member.offload()
        checked.append(member.index)
        finish(training, member)

    monkeypatch.setattr(Training, "finish", watched)
    fitted(images(), method=method, offload=True, **KEPT)
    assert checked == [0, 1]


def test_a_resumed_member_waits_off_the_device_whole(tmp_path, monkeypatch):
    how = {"method": Lookahead(), "out": tmp_path, "offload": True, **KEPT}
    with pytest.raises(StoppedError):
        fitted(images(), callbacks=[stop_after(1)], epochs=3, **how)
    resumed = []

    def watched(member, tensors, document, **how):
        with moving_all_of(member, monkeypatch):
            restore(member, tensors, document, **how)
        resumed.append(member.index)

    monkeypatch.setattr("tepui.training.epochs.restore", watched)
    fitted(images(), resume=True, epochs=3, **how)
    assert resumed == [0, 1]


def test_members_train_alike_where_every_move_takes_other_memory(monkeypatch):
    move, to = TrainingMember._move, torch.Tensor.to

    def moved(member, device):
        with monkeypatch.context() as patched:
            patched.setattr(torch.Tensor, "to", lambda t, *a, **k: to(t, *a, **k) + 0)
            move(member, device)
        member.check_state()

    how = {"method": Lookahead(), "members": 2, **KEPT}
    plain = fitted(images(), **how)
    monkeypatch.setattr(TrainingMember, "_move", moved)
    assert_same_runs(plain, fitted(images(), offload=True, **how))


def test_a_member_hears_of_the_others_on_the_device(monkeypatch):
    waits, heard = {}, []
    move, leave = TrainingMember._move, TrainingMember.offload
    receive = SharpBalance.receive

    def moved(member, device):
        move(member, device)
        waits[member.index] = False

    def left(member):
        leave(member)
        waits[member.index] = True

    def watched(method, member, index, published, generator):
        heard.append((index, waits[index]))
        receive(method, member, index, published, generator)

    monkeypatch.setattr(TrainingMember, "_move", moved)
    monkeypatch.setattr(TrainingMember, "offload", left)
    monkeypatch.setattr(SharpBalance, "receive", watched)
    fitted(images(), method=SharpBalance(rho=0.1, switch_at=1), offload=True)
    assert heard == [(0, False), (1, False)]
    assert waits == {0: True, 1: True}
