"""Weights saved by other programs: wrappers, prefixes, what is refused."""

import pickle

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import tepui
from tepui.ensembles import ensemble_of
from tepui.ensembles.foreign_weights import read_checkpoint
from tepui.models import MLP


def network(seed=0):
    torch.manual_seed(seed)
    return MLP(4, (5,), 3)


def written(path, form, state):
    if form == "safetensors":
        path = path.with_suffix(".safetensors")
        save_file(state, path)
        return path
    if form == "wrapped":
        state = {"epoch": 3, "state_dict": state}
    elif form == "wrapped twice":
        state = {"model": {"model_state_dict": state, "step": 1}}
    elif form == "parallel":
        state = {"state_dict": {f"module.{n}": t for n, t in state.items()}}
    torch.save(state, path)
    return path


FORMS = ["plain", "wrapped", "wrapped twice", "parallel", "safetensors"]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_weights(tmp_path, form):
    nets = [network(seed) for seed in (0, 1)]
    files = [
        written(tmp_path / f"{n}.pt", form, net.state_dict())
        for n, net in enumerate(nets)
    ]
    ensemble = ensemble_of(files, network)
    for net, member in zip(nets, ensemble.members, strict=True):
        for name, tensor in net.state_dict().items():
            assert torch.equal(member.state_dict()[name], tensor)


class Malicious:
    def __reduce__(self):
        return (print, ("ran",))


def test_nothing_that_is_pickled_is_run(tmp_path, capsys):
    file = tmp_path / "evil.pt"
    file.write_bytes(pickle.dumps({"a": Malicious()}))
    with pytest.raises(ValueError, match=r"evil\.pt must hold tensors only"):
        read_checkpoint(file)
    torch.save({"a": Malicious()}, file)
    with pytest.raises(ValueError, match="must hold tensors only"):
        read_checkpoint(file)
    assert capsys.readouterr().out == ""


def test_other_files_are_refused_in_words(tmp_path):
    with pytest.raises(FileNotFoundError, match="must be a file with a model's"):
        read_checkpoint(tmp_path / "none.pt")
    torch.save({"epoch": 3, "lr": 0.1}, tmp_path / "x.pt")
    with pytest.raises(ValueError, match=r"hold tensors by name.*'epoch': 'int'"):
        read_checkpoint(tmp_path / "x.pt")
    torch.save(torch.zeros(3), tmp_path / "x.pt")
    with pytest.raises(ValueError, match=r"hold tensors by name.*got 'Tensor'"):
        read_checkpoint(tmp_path / "x.pt")
    torch.save(network().state_dict(), tmp_path / "x.pt")
    whole = (tmp_path / "x.pt").read_bytes()
    (tmp_path / "x.pt").write_bytes(whole[:200])
    with pytest.raises(ValueError, match="written by torch"):
        read_checkpoint(tmp_path / "x.pt")
    (tmp_path / "x.safetensors").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="must be a whole safetensors file"):
        read_checkpoint(tmp_path / "x.safetensors")


def test_weights_that_do_not_fit_are_listed(tmp_path):
    state = network().state_dict()
    state["extra.weight"] = state.pop("classifier.weight")
    torch.save(state, tmp_path / "x.pt")
    expected = r"missing \['classifier.weight'\].*unexpected \['extra.weight'\]"
    with pytest.raises(ValueError, match=expected):
        ensemble_of([tmp_path / "x.pt"], network)


def test_no_files_are_refused():
    with pytest.raises(ValueError, match="weights must name at least one file"):
        ensemble_of([], network)


def test_a_module_is_no_factory_and_files_are_no_ensemble(tmp_path):
    file = written(tmp_path / "x.pt", "plain", network().state_dict())
    rule = "factory must be a callable that returns a new module"
    with pytest.raises(ValueError, match=rule):
        ensemble_of([file], network())
    tepui.Ensemble([network()]).save(tmp_path / "saved")
    with pytest.raises(ValueError, match=rule):
        tepui.load(tmp_path / "saved", nn.Linear(4, 3))
    with pytest.raises(FileNotFoundError, match=r"x\.pt, which is a file; tepui\.ens"):
        tepui.load(file, network)
    with pytest.raises(ValueError, match=r"hold modules; weights .*ensemble_of, got"):
        tepui.Ensemble([network().state_dict()])


def with_batchnorm(width=5):
    return nn.Sequential(
        nn.Linear(4, width), nn.BatchNorm1d(width), nn.Linear(width, 3)
    )


@pytest.mark.parametrize("form", FORMS)
def test_counters_that_old_checkpoints_lack_may_be_missing(tmp_path, form):
    net = with_batchnorm()
    net(torch.randn(8, 4, generator=torch.Generator().manual_seed(0)))
    state = dict(net.state_dict())
    del state["1.num_batches_tracked"]
    net.load_state_dict(state)  # which torch takes, without a version beside it
    ensemble = ensemble_of([written(tmp_path / "old.pt", form, state)], with_batchnorm)
    loaded = ensemble.members[0].state_dict()
    assert loaded.pop("1.num_batches_tracked") == 0
    assert all(torch.equal(loaded[name], tensor) for name, tensor in state.items())


def test_a_counter_that_is_there_is_kept_and_other_statistics_are_needed(tmp_path):
    net = with_batchnorm()
    net(torch.randn(8, 4))
    torch.save(net.state_dict(), tmp_path / "x.pt")
    member = ensemble_of([tmp_path / "x.pt"], with_batchnorm).members[0]
    assert member[1].num_batches_tracked == 1
    state = net.state_dict()
    del state["1.running_mean"]
    torch.save(state, tmp_path / "x.pt")
    with pytest.raises(ValueError, match=r"missing \['1\.running_mean'\]"):
        ensemble_of([tmp_path / "x.pt"], with_batchnorm)


def test_members_may_differ_in_architecture(tmp_path):
    factories = [network, with_batchnorm, lambda: with_batchnorm(7)]
    nets = [make().eval() for make in factories]
    files = [tmp_path / f"{number}.pt" for number in range(3)]
    for file, net in zip(files, nets, strict=True):
        torch.save(net.state_dict(), file)
    ensemble = ensemble_of(files, factories)
    inputs = torch.randn(6, 4)
    expected = torch.stack([net(inputs) for net in nets])
    torch.testing.assert_close(ensemble.logits(inputs), expected.detach())
    with pytest.raises(ValueError, match="factory must be one or 3, got 2"):
        ensemble_of(files, factories[:2])
