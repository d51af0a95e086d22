"""``tepui train --loss``: a task on the command line, from training to a file."""

import csv
import json

import numpy as np
import pytest

import tepui
from tepui.cli.main import main

MLP = ["--model", "MLP", "--model.hidden", "[8]", "--members", "2", "--quiet"]
CASES = {
    "BinaryCrossEntropy": ([], 3, "multi_label", "labels"),
    "MSE": ([], 1, "regression", "numbers"),
    "GaussianNLL": ([], 2, "gaussian", "numbers"),
    "Quantiles": (["--loss.levels", "[0.1, 0.9]"], 2, "quantiles", "numbers"),
}


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


@pytest.mark.parametrize("loss", CASES)
def test_the_task_follows_from_the_loss(loss, files):
    options, outputs, task, name = CASES[loss]
    data = ["--data", "ArrayFile", "--data.path", str(files / f"{name}.npz")]
    run, table = str(files / "run"), files / "out.csv"
    how = ["--epochs", "1", "--batch-size", "16", "--validation", "0.4"]
    main(["train", *data, *MLP, *how, "--loss", loss, *options, "--out", run])
    ensemble = tepui.load(run)
    assert ensemble.task.name == task
    assert ensemble.members[0].config["num_classes"] == outputs
    config = json.loads((files / "run" / "run.json").read_text())["config"]
    assert config["loss"]["class"] == loss
    promised = [] if task == "multi_label" else ["--coverage", "0.8"]
    main(["calibrate", run, *data, *promised])
    main(["evaluate", run, *data, "--corruptions", "none"])
    main(["predict", run, *data, "--out", str(table)])
    with table.open(newline="") as opened:
        columns = next(csv.reader(opened))
    expected = "probability_0" if task == "multi_label" else "conformal_lower"
    assert expected in columns
    main(["export", run, *data, "--to", "torch"])


def test_words_that_fit_no_loss_are_refused(files, capsys):
    numbers = ["--data", "ArrayFile", "--data.path", str(files / "numbers.npz")]
    for words, message in (
        (
            ["--loss", "MSE", "--label-smoothing", "0.1"],
            "--label-smoothing must be left",
        ),
        (["--loss", "Huber"], "--loss must be one of CrossEntropy, BinaryCrossEntropy"),
        (["--loss", "os.system"], "--loss must name a class"),
        ([*numbers, *MLP], "MSE, GaussianNLL or Quantiles fit numbers to predict"),
    ):
        with pytest.raises(SystemExit):
            main(["train", *words, "--epochs", "1", "--out", str(files / "none")])
        assert message in " ".join(capsys.readouterr().err.split())
        assert not (files / "none").exists()
