"""Every model trains under every method of the contract suite."""

import pytest
import torch

import tepui
from methods.test_contract import ALL
from models.cases import NAMES, built, data
from training.cases import one_thread

single = pytest.fixture(autouse=True)(one_thread)


@pytest.mark.parametrize("method", [case.method for case in ALL], ids=repr)
@pytest.mark.parametrize("name", NAMES)
def test_trains_a_step(name, method):
    ensemble = tepui.Ensemble.build(lambda: built(name), members=2, seed=3)
    before = [
        {key: p.detach().clone() for key, p in member.named_parameters()}
        for member in ensemble.members
    ]
    run = tepui.fit(
        ensemble,
        data(name, samples=6),
        method=method,
        unlabeled=data(name, samples=4) if method.needs_unlabeled else None,
        epochs=2,
        batch_size=6,
        optimizer=tepui.SGD(lr=0.01),
        device="cpu",
        progress="none",
    )
    assert all(torch.isfinite(torch.tensor(run.history[-1].loss)))
    for member, start in zip(ensemble.members, before, strict=True):
        same = [n for n, p in member.named_parameters() if torch.equal(p, start[n])]
        assert same == []
