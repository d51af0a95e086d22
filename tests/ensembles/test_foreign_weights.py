"""Weights as other programs write them: wrappers, prefixes, and what is refused."""

import argparse
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import tepui
from tepui.core.storage import same_bits
from tepui.ensembles import ensemble_of
from tepui.ensembles.foreign_weights import read_checkpoint
from tepui.models import ResNet18


def network(width=5):
    return nn.Sequential(
        nn.Linear(4, width), nn.BatchNorm1d(width), nn.Linear(width, 3)
    )


def trained(seed=0, width=5):
    torch.manual_seed(seed)
    net = network(width)
    net(torch.randn(8, 4))
    return net


def prefixed(state, *words):
    return {"".join(f"{word}." for word in words) + n: t for n, t in state.items()}


def without_counters(state):
    return {n: t for n, t in state.items() if not n.endswith("num_batches_tracked")}


def compiled_inside(state):
    """The names of a model of which only one layer was compiled."""
    first, *others = state.items()
    return {first[0].replace("0.", "0._orig_mod."): first[1], **dict(others)}


DIALECTS = {
    "before 0.4.1": without_counters,
    "DataParallel": lambda s: prefixed(s, "module"),
    "compiled": lambda s: prefixed(s, "_orig_mod"),
    "compiled, parallel": lambda s: {"model": prefixed(s, "_orig_mod", "module")},
    "one layer compiled": compiled_inside,
    "FSDP": lambda s: {"model": prefixed(s, "_fsdp_wrapped_module")},
    "DeepSpeed": lambda s: {"module": prefixed(s, "module"), "global_steps": 3},
    "nested": lambda s: {"model": {"state_dict": s}, "optimizer": {"state": {}}},
    "attribute of any name": lambda s: {"state_dict": prefixed(s, "backbone", "net")},
    "script": lambda s: {
        "state_dict": prefixed(without_counters(s), "module"),
        "args": argparse.Namespace(lr=0.1, out=Path("runs")),
        "best_acc1": np.float64(0.91),
        "epoch": np.int64(7),
    },
    "Lightning": lambda s: {
        "pytorch-lightning_version": "2.5.0",
        "state_dict": prefixed(s, "model") | {"loss.weight": torch.ones(3)},
        "hyper_parameters": {"lr": 0.1},
        "callbacks": {"ModelCheckpoint": {"best_model_score": torch.tensor(0.5)}},
        "optimizer_states": [{"state": {0: {"momentum": torch.ones(2)}}}],
        "loops": {"fit_loop": {"state_dict": {}}},
    },
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_gives_the_same_weights(tmp_path, dialect):
    expected = trained().state_dict()
    torch.save(DIALECTS[dialect](dict(expected)), tmp_path / "x.pt")
    (member,) = ensemble_of([tmp_path / "x.pt"], network).members
    found = member.state_dict()
    if dialect in ("before 0.4.1", "script"):
        assert found["1.num_batches_tracked"] == 0
        expected = without_counters(expected)
        found = without_counters(found)
    assert same_bits(found, expected)


def test_a_state_dict_in_memory_will_do():
    net = trained()
    (member,) = ensemble_of([prefixed(net.state_dict(), "model")], network).members
    assert same_bits(member.state_dict(), net.state_dict())
    with pytest.raises(ValueError, match="weights must be a list, one per member"):
        ensemble_of(net.state_dict(), network)


def test_a_factory_may_return_a_wrapped_module(tmp_path):
    net = trained()
    torch.save(net.state_dict(), tmp_path / "x.pt")
    torch.save(prefixed(net.state_dict(), "module"), tmp_path / "y.pt")
    wrapped = [lambda: torch.compile(network()), lambda: nn.DataParallel(network())]
    ensemble = ensemble_of([tmp_path / "x.pt", tmp_path / "y.pt"], wrapped)
    for member, inner in zip(ensemble.members, ("_orig_mod", "module"), strict=True):
        found = getattr(member, inner).state_dict()
        assert same_bits(found, net.state_dict())


def test_weights_that_are_there_twice_are_not_guessed(tmp_path):
    state = trained().state_dict()
    both = prefixed(state, "student") | prefixed(state, "teacher")
    torch.save({"state_dict": both}, tmp_path / "x.pt")
    expected = r"hold the weights once.*\['student\.', 'teacher\.'\]"
    with pytest.raises(ValueError, match=expected):
        ensemble_of([tmp_path / "x.pt"], network)


def test_shapes_tell_parts_of_one_structure_apart(tmp_path):
    small, wide = trained(width=5).state_dict(), trained(width=9).state_dict()
    torch.save(
        prefixed(small, "student") | prefixed(wide, "teacher"), tmp_path / "x.pt"
    )
    (member,) = ensemble_of([tmp_path / "x.pt"], lambda: network(9)).members
    assert same_bits(member.state_dict(), wide)


def test_what_is_missing_under_a_prefix_is_listed_without_it(tmp_path):
    state = dict(trained().state_dict())
    del state["2.bias"]
    torch.save(prefixed(state, "model"), tmp_path / "x.pt")
    with pytest.raises(ValueError, match=r"missing \['2\.bias'\] \(1\) and unexp"):
        ensemble_of([tmp_path / "x.pt"], network)


@pytest.mark.parametrize("words", [(), ("module",), ("model",)])
def test_the_released_network_is_known_under_a_prefix_too(words):
    net = ResNet18(width=2)
    names = net.released_names()
    state = {}
    for name, tensor in net.state_dict().items():
        part = next(part for part in names if name.startswith(f"{part}."))
        state[names[part] + name.removeprefix(part)] = tensor
    (member,) = ensemble_of(
        [prefixed(state, *words)], lambda: ResNet18(width=2)
    ).members
    assert same_bits(member.state_dict(), net.state_dict())


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
    torch.save(network().state_dict(), tmp_path / "x.pt")
    whole = (tmp_path / "x.pt").read_bytes()
    (tmp_path / "x.pt").write_bytes(whole[:200])
    with pytest.raises(ValueError, match="written by torch"):
        read_checkpoint(tmp_path / "x.pt")
    (tmp_path / "x.safetensors").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="must be a whole safetensors file"):
        read_checkpoint(tmp_path / "x.safetensors")


def test_a_module_is_no_factory_and_files_are_no_ensemble(tmp_path):
    file = tmp_path / "x.pt"
    torch.save(network().state_dict(), file)
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


def test_members_may_differ_in_architecture(tmp_path):
    factories = [network, lambda: nn.Linear(4, 3), lambda: network(7)]
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
