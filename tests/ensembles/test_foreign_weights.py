"""Weights saved by other programs: wrappers, prefixes, what is refused."""

import pickle

import pytest
import torch
from safetensors.torch import save_file

from tepui.ensembles.foreign_weights import ensemble_of, read_checkpoint
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
    with pytest.raises(ValueError, match="paths must name at least one file"):
        ensemble_of([], network)
