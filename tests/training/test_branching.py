"""Runs that share their beginning, against whole runs."""

import pytest
import torch
from torch import nn

import tepui
from tepui.methods import SAM, SharpBalance
from tepui.modules.pruning import Prune
from tepui.training.run_folder import RunFolder
from training.cases import assert_same_bits, assert_same_runs, fitted, images

EPOCHS, HALF = 4, 2


def trained(method, folder, **how):
    settings = {"epochs": EPOCHS, "members": 3, "average": 0.75, "validation": 0.25}
    settings |= {"augment": [tepui.data.HorizontalFlip()], "out": folder, **how}
    return fitted(images(48), method=method, **settings)


def test_a_branch_can_be_killed_and_resumed(tmp_path):
    method = SharpBalance(rho=0.3, before="sam")
    trained(SAM(rho=0.3), tmp_path / "prefix", stop_after=HALF)
    how = {"branch_from": tmp_path / "prefix", "resume": True}
    trained(method, tmp_path / "branch", stop_after=HALF + 1, **how)
    branch = trained(method, tmp_path / "branch", **how)
    assert_same_runs(branch, trained(method, tmp_path / "whole"))


@pytest.mark.filterwarnings("ignore:SharpBalance exchanges nothing")
def test_a_branch_with_no_epoch_left_ends_like_the_whole_run(tmp_path):
    trained(SAM(rho=0.3), tmp_path / "prefix")
    method = SharpBalance(rho=0.3, before="sam", switch_at=EPOCHS)
    how = {"branch_from": tmp_path / "prefix", "resume": True}
    for _ in range(2):
        branch = trained(method, tmp_path / "branch", **how)
        assert_same_runs(branch, trained(method, None))


@pytest.mark.slow
@pytest.mark.parametrize("keep", ["last", "best"])
@pytest.mark.parametrize("method", [SAM(rho=0.3), SAM(rho=0.3, start_at=3)], ids=repr)
def test_sparsities_branch_from_a_run_that_is_not_pruned(tmp_path, method, keep):
    how = {"keep": keep} | ({"average": None} if keep == "best" else {})
    simpler, _ = method.prefix(EPOCHS)
    trained(simpler, tmp_path / "begun", stop_after=HALF, **how)
    for sparsity in (0.5, (0.2, 0.5, 0.9)):
        how["prune"] = Prune(sparsity=sparsity)
        whole = trained(method, tmp_path / f"whole-{sparsity}", **how)
        origin = {"branch_from": tmp_path / "begun", "resume": True}
        out = tmp_path / f"branch-{sparsity}"
        trained(method, out, stop_after=HALF + 1, **how, **origin)
        assert_same_runs(trained(method, out, **how, **origin), whole)


def test_a_branch_that_ends_before_it_is_pruned_has_its_best_weights(tmp_path):
    how = {"keep": "best", "average": None, "optimizer": tepui.SGD(lr=0.5)}
    trained(SAM(rho=0.3), tmp_path / "begun", stop_after=1, **how)
    how |= {"prune": Prune(prune_at=0.75), "callbacks": [lambda r: r.epoch == 1]}
    whole = trained(SAM(rho=0.3), tmp_path / "whole", **how)
    origin = {"branch_from": tmp_path / "begun"}
    branch = trained(SAM(rho=0.3), tmp_path / "branch", **how, **origin)
    assert 0 in branch.best_epochs  # of the run that it began as
    assert_same_runs(branch, whole)


