"""Snapshot ensembles are one plain loop with restarts, cut where cycles end."""

import math

import pytest
import torch
from torch import nn

import tepui
from tepui.methods import SnapshotEnsemble
from tepui.training.batches import index_stream
from training.cases import (
    fitted,
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
