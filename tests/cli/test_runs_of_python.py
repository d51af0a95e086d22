"""Runs that Python made of arrays in memory go on from the command line."""

import sys
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

import tepui
from tepui.cli.main import main
from tepui.data import Arrays
from tepui.models import MLP

NET = """
from torch import nn

class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3))
"""
HOW = {"method": tepui.methods.DeepEnsemble(), "epochs": 20, "progress": "none"}
FILE = ["--data", "ArrayFile(path=mine.npz)"]
MAKE = partial(MLP, 6, (4,), 3)


class Net(nn.Sequential):
    """A model of a script."""

    def __init__(self):
        super().__init__(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3))


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.fixture
def arrays(here):
    draw = torch.Generator().manual_seed(0)
    inputs = torch.randn(240, 6, generator=draw)
    noise = torch.randn(240, 3, generator=draw)
    targets = (inputs[:, :3] + noise / 2).argmax(1)
    parts = {"x_test": inputs[160:].numpy(), "y_test": targets[160:].numpy()}
    np.savez("test.npz", **parts)
    parts |= {"x_train": inputs[:160].numpy(), "y_train": targets[:160].numpy()}
    np.savez("mine.npz", **parts)
    return inputs, targets


def trained(arrays, make=MAKE, normalize=None):
    inputs, targets = arrays
    data = Arrays(inputs[:160], targets[:160], normalize)
    ensemble = tepui.Ensemble.build(make, members=2)
    tepui.fit(ensemble, data, validation=0.25, out="run", **HOW)
    return ensemble


def refused(capsys, *words):
    with pytest.raises(SystemExit, match="2"):
        main([*words])
    return " ".join(capsys.readouterr().err.split())


def test_arrays_in_memory_are_asked_for_with_what_to_type(arrays, capsys):
    trained(arrays)
    for command in ("evaluate", "export", "calibrate", "measure", "predict"):
        said = refused(capsys, command, "run")
        assert "data must be given, since run was trained on Arrays" in said


def test_classes_that_a_run_did_not_learn_are_refused(arrays, capsys):
    trained(arrays)
    parts = dict(np.load("mine.npz"))
    np.savez("mine.npz", **{**parts, "y_test": parts["y_test"] + 1})
    said = refused(capsys, "evaluate", "run", *FILE)
    assert "labels of dataset must lie in [0, 2] for 3 outputs" in said


def test_a_class_of_a_script_is_asked_for(arrays, here, capsys, monkeypatch):
    (here / "my_study.py").write_text(NET)
    sys.modules.pop("my_study", None)
    monkeypatch.setattr(Net, "__module__", "__main__")
    trained(arrays, Net)
    said = refused(capsys, "evaluate", "run", *FILE)
    assert "--model must be given: " in said
    assert "Net, which is not one of tepui.models" in said
    main(["evaluate", "run", *FILE, "--model", "my_study.Net"])
    assert (here / "run" / "evaluations/clean.json").is_file()


def test_validation_data_of_python_are_asked_for_as_a_test_part(arrays, capsys):
    inputs, targets = arrays
    ensemble = tepui.Ensemble.build(MAKE, members=2)
    own = Arrays(inputs[160:], targets[160:])
    data = Arrays(inputs[:160], targets[:160])
    tepui.fit(ensemble, data, validation=own, out="run", **HOW)
    with pytest.raises(SystemExit):
        main(["calibrate", "run", *FILE])
    said = " ".join(capsys.readouterr().err.split())
    assert "data must be what run was trained on, with what it held out (80)" in said
    main(["calibrate", "run", "--held-out", "test", *FILE])