@pytest.mark.parametrize(
    ("begun", "branch", "said"),
    [
        (None, Prune(prune_at=0.25), "stand at epoch 1 or before, where this run"),
        (Prune(), None, "prune must be what the run"),
        (Prune(), Prune(sparsity=0.5), "prune must be what the run"),
    ],
)
def test_a_run_that_was_pruned_otherwise_is_refused(tmp_path, begun, branch, said):
    trained(SAM(rho=0.3), tmp_path / "begun", stop_after=HALF, prune=begun)
    how = {"branch_from": tmp_path / "begun", "prune": branch}
    with pytest.raises(ValueError, match=said):
        trained(SAM(rho=0.3), tmp_path / "new", **how)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("method", "how", "said"),
    [
        (SharpBalance(before="sam", rho=0.2), {}, "method must begin like the run in"),
        (SharpBalance(rho=0.3), {}, "it begins like .*DeepEnsemble"),
        (
            SharpBalance(rho=0.3, before="sam", switch_at=1),
            {},
            "branch_from must stand at epoch 1",
        ),
        (SAM(rho=0.3), {"batch_size": 6}, r"batch_size must be what .* \(8\) .*got 6"),
        (SAM(rho=0.3), {"seed": 4}, "seeds must be what the run"),
        (SAM(rho=0.3), {"epochs": 5}, "epochs must be what the run"),
        (SAM(rho=0.3), {"schedule": tepui.MultiStep()}, "schedule must be"),
    ],
)
def test_a_prefix_that_differs_is_refused_by_name(tmp_path, method, how, said):
    trained(SAM(rho=0.3), tmp_path / "prefix", stop_after=HALF)
    with pytest.raises(ValueError, match=said):
        trained(method, tmp_path / "new", branch_from=tmp_path / "prefix", **how)
    assert not (tmp_path / "new").exists()


def net(*layers, frozen=False):
    """Return a factory of models that all have the same class."""

    def make():
        model = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), *layers)
        model.append(nn.Linear(8, 3)).requires_grad_()
        model[1].bias.requires_grad_(not frozen)
        return model

    return make


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (net(nn.Dropout(0.1)), "models must be what"),
        (net(nn.Tanh()), "models must be what"),
        (net(nn.Dropout(0.5), frozen=True), "models must be what"),
    ],
)
def test_a_model_that_differs_is_refused_by_name(tmp_path, other, said):
    """Classes and seeds are the same, but whole runs would not be."""
    same, how = net(nn.Dropout(0.5)), {"branch_from": tmp_path / "prefix"}
    trained(SAM(rho=0.3), tmp_path / "prefix", factory=same, stop_after=HALF)
    with pytest.raises(ValueError, match=said):
        trained(SAM(rho=0.3), tmp_path / "new", factory=other, **how)
    branch = trained(SAM(rho=0.3), tmp_path / "new", factory=same, **how)
    assert_same_bits(branch, trained(SAM(rho=0.3), None, factory=same))


def test_a_branch_takes_its_origins_threads(tmp_path):
    trained(SAM(rho=0.3), tmp_path / "prefix", stop_after=HALF)
    torch.set_num_threads(2)
    how = {"branch_from": tmp_path / "prefix"}
    branch = trained(SharpBalance(rho=0.3, before="sam"), tmp_path / "branch", **how)
    torch.set_num_threads(1)
    assert RunFolder(tmp_path / "branch").threads() == 1
    assert_same_bits(branch, trained(SharpBalance(rho=0.3, before="sam"), None))


def test_a_run_stopped_within_an_epoch_is_no_branch_point(tmp_path, monkeypatch):
    steps = iter(range(1000))
    monkeypatch.setattr(
        "tepui.training.runner.Interruption.requested",
        property(lambda _: next(steps) > 20),
    )
    monkeypatch.setattr("tepui.training.runner.Interruption.leave", _leave)
    with pytest.raises(KeyboardInterrupt):
        trained(SAM(rho=0.3), tmp_path / "prefix")
    monkeypatch.undo()
    for method in (SAM(rho=0.3), SharpBalance(rho=0.3, before="sam")):
        with pytest.raises(ValueError, match="branch_from must stand at the end of an"):
            trained(method, tmp_path / "new", branch_from=tmp_path / "prefix")
    trained(SAM(rho=0.3), tmp_path / "prefix", resume=True, stop_after=HALF)
    trained(
        SharpBalance(rho=0.3, before="sam"),
        tmp_path / "new",
        branch_from=tmp_path / "prefix",
    )


def _leave(interruption):
    raise KeyboardInterrupt


def test_what_a_branch_needs_is_said(tmp_path):
    with pytest.raises(ValueError, match="branch_from must hold a run with a checkp"):
        trained(SAM(rho=0.3), None, branch_from=tmp_path)
    with pytest.raises(ValueError, match="out must be given with stop_after"):
        trained(SAM(rho=0.3), None, stop_after=1)
    with pytest.raises(ValueError, match="stop_after must be"):
        trained(SAM(rho=0.3), tmp_path, stop_after=0)
