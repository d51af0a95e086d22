"""Runs that Python made of arrays in memory go on from the command line."""

import sys
from functools import partial

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import tepui
from tepui.cli.main import main
from tepui.data import Arrays, Normalize
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
SCALE = Normalize((3.0,) * 6, (0.5,) * 6)


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
        assert "--data must be given, since run was trained on Arrays" in said


def test_data_sets_by_name_are_asked_for_by_it(arrays, capsys):
    class Mine(Arrays):
        pass

    inputs, targets = arrays
    ensemble = tepui.Ensemble.build(MAKE, members=2)
    tepui.fit(ensemble, Mine(inputs, targets), out="run", **HOW)
    assert "was trained on test_data_sets_by_name" in refused(capsys, "evaluate", "run")


@pytest.mark.slow
def test_arrays_that_were_written_serve_every_command(arrays, here):
    trained(arrays)
    main(["evaluate", "run", *FILE])
    main(["report", "run"])
    main(["calibrate", "run", *FILE, "--detectors"])
    main(["predict", "run", *FILE, "--out", "all.csv"])
    main(["measure", "run", *FILE, "--what", "diversity", "--out", "measured"])
    main(["export", "run", *FILE, "--to", "torch"])
    for file in ("run/report.html", "all.csv", "measured/measure.json"):
        assert (here / file).is_file()


def test_the_test_part_alone_calibrates(arrays, capsys):
    trained(arrays)
    words = ["--data", "ArrayFile(path=test.npz)"]
    main(["calibrate", "run", *words, "--held-out", "test"])
    assert tepui.load("run").calibration is not None


def test_taking_calibration_back_needs_no_data(arrays, capsys):
    trained(arrays)
    main(["calibrate", "run", *FILE])
    main(["calibrate", "run", "--remove"])
    assert "removed from run: calibration" in capsys.readouterr().out
    assert tepui.load("run").calibration is None


def test_arrays_of_a_file_are_normalized_as_those_in_memory_were(arrays):
    ensemble = trained(arrays, normalize=SCALE)
    inputs, _ = arrays
    main(["evaluate", "run", *FILE])
    found = tepui.read_logits("run").clean[0]
    expected = ensemble.predict(inputs[160:], raw=True).logits
    assert torch.allclose(found, expected, atol=1e-5)
    main(["calibrate", "run", *FILE])  # the samples that were held out are found again
    main(["predict", "run", *FILE, "--out", "seen.safetensors"])
    labels = load_file("seen.safetensors")["prediction"]
    assert labels.tolist() == expected.softmax(-1).mean(0).argmax(-1).tolist()


def test_numbers_of_another_width_are_refused(arrays, capsys):
    trained(arrays)
    parts = dict(np.load("mine.npz"))
    np.savez("mine.npz", **{**parts, "x_test": parts["x_test"][:, :5]})
    said = refused(capsys, "evaluate", "run", *FILE)
    assert "model must accept samples of shape (5,)" in said


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
    assert "--model must be given, such as --model mypackage.make_net: " in said
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
    assert "--held-out must be test, since run was validated on data that it" in said
    assert "with these 80 samples as its test part" in said
    main(["calibrate", "run", "--held-out", "test", *FILE])


def test_raw_inputs_of_a_run_without_a_preparation_are_told_with_what_to_type(
    arrays, here, capsys
):
    inputs, targets = arrays
    ensemble = tepui.Ensemble.build(MAKE, members=2)
    tepui.fit(ensemble, [*zip(inputs, targets, strict=True)], out="run", **HOW)
    np.save("new.npy", inputs[:3].numpy())
    said = refused(capsys, "predict", "run", "new.npy")
    assert "inputs must be left out, since run does not say how its training" in said
    assert "--data mypackage.MyData, got 'new.npy'" in said
    new = "import numpy, torch\n\nclass New(list):\n    def __init__(self):\n"
    new += "        x = torch.from_numpy(numpy.load('new.npy'))\n"
    new += "        super().__init__((row, -1) for row in x)\n"
    new = new.replace("(list)", "(list, torch.utils.data.Dataset)")
    (here / "my_rows.py").write_text(new)
    main(["predict", "run", "--data", "my_rows.New", "--out", "new.csv"])
    assert len((here / "new.csv").read_text().splitlines()) == 4
