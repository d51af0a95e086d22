"""A run is an object: what lies in its folder is what fit returned."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

import tepui
from tepui import Ensemble, Run
from tepui.cli.main import main
from tepui.core.storage import read_tensors, same_bits
from tepui.data import Arrays, Digits
from tepui.models import MLP

MAKE = partial(MLP, 64, (4,), 10)
QUICK = ["--model", "MLP(hidden=[4])", "--members", "2", "--set", "progress=none"]
HOW = {"method": tepui.methods.SAM(rho=0.1), "batch_size": 500, "progress": "none"}


def trained(out, data=None, **more):
    ensemble = Ensemble.build(MAKE, members=2, seed=3)
    settings = {"epochs": 2, "validation": 0.25, **HOW, **more}
    return tepui.fit(ensemble, data or Digits(), out=out, **settings)


def weights(run):
    return read_tensors(Path(run, "ensemble.safetensors"), "ensemble")[0]


@pytest.fixture
def run(tmp_path):
    return trained(tmp_path / "run")


def test_a_folder_says_what_fit_returned(run):
    opened = Run.open(run.path)
    assert str(opened) == str(run)
    assert opened.history == run.history
    assert (opened.summary, opened.kept) == (run.summary, run.kept)
    assert opened.timeline == run.timeline
    assert opened.spec == tepui.training.TrainingSpec(
        method=HOW["method"], epochs=2, batch_size=500, precision="float32"
    )
    assert opened.environment["torch"] == torch.__version__
    assert opened.evaluations == {}
    assert same_bits(opened.ensemble.state_dict(), run.ensemble.state_dict())
    (run.path / "ensemble.safetensors").unlink()  # as of one that diverged
    assert "2 members trained for 2 epochs" in str(Run.open(run.path))


def test_a_history_has_a_row_for_each_member_and_is_drawn(run):
    rows = run.history.rows()
    assert [(row["epoch"], row["member"]) for row in rows] == [
        *[(0, 0), (0, 1), (1, 0), (1, 1)]
    ]
    assert [row["loss"] for row in rows[2:]] == [*run.history[1].loss]
    (axes,) = run.history.plot().axes
    drawn = {line.get_label(): [*line.get_ydata()] for line in axes.lines}
    assert drawn["validation loss 1"] == [e.validation_loss[1] for e in run.history]


def test_what_was_held_out_and_what_was_learned_are_all_of_the_data(run):
    learned, unseen = run.data(), run.held_out()
    rows = torch.cat([learned.inputs, unseen.inputs]).flatten(1)
    whole = Digits().inputs.flatten(1)
    assert len(learned) == round(0.75 * len(whole))
    assert rows.float().sort(0).values.equal(whole.float().sort(0).values)


def test_data_that_changed_are_named(tmp_path):
    few = np.random.default_rng(0).normal(size=(40, 64)).astype(np.float32)
    file = tmp_path / "mine.npz"

    def write(inputs):
        parts = {f"x_{part}": inputs for part in ("train", "test")}
        labels = np.arange(len(inputs)) % 10
        np.savez(file, **parts, y_train=labels, y_test=labels)

    write(few)
    data = f"ArrayFile(path={file})"
    main(
        ["train", "--data", data, *QUICK, "--epochs", "1", "--out", str(tmp_path / "a")]
    )
    run = Run.open(tmp_path / "a")
    assert len(run.data()) == 40
    for inputs, what in ((few[1:], "got '39 samples'"), (few + 1, "or changed ones")):
        write(inputs)
        with pytest.raises(ValueError, match=what):
            Run.open(tmp_path / "a").data()
    file.unlink()
    with pytest.raises(FileNotFoundError, match=r"mine\.npz"):
        Run.open(tmp_path / "a").data()


def test_python_and_the_command_line_say_the_same(run, tmp_path, capsys):
    noise = {"noise": "UniformNoise"}
    found = run.evaluate(ood=noise, corruptions="none")
    main(["evaluate", str(run.path), "--ood", "noise=UniformNoise", "--overwrite"])
    printed = capsys.readouterr().out
    assert f"{found.clean.nll:.4g}" in printed
    assert Run.open(run.path).evaluations["noise"].keys() == found.ood["noise"].keys()
    run.calibrate(coverage=0.8)
    by_python = weights(run.path)
    main(["calibrate", str(run.path), "--coverage", "0.8"])
    assert same_bits(weights(run.path), by_python)
    assert run.uncalibrate() == ["calibration", "conformal sets or intervals"]
    predicted = Run.open(run.path).predict()
    expected = tepui.load(run.path).predict(Digits(train=False))
    assert predicted.logits.equal(expected.logits)


def test_an_evaluation_of_other_data_is_kept(run):
    run.evaluate(shifted={"half": Digits(train=False).subset(range(99))})
    few = Digits(train=False).subset(range(9))
    with pytest.raises(FileExistsError, match=r"half\.json exists; pass overwrite"):
        run.evaluate(shifted={"half": few})
    found = run.evaluate(shifted={"half": few}, overwrite=True)
    assert run.evaluations["half"]["nll"] == found.natural["half"].nll


def test_folders_without_a_run_are_called_so(tmp_path):
    (tmp_path / "empty").mkdir()
    for name, said in (("empty", "holds no run and no ensemble"), ("no", "no folder")):
        for opens in (Run.open, tepui.load):
            with pytest.raises(FileNotFoundError, match=said):
                opens(tmp_path / name)
    half = trained(tmp_path / "half", stop_after=1)
    assert len(Run.open(half.path).history) == 1
    with pytest.raises(FileNotFoundError, match="has not ended"):
        _ = Run.open(half.path).ensemble
    with pytest.raises(ValueError, match="keep a run"):
        trained(None).evaluate()


def test_the_file_of_an_ensemble_is_loaded_too(run):
    found = tepui.load(run.path / "ensemble.safetensors")
    assert same_bits(found.state_dict(), run.ensemble.state_dict())


@pytest.mark.parametrize("held", [0.25, None])
def test_a_run_goes_on_to_the_same_bits(tmp_path, held):
    whole = trained(tmp_path / "whole", epochs=3, validation=held)
    trained(tmp_path / "half", epochs=3, validation=held, stop_after=1)
    half = Run.open(tmp_path / "half").resume(progress="none", stop_after=2)
    assert len(half.history) == 2
    done = half.resume(progress="none")
    assert same_bits(weights(done.path), weights(whole.path))
    assert [r.loss for r in done.history] == [r.loss for r in whole.history]


def test_models_and_data_of_ones_own_are_given_again(tmp_path):
    data = Arrays(torch.randn(60, 5), torch.arange(60) % 3)
    how = {"epochs": 2, **HOW, "out": tmp_path / "run"}
    linear = partial(torch.nn.Linear, 5, 3)
    tepui.fit(Ensemble.build(linear, members=2), data, **how, stop_after=1)
    with pytest.raises(ValueError, match="data must be given, since"):
        Run.open(tmp_path / "run").resume()
    with pytest.raises(ValueError, match="factory must be given"):
        Run.open(tmp_path / "run").resume(data)
    done = Run.open(tmp_path / "run", linear).resume(data, progress="none")
    how["out"] = tmp_path / "whole"
    tepui.fit(Ensemble.build(linear, members=2), data, **how)
    assert same_bits(weights(done), weights(how["out"]))
