"""Averaged weights: the mean of a recorded trajectory, whatever trained it."""

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import tepui
from tepui.methods import A2D, GSAM, SAM, SED, DeepEnsemble, SharpBalance
from tepui.modules.pruning import sparsity_of
from tepui.training.averaging import (
    COUNT,
    averaged_tensors,
    means_of,
    start_average,
    update_average,
    update_moving_average,
)
from tepui.training.coupled import SlotRunner
from training.cases import (
    assert_same_bits,
    convnet,
    copied,
    fitted,
    images,
    mlp,
    noisy_net,
    numbers,
)

METHODS = [
    DeepEnsemble(),
    SAM(rho=0.1),
    GSAM(rho=0.1),
    SharpBalance(rho=0.1, switch_at=1),
    SharpBalance.released(rho=0.1, switch_at=0),
    SED(weight=0.01, active=2),
    SED(weight=0.01, base=SAM(rho=0.1), active=2),
    A2D(parallel=False, weight=0.01),
]
every_method = pytest.mark.parametrize("method", METHODS, ids=repr)


def averaged(method, data, *factory, **how):
    if method.needs_unlabeled:
        how["unlabeled"] = data
    settings = {"average": 0.5, "members": 3, "epochs": 4, **how}
    return fitted(data, *factory, method=method, **settings)


@pytest.mark.parametrize("share", [0.25, 0.5, 0.75, 1.0])
def test_the_mean_is_that_of_the_recorded_trajectory(share):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).double()
    progress = torch.tensor(0.0, dtype=torch.float64)
    average = start_average(module, progress)
    trajectory = [copied(module)]
    for step in range(8):
        with torch.no_grad():
            for tensor in (*module.parameters(), *list(module.buffers())[:2]):
                tensor.add_(torch.randn_like(tensor))
        progress.fill_(step / 8)
        tensors = averaged_tensors(module)
        update_average(average, tensors, progress, 1 - share)
        trajectory.append(copied(module))
        if step / 8 < 1 - share:
            for mean, tensor in zip(means_of(average), tensors, strict=True):
                assert torch.equal(mean, tensor)
    # The weights with which the last part begins, and those after each of its updates.
    kept = trajectory[round(8 * (1 - share)) :]
    assert float(average[COUNT]) == len(kept) - 1 == 8 * share
    names = [n for n, t in module.state_dict().items() if t.is_floating_point()]
    for name, mean in zip(names, means_of(average), strict=True):
        expected = torch.stack([state[name] for state in kept]).mean(0)
        torch.testing.assert_close(mean, expected, rtol=1e-12, atol=1e-12)


def test_the_moving_average_is_torchs():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).double()
    reference = AveragedModel(
        module, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True
    )
    average = start_average(module, torch.tensor(0.0))
    for _ in range(8):
        with torch.no_grad():
            for tensor in (*module.parameters(), *list(module.buffers())[:2]):
                tensor.add_(torch.randn_like(tensor))
        update_moving_average(average, averaged_tensors(module), 0.9)
        reference.update_parameters(module)
        pairs = zip(means_of(average), averaged_tensors(reference.module), strict=True)
        for mean, expected in pairs:
            torch.testing.assert_close(mean, expected, rtol=1e-12, atol=1e-12)


