"""Members on one frozen body hold it once, in memory and in every file."""

import copy

import pytest
import torch
from torch import nn

import tepui
from modules.test_sharing import LowRank
from tepui import Ensemble
from tepui.methods import SAM, SED, DeepEnsemble, SharpBalance
from training.cases import StoppedError, numbers, stop_after

METHODS = [
    DeepEnsemble(),
    SAM(rho=0.1),
    SharpBalance(rho=0.1),
    SED(),
]
WIDTH = 512


def factory():
    torch.manual_seed(0)
    body = nn.Linear(4, WIDTH)

    def make():
        front = LowRank(copy.deepcopy(body))
        return nn.Sequential(front, nn.ReLU(), nn.Linear(WIDTH, 3))

    return make


def trained(out=None, make=None, **how):
    ensemble = Ensemble.build(make or factory(), members=3)
    how = {"method": DeepEnsemble(), "epochs": 3, "progress": "none"} | how
    how = {"validation": 0.25, "keep": "best", "batch_size": 8} | how
    return tepui.fit(ensemble, numbers(), out=out, **how)


def assert_same(one, other):
    for a, b in zip(one.members, other.members, strict=True):
        assert all(b.state_dict()[n].equal(t) for n, t in a.state_dict().items())


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_a_run_holds_the_body_once(tmp_path, method):
    run = trained(tmp_path / "run", method=method, stop_after=2)
    body = {id(member[0].base.weight) for member in run.ensemble.members}
    assert len(body) == 1
    folder = tmp_path / "run" / "checkpoint"
    frozen = (folder / "frozen.safetensors").stat().st_size
    assert 4 * 5 * WIDTH < frozen < 4 * 5 * WIDTH + 5_000
    weights = run.ensemble.members[0][0].base.weight.clone()
    whole = trained(method=method)
    resumed = trained(tmp_path / "run", method=method, resume=True)
    assert resumed.ensemble.members[2][0].base.weight.equal(weights)
    assert_same(resumed.ensemble, whole.ensemble)
    assert len({id(m[0].base.weight) for m in resumed.ensemble.members}) == 1


def test_a_killed_run_takes_the_body_of_its_checkpoint(tmp_path):
    how = {"method": SAM(rho=0.1, average=0.5)}
    with pytest.raises(StoppedError):
        trained(tmp_path / "run", callbacks=[stop_after(1)], **how)
    resumed = trained(tmp_path / "run", resume=True, **how)
    assert_same(resumed.ensemble, trained(**how).ensemble)


def test_a_changed_file_of_frozen_tensors_is_refused(tmp_path):
    trained(tmp_path / "run", stop_after=1)
    trained(
        tmp_path / "other",
        make=lambda: nn.Sequential(
            LowRank(nn.Linear(4, WIDTH)), nn.ReLU(), nn.Linear(WIDTH, 3)
        ),
        stop_after=1,
    )
    name = "checkpoint/frozen.safetensors"
    (tmp_path / "other" / name).replace(tmp_path / "run" / name)
    with pytest.raises(ValueError, match=r"frozen\.safetensors must be the file"):
        trained(tmp_path / "run", resume=True)


def test_members_that_train_one_body_get_their_own(tmp_path):
    body = nn.Linear(4, 8)
    ensemble = Ensemble([nn.Sequential(body, nn.Linear(8, 3)) for _ in range(2)])
    with pytest.warns(UserWarning, match="member 1 trains tensors of an earlier one"):
        tepui.fit(ensemble, numbers(), method=DeepEnsemble(), epochs=1, progress="none")
    first, second = (member[0].weight for member in ensemble.members)
    assert first is not second
    assert not first.equal(second)


@pytest.mark.parametrize("method", [SED(), DeepEnsemble()], ids=repr)
def test_runs_that_freeze_nothing_have_no_such_file(tmp_path, method):
    trained(tmp_path / "run", make=lambda: nn.Linear(4, 3), method=method, stop_after=1)
    assert not (tmp_path / "run/checkpoint/frozen.safetensors").exists()
