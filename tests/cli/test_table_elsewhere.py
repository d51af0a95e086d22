"""Runs of tables in commands that do not read tables themselves."""

import re
import shlex
from pathlib import Path

import pytest

from tepui.cli.main import main

DATA = ["--data", "Table", "--data.path", "flats.csv", "--data.target", "price"]
HOW = ["--loss", "MSE", "--members", "2", "--epochs", "1", "--quiet"]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """The folder of a run that learned prices of flats from their sizes."""
    monkeypatch.chdir(tmp_path)
    rows = [f"{30 + n},{1000.5 * n}" for n in range(60)]
    (tmp_path / "flats.csv").write_text("\n".join(["size,price", *rows]))
    main(["train", *DATA, *HOW, "--out", "run"])
    return "run"


def said(capsys):
    return " ".join(capsys.readouterr().out.split())


def test_an_export_says_how_to_come_back_to_the_unit(run, capsys):
    main(["export", run, "--to", "torch"])
    mean, std = re.search(r"times (\S+) plus (\S+)", said(capsys)).group(2, 1)
    assert 20_000 < float(mean) < 40_000
    assert 10_000 < float(std) < 25_000


def test_sharpness_is_not_measured_on_a_table_of_other_rows(run, tmp_path, capsys):
    lines = (tmp_path / "flats.csv").read_text().splitlines()
    (tmp_path / "less.csv").write_text("\n".join(lines[:40]))
    other = [*DATA[:3], "less.csv", *DATA[4:]]
    with pytest.raises(SystemExit):
        main(["measure", run, "--what", "sharpness", *other])
    assert "a table with other training rows" in capsys.readouterr().err


def test_what_predict_says_to_type_works(run, capsys):
    main(["predict", run, "--out", "first.csv"])
    told = said(capsys)
    variance = "epistemic, the variance over members (std is its root)"
    assert f"answers are in the target's unit; in its square: {variance}" in told
    words = re.search(r"tepui (calibrate .*?) next:", told)[1]
    assert words == "calibrate run --coverage 0.9 --held-out test"
    main(shlex.split(words))
    main(["predict", run, "--out", "second.csv"])
    assert "unlike the training data (level 0.99 by epistemic)" in said(capsys)


def test_detectors_of_numbers_are_refused_with_what_to_type(run, capsys):
    with pytest.raises(SystemExit):
        main(["calibrate", run, "--detectors", "--held-out", "test"])
    error = capsys.readouterr().err
    assert "--detectors must be left out for the task 'regression'" in error
    words = re.search(r"after: tepui (calibrate .*)", error)[1]
    assert words == "calibrate run --coverage 0.9 --held-out test"
    main(shlex.split(words))


def test_the_way_to_detectors_works_for_a_run_that_held_nothing_out(run, capsys):
    classes = [*DATA[:3], "sold.csv", "--data.target", "sold"]
    rows = [f"{30 + n},{'yn'[n % 2]}" for n in range(60)]
    Path("sold.csv").write_text("\n".join(["size,sold", *rows]))
    main(["train", *classes, *HOW[2:], "--out", "classes"])
    main(["calibrate", "classes", "--held-out", "test"])
    main(["predict", "classes", "--out", "first.csv"])
    told = said(capsys)
    words = re.search(r"far out too: tepui (calibrate .*? --detectors)", told)[1]
    assert words == "calibrate classes --held-out test --detectors"
    main(shlex.split(words))
    main(["predict", "classes", "--out", "second.csv"])
    told = said(capsys)
    assert "by mahalanobis)" in told
    assert "next: look at unfamiliar rows and" in told