def test_a_run_with_a_moving_average_is_a_plain_loop_with_torchs():
    data = numbers(24, torch.float64)
    how = {"batch_size": 24, "epochs": 6, "progress": "none", "device": "cpu"}
    ensemble = tepui.Ensemble.build(lambda: mlp().double(), members=1, seed=3)
    module = tepui.Ensemble.build(lambda: mlp().double(), members=1, seed=3).members[0]
    rates = {"optimizer": tepui.SGD(lr=0.1), "schedule": tepui.Constant()}
    tepui.fit(ensemble, data, method=DeepEnsemble(), ema=0.8, **rates, **how)
    mean = AveragedModel(module, multi_avg_fn=get_ema_multi_avg_fn(0.8))
    optimizer = torch.optim.SGD(module.parameters(), 0.1, 0.9, weight_decay=5e-4)
    for _ in range(6):
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(data.inputs), data.targets).backward()
        optimizer.step()
        mean.update_parameters(module)
    for one, other in zip(
        ensemble.members[0].parameters(), mean.module.parameters(), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


def test_the_run_ends_with_the_mean_of_a_plain_run():
    states, data = [], numbers(24)
    how = {"batch_size": 24, "epochs": 4, "progress": "none", "device": "cpu"}
    plain = tepui.Ensemble.build(mlp, members=2, seed=3)
    states.append(copied(plain))

    def keep(record):
        states.append(copied(plain))

    tepui.fit(plain, data, method=DeepEnsemble(), callbacks=[keep], **how)
    for share, first in ((0.25, 3), (0.5, 2), (1.0, 0)):
        mean = tepui.Ensemble.build(mlp, members=2, seed=3)
        tepui.fit(mean, data, method=DeepEnsemble(), average=share, **how)
        for name, tensor in mean.state_dict().items():
            expected = torch.stack([state[name] for state in states[first:]]).mean(0)
            torch.testing.assert_close(tensor, expected)


@pytest.mark.parametrize("base", [None, SAM(rho=0.1)])
@pytest.mark.parametrize("mean", [{}, {"average": None, "ema": 0.9}])
def test_coupled_members_in_slots_have_the_same_means(monkeypatch, base, mean):
    method = SED(weight=0.01, base=base, active=2)
    plain = averaged(method, images(), **mean)
    monkeypatch.setattr("tepui.training.prepare.CoupledRunner", SlotRunner)
    slots = averaged(method, images(), **mean)
    assert_same_bits(
        *(
            {n: t + 0 for n, t in r.ensemble.state_dict().items()}
            for r in (plain, slots)
        )
    )


def test_the_mean_is_what_is_validated_and_kept():
    """The best mean is kept; until averaging begins the mean is the weights."""
    how = {"validation": 0.25, "epochs": 6, "members": 2}
    mean = averaged(DeepEnsemble(), images(32), **how)
    plain = averaged(DeepEnsemble(), images(32), average=None, **how)
    losses = [[r.validation_loss for r in run.history] for run in (mean, plain)]
    assert losses[0][:3] == losses[1][:3]
    assert all(a != b for a, b in zip(losses[0][3:], losses[1][3:], strict=True))
    best = averaged(DeepEnsemble(), images(32), keep="best", **how)
    for member in range(2):
        of_member = [loss[member] for loss in losses[0]]
        assert best.best_epochs[member] == of_member.index(min(of_member))
    final = averaged(DeepEnsemble(), images(32), **how)
    _, held_out = tepui.data.split(images(32), 0.25, seed=0)
    outputs = final.ensemble.logits(held_out.inputs)
    for member in range(2):
        loss = nn.functional.cross_entropy(outputs[member], held_out.targets)
        assert float(loss) == pytest.approx(losses[0][-1][member], rel=1e-5)


@pytest.mark.parametrize("after", [0.25, 0.75])
def test_pruned_weights_are_zero_in_the_mean(after):
    how = {"prune": tepui.Prune(sparsity=0.5, prune_at=after), "validation": 0.25}
    _, held_out = tepui.data.split(images(32), 0.25, seed=0)
    for method in (DeepEnsemble(), SED(weight=0.01, active=2)):
        run = averaged(method, images(32), convnet, **how)
        outputs = run.ensemble.logits(held_out.inputs)
        for index, member in enumerate(run.ensemble.members):
            assert sparsity_of(member) == pytest.approx(0.5, abs=0.01)
            loss = nn.functional.cross_entropy(outputs[index], held_out.targets)
            validated = run.history[-1].validation_loss[index]
            assert float(loss) == pytest.approx(validated, rel=1e-5)


def test_statistics_of_batchnorm_are_averaged_too():
    run = averaged(DeepEnsemble(), images(), noisy_net, average=1.0, epochs=1)
    plain = averaged(DeepEnsemble(), images(), noisy_net, average=None, epochs=1)
    norms = [r.ensemble.members[0][2] for r in (run, plain)]
    assert not torch.equal(norms[0].running_mean, norms[1].running_mean)
    assert norms[0].num_batches_tracked == norms[1].num_batches_tracked == 3


@pytest.mark.parametrize("average", [0.0, -0.5, 1.5])
def test_a_share_outside_the_run_is_refused(average):
    with pytest.raises(ValueError, match=r"average must be a share of the run in \(0"):
        fitted(numbers(), mlp, average=average)


@pytest.mark.parametrize("decay", [0.0, 1.0, -0.5])
def test_a_decay_that_keeps_nothing_or_all_is_refused(decay):
    with pytest.raises(ValueError, match=r"ema must lie in \(0, 1\)"):
        fitted(numbers(), mlp, ema=decay)


def test_two_means_of_one_run_are_refused():
    with pytest.raises(ValueError, match="ema must be None beside average"):
        fitted(numbers(), mlp, ema=0.9, average=0.5)
