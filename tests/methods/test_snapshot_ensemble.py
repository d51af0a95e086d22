"""Snapshot ensembles are one plain loop with restarts, cut where cycles end."""

import math

import pytest
import torch
from torch import nn

import tepui
from tepui.methods import SAM, SharpBalance, SnapshotEnsemble
from tepui.training import TrainingSpec
from tepui.training.batches import index_stream
from tepui.training.exchange import LocalExchange
from training.cases import (
    assert_same_bits,
    fitted,
    images,
    interrupted_everywhere,
    mlp,
    numbers,
    one_thread,
)

single = pytest.fixture(autouse=True)(one_thread)

SAMPLES, BATCH, STEPS = 24, 8, 3


def snapshots_naive(module, seeds, data, cycles):
    """Return the weights at the end of every cycle of one run (Huang et al., eq. 2)."""
    optimizer = torch.optim.SGD(module.parameters(), 0.1, 0.9, weight_decay=5e-4)
    ends, done = [], 0
    for seed, epochs in zip(seeds, cycles, strict=True):
        rows = index_stream(SAMPLES, BATCH, seed, done, epochs * STEPS)
        for t, index in enumerate(rows):
            wave = math.cos(math.pi * t / (epochs * STEPS))
            optimizer.param_groups[0]["lr"] = 0.1 / 2 * (wave + 1)
            optimizer.zero_grad()
            outputs = module(data.inputs[index])
            nn.functional.cross_entropy(outputs, data.targets[index]).backward()
            optimizer.step()
        done += epochs * STEPS
        ends.append({k: v.clone() for k, v in module.state_dict().items()})
    return ends


@pytest.mark.parametrize(("epochs", "cycles"), [(6, (2, 2, 2)), (8, (2, 3, 3))])
def test_members_are_the_ends_of_the_cycles_of_one_run(epochs, cycles):
    data = numbers(SAMPLES, torch.float64)
    first = tepui.Ensemble.build(lambda: mlp().double(), members=3, seed=3)
    expected = snapshots_naive(first.members[0], first.seeds, data, cycles)
    how = {"members": 3, "epochs": epochs, "batch_size": BATCH}
    run = fitted(data, lambda: mlp().double(), method=SnapshotEnsemble(), **how)
    for member, end in zip(run.ensemble.members, expected, strict=True):
        for name, tensor in member.state_dict().items():
            torch.testing.assert_close(tensor, end[name], rtol=1e-10, atol=1e-10)


def test_the_first_member_is_a_short_run():
    run = fitted(images(), method=SnapshotEnsemble(), epochs=6, members=2)
    short = fitted(images(), epochs=3, members=2)
    assert_same_bits(run.ensemble.members[0], short.ensemble.members[0])


def test_records_are_of_the_networks_that_members_are_then():
    how = {"epochs": 4, "members": 2, "validation": 0.25}
    run = fitted(images(), method=SnapshotEnsemble(), **how)
    for record in run.history[:2]:
        assert len({*record.loss}) == len({*record.validation_loss}) == 1
    for record in run.history[2:]:
        assert record.loss[0] == run.history[1].loss[0] != record.loss[1]
        before = run.history[1].validation_loss[0]
        assert record.validation_loss[0] == before != record.validation_loss[1]
    _, held_out = tepui.data.split(images(), 0.25, seed=0)
    outputs = run.ensemble.logits(held_out.inputs)
    for index, loss in enumerate(run.history[-1].validation_loss):
        found = nn.functional.cross_entropy(outputs[index], held_out.targets)
        assert float(found) == pytest.approx(loss, rel=1e-5)


def test_the_best_weights_are_those_of_a_members_own_cycle():
    how = {"epochs": 9, "members": 3, "validation": 0.25, "keep": "best"}
    run = fitted(images(), method=SnapshotEnsemble(), **how)
    for member, epoch in enumerate(run.best_epochs):
        cycle = run.history[3 * member : 3 * member + 3]
        losses = [record.validation_loss[member] for record in cycle]
        assert epoch == 3 * member + losses.index(min(losses))


@pytest.mark.parametrize("offload", [False, True])
def test_a_run_that_is_stopped_anywhere_resumes_to_the_same_bits(tmp_path, offload):
    how = {"optimizer": tepui.AdamW(lr=0.01), "ema": 0.9, "offload": offload}
    interrupted_everywhere(tmp_path, SnapshotEnsemble(), calls=6, **how)


def test_members_whose_turn_never_comes_are_the_last_one_that_had_it(tmp_path):
    how = {"epochs": 6, "members": 3, "method": SnapshotEnsemble()}
    stopped = fitted(images(), callbacks=[lambda r: r.epoch == 2], **how)
    members = stopped.ensemble.members
    assert_same_bits(members[1], members[2])
    again = fitted(images(), stop_after=3, out=tmp_path, **how).ensemble.members
    for one, other in zip(members, again, strict=True):
        assert_same_bits(one, other)


def test_it_costs_what_one_network_does():
    spec = TrainingSpec(method=SnapshotEnsemble(base=SAM(rho=0.1)), epochs=7)
    assert spec.costs(3) == [2.0] * 7
    assert spec.course(3).member_epochs() == 7


def test_fewer_epochs_than_members_are_refused():
    message = "epochs must be at least the number of members, 3, which share them"
    with pytest.raises(ValueError, match=message):
        fitted(numbers(), mlp, method=SnapshotEnsemble(), epochs=2, members=3)


@pytest.mark.parametrize(
    "base", [SharpBalance(), SnapshotEnsemble(), SAM(rho=(0.1, 0.2))]
)
def test_a_base_that_is_no_single_run_is_refused(base):
    with pytest.raises(ValueError, match="base must"):
        SnapshotEnsemble(base=base)


@pytest.mark.parametrize(
    "how",
    [
        {"average": 0.5},
        {"prune": tepui.Prune()},
        {"early_stopping": tepui.EarlyStopping(patience=1), "validation": 0.25},
        {"part_at": 1},
    ],
)
def test_what_belongs_to_a_run_per_member_is_refused(how):
    with pytest.raises(ValueError, match="must be None with SnapshotEnsemble"):
        fitted(numbers(), mlp, method=SnapshotEnsemble(), **how)


def test_members_over_several_processes_are_refused(monkeypatch):
    monkeypatch.setattr(LocalExchange, "owned", lambda self, members: range(1))
    message = "a process of this run must train all 2 members, one after the other"
    with pytest.raises(ValueError, match=message):
        fitted(numbers(), mlp, method=SnapshotEnsemble())
