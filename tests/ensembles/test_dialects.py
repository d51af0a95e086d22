"""State dicts as other programs write them: prefixes, folders, other parts."""

import argparse
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from tepui.core.storage import same_bits
from tepui.ensembles import ensemble_of
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
    state["2.bias"], state["2.extra"] = torch.zeros(3), torch.zeros(3)
    torch.save(prefixed(state, "model"), tmp_path / "x.pt")
    with pytest.raises(ValueError, match=r"unexpected \['2\.extra'\] \(1\)"):
        ensemble_of([tmp_path / "x.pt"], network)


def test_folders_of_hugging_face_are_read(tmp_path):
    state = {n: t.clone() for n, t in trained().state_dict().items()}
    one, several = tmp_path / "one", tmp_path / "several"
    one.mkdir()
    several.mkdir()
    save_file(state, one / "model.safetensors")
    parts = {"a.safetensors": [*state][:3], "b.safetensors": [*state][3:]}
    for file, names in parts.items():
        save_file({name: state[name] for name in names}, several / file)
    places = {name: file for file, names in parts.items() for name in names}
    index = several / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": places}))
    for member in ensemble_of([one, several], network).members:
        assert same_bits(member.state_dict(), state)
    index.write_text(json.dumps({"weight_map": {"a": "../one/model.safetensors"}}))
    with pytest.raises(ValueError, match="say in which file beside it each tensor"):
        ensemble_of([several], network)
    (tmp_path / "none").mkdir()
    with pytest.raises(FileNotFoundError, match="must hold weights: one of"):
        ensemble_of([tmp_path / "none"], network)


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
