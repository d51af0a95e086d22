"""``tepui train --loss``: a task on the command line, from training to a file."""

import csv
import json

import numpy as np
import pytest

import tepui
from refusals import refused
from tepui.cli.main import main
from tepui.data import Digits
from tepui.losses import balanced_weights

MLP = ["--model", "MLP(hidden=[8])", "--members", "2", "--set", "progress=none"]
CASES = [
    ("BinaryCrossEntropy(positive_weights=[1, 2, 3])", 3, "multi-label", "labels"),
    ("MSE", 1, "regression", "numbers"),
    ("GaussianNLL", 2, "gaussian", "numbers"),
    ("Quantiles(levels=[0.1, 0.9])", 2, "quantiles", "numbers"),
]


@pytest.fixture
def files(tmp_path):
    """Numbers to predict, and three labels that may hold together."""
    draw = np.random.default_rng(0)
    x = draw.normal(size=(90, 4)).astype("float32")
    number, labels = x @ draw.normal(size=4), x @ draw.normal(size=(4, 3)) > 0
    for name, y in (("numbers", number), ("labels", labels)):
        parts = {"train": slice(0, 60), "test": slice(60, 90)}
        arrays = {f"x_{part}": x[rows] for part, rows in parts.items()}
        arrays |= {f"y_{part}": y[rows] for part, rows in parts.items()}
        np.savez(tmp_path / f"{name}.npz", **arrays)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "outputs", "task", "name"), CASES)
def test_the_task_follows_from_the_loss(loss, outputs, task, name, files):
    data = ["--data", f"ArrayFile(path={files / f'{name}.npz'})"]
    run, table = str(files / "run"), files / "out.csv"
    how = ["--epochs", "1", "--set", "batch_size=16", "--validation", "0.4"]
    main(["train", *data, *MLP, *how, "--loss", loss, "--out", run])
    ensemble = tepui.load(run)
    assert str(ensemble.task) == task
    assert ensemble.members[0].config["num_classes"] == outputs
    config = json.loads((files / "run" / "run.json").read_text())["config"]
    assert config["loss"]["class"] == loss.partition("(")[0]
    promised = [] if task == "multi-label" else ["--coverage", "0.8"]
    main(["calibrate", run, *data, *promised])
    main(["evaluate", run, *data, "--corruptions", "none"])
    main(["predict", run, *data, "--out", str(table)])
    with table.open(newline="") as opened:
        columns = next(csv.reader(opened))
    expected = "probability_0" if task == "multi-label" else "conformal_lower_0.8"
    assert expected in columns
    main(["export", run, *data, "--to", "torch"])


def test_missing_values_are_named_instead_of_the_learning_rate(files, capsys):
    with np.load(files / "numbers.npz") as stored:
        arrays = dict(stored)
    arrays["x_train"][[3, 9], 2] = np.nan
    np.savez(files / "holes.npz", **arrays)
    data = ["--data", f"ArrayFile(path={files / 'holes.npz'})"]
    run = str(files / "run")
    said = refused(
        ["train", *data, *MLP, "--loss", "MSE", "--epochs", "1", "--out", run], capsys
    )
    assert "must be finite (fill or drop), got 'NaN or infinity in 2 of" in said
    with pytest.raises(SystemExit):
        main(["predict", run, *data])
    assert "rate" not in said + capsys.readouterr().err


@pytest.mark.parametrize("word", ["balanced", "'balanced'"])
def test_classes_are_balanced_by_a_word(word, files):
    words = ["--loss", f"CrossEntropy(class_weights={word})", "--epochs", "1"]
    main(["train", *MLP, *words, "--out", str(files / "run")])
    config = json.loads((files / "run" / "run.json").read_text())["config"]
    expected = balanced_weights(Digits().targets)
    assert config["loss"]["class_weights"] == pytest.approx(expected)


def test_words_that_fit_no_loss_are_refused(files, capsys):
    numbers = ["--data", f"ArrayFile(path={files / 'numbers.npz'})"]
    labels = ["--data", f"ArrayFile(path={files / 'labels.npz'})"]
    for words, message in (
        (["--loss", "Huber"], "loss must be one of BinaryCrossEntropy, CrossEntropy"),
        (["--loss", "os.system"], "loss must be one of BinaryCrossEntropy, CrossEnt"),
        (["--loss", "MSE(label_smoothing=0.1)"], "argument of MSE must be"),
        (
            numbers,
            "MSE, GaussianNLL or Quantiles numbers)",
        ),
        (labels, "(tepui.losses.BinaryCrossEntropy fits several labels"),
    ):
        with pytest.raises(SystemExit):
            main(["train", *words, "--epochs", "1", "--out", str(files / "none")])
        assert message in " ".join(capsys.readouterr().err.split())
        assert not (files / "none").exists()
