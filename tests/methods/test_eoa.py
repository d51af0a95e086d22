"""EoA: the mean of a recorded trajectory, and statistics that belong to it."""

import pytest
import torch
from torch import nn

import tepui
from tepui.data import Batch
from tepui.losses import cross_entropy
from tepui.methods import DeepEnsemble, EoA, Member
from tepui.modules.running import reestimate_batchnorm
from training.cases import assert_same_bits, fitted, images, mlp, numbers, one_thread

single = pytest.fixture(autouse=True)(one_thread)


def test_average_is_the_mean_of_the_recorded_trajectory():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).double()
    rate = torch.tensor(0.1, dtype=torch.float64)
    member = Member(module, loss=cross_entropy, learning_rate=rate)
    method, kept = EoA(start_at=0.5), []
    for step in range(10):
        with torch.no_grad():
            for tensor in (*module.parameters(), *member.buffers[:2]):
                tensor.add_(torch.randn_like(tensor))
        member.progress.fill_(step / 10)
        method.after_update(member)
        if step >= 4:  # the last copy before the start counts as one
            state = module.state_dict()
            kept.append({k: v.clone() for k, v in state.items()})
    method.finish(member, numbers())
    for name, tensor in module.state_dict().items():
        if tensor.is_floating_point():
            mean = torch.stack([state[name] for state in kept]).mean(0)
            torch.testing.assert_close(tensor, mean, rtol=1e-12, atol=1e-12)


def test_the_run_ends_with_the_average_of_a_plain_run():
    states = []
    data = numbers(24)

    def keep(record):
        states.append({k: v.clone() for k, v in ensemble_of[0].state_dict().items()})

    how = {"batch_size": 24, "epochs": 4, "progress": "none", "device": "cpu"}
    ensemble_of = [tepui.Ensemble.build(mlp, members=2, seed=3)]
    tepui.fit(ensemble_of[0], data, method=DeepEnsemble(), callbacks=[keep], **how)
    averaged = tepui.Ensemble.build(mlp, members=2, seed=3)
    tepui.fit(averaged, data, method=EoA(start_at=0.5), **how)
    # One step an epoch: averaging starts with the third, the second is the copy.
    for name, tensor in averaged.state_dict().items():
        mean = torch.stack([state[name] for state in states[1:]]).mean(0)
        torch.testing.assert_close(tensor, mean)


def test_estimated_statistics_are_those_of_the_data():
    run = fitted(images(), method=EoA(start_at=0.0, statistics="estimated"), epochs=2)
    module = run.ensemble.members[0]
    flat, linear, norm = module[0], module[1], module[2]
    inner = linear(flat(images().inputs)).detach()
    torch.testing.assert_close(norm.running_mean, inner.mean(0), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(norm.running_var, inner.var(0), rtol=1e-4, atol=1e-5)


def test_reestimation_leaves_everything_but_statistics_alone():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Flatten(), nn.Linear(16, 4), nn.BatchNorm1d(4))
    module[1].eval()
    weights = {k: v.clone() for k, v in module.named_parameters()}
    reestimate_batchnorm(module, images())
    assert_same_bits(weights, dict(module.named_parameters()))
    assert [part.training for part in module] == [True, False, True]
    assert module[2].momentum == 0.1
    inner = module[1](module[0](images().inputs)).detach()
    torch.testing.assert_close(module[2].running_mean, inner.mean(0))
    reestimate_batchnorm(nn.Linear(4, 2), numbers())


def test_gradient_is_the_plain_one():
    torch.manual_seed(0)
    module = nn.Linear(4, 3)
    member = Member(module, loss=cross_entropy, learning_rate=torch.tensor(0.1))
    data = numbers()
    batch = Batch(data.inputs, data.targets, torch.arange(len(data)))
    plain, found = member.gradient(batch).values, EoA().gradient(member, batch).values
    assert all(torch.equal(a, b) for a, b in zip(plain, found, strict=True))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"start_at": 1.0}, r"start_at must be a share in \[0, 1\), got 1.0"),
        ({"statistics": "mean"}, "statistics must be one of averaged, estimated"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        EoA(**arguments)
