"""``tepui calibrate``: what held-out data say stays with the run, and is used."""

import csv
import shutil
from math import nan

import numpy as np
import pytest

import tepui
from tepui.cli.main import main
from tepui.data import Digits, split
from tepui.ensembles.feature_detectors import read_detectors
from tepui.evaluation import FeatureDetectors, evaluate
from tepui.evaluation.applied import AppliedScores
from tepui.studies.calibration_gain import Gain
from tepui.studies.statistics import Interval

SMALL = ["--model", "MLP(hidden=[8])", "--members", "2"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    out = tmp_path_factory.mktemp("calibrate") / "run"
    main(["train", *SMALL, "--epochs", "2", "--validation", "0.3", "--out", str(out)])
    return out


@pytest.fixture
def run(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "run")


def rows(file):
    with file.open(newline="") as opened:
        return list(csv.DictReader(opened))


def test_a_calibration_that_is_dropped_is_said(run, capsys):
    words = ["calibrate", str(run), "--method", "none", "--detectors"]
    main(words)
    assert "of before dropped" not in capsys.readouterr().out
    main(["calibrate", str(run)])
    assert "of before dropped" not in capsys.readouterr().out
    main(words)
    said = " ".join(capsys.readouterr().out.split())
    assert "calibration of before dropped" in said
    assert tepui.load(run).calibration is None


def test_detectors_of_features_lie_beside_the_run(run, tmp_path, capsys):
    main(["calibrate", str(run), "--method", "vector", "--detectors"])
    said = " ".join(capsys.readouterr().out.split())
    assert "detectors on 1006 samples" in said
    ensemble, test = tepui.load(run), Digits(train=False)
    assert ensemble.calibration.method == "vector"
    stored = read_detectors(run, ensemble)
    learned, _ = split(Digits(), 0.3, seed=0)  # without what the run held out
    fitted = FeatureDetectors.fit(ensemble, learned)
    noise = {"noise": tepui.data.UniformNoise(40, like=test)}
    several = []
    for ensemble.detectors in (fitted, stored):
        several.append(evaluate(ensemble, test, ood=noise).ood["noise"])
    expected, found = several
    assert found == expected
    assert "mahalanobis" in found
    main(["predict", str(run), "--out", str(tmp_path / "a.csv")])
    columns = rows(tmp_path / "a.csv")[0].keys()
    assert {"mahalanobis", "nearest_neighbor"} <= columns
    main(["evaluate", str(run), "--corruptions", "none"])
    assert "mahalanobis" in capsys.readouterr().out


def test_what_was_learned_can_be_taken_back(run, tmp_path, capsys):
    weights = (run / "ensemble.safetensors").read_bytes()
    main(["calibrate", str(run), "--coverage", "0.8", "--detectors"])
    capsys.readouterr()
    main(["calibrate", str(run), "--remove"])
    said = " ".join(capsys.readouterr().out.split())
    assert said.endswith("calibration, conformal sets or intervals, detectors")
    assert (run / "ensemble.safetensors").read_bytes() == weights
    assert not (run / "detectors.safetensors").exists()
    assert tepui.load(run).held_out_scores is None
    main(["predict", str(run), "--out", str(tmp_path / "a.csv")])
    assert "unfamiliarity" not in rows(tmp_path / "a.csv")[0]
    main(["calibrate", str(run), "--remove"])
    assert "nothing was there" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--per", "class"], "a coverage of 0.7 of each class on 216 samples"),
        (["--shift", "Digits(train=False)"], "a coverage of 0.7 under shift (weights"),
    ],
)
def test_sets_of_each_class_or_under_shift_are_made(words, said, run, capsys):
    main(["calibrate", str(run), "--coverage", "0.7", *words])
    assert said in " ".join(capsys.readouterr().out.split())
    main(["evaluate", str(run), "--corruptions", "none"])
    again = tepui.Run.open(run)
    assert 0 < again.evaluations["clean"]["accuracy"] < 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--remove", "--coverage", "0.9"], "remove must stand alone"),
        (["--score", "aps"], "score must go with coverage"),
        (["--per", "class"], "per must go with coverage"),
        (["--per", "label", "--coverage", "0.9"], "label"),
        (["--coverage", "1.5"], "coverage must lie in (0, 1), got 1.5"),
        (["--method", "platt"], "platt"),
        (["--method", "none"], "method must go with coverage or detectors if it is"),
    ],
)
def test_mistakes_end_in_words(words, message, run, capsys):
    weights = (run / "ensemble.safetensors").read_bytes()
    with pytest.raises(SystemExit):
        main(["calibrate", str(run), *words])
    assert message in capsys.readouterr().err
    assert (run / "ensemble.safetensors").read_bytes() == weights


def test_a_run_that_held_nothing_out_says_so(tmp_path, capsys):
    main(["train", *SMALL, "--epochs", "1", "--out", str(tmp_path)])
    with pytest.raises(SystemExit):
        main(["calibrate", str(tmp_path)])
    assert "held_out must be test, since" in capsys.readouterr().err
    main(["calibrate", str(tmp_path), "--held-out", "test"])
    assert tepui.load(tmp_path).calibration is not None


def test_other_data_than_those_of_the_run_are_refused(run, tmp_path, capsys):
    pixels = np.zeros((30, 8, 8), dtype=np.uint8)
    labels = np.arange(30) % 10
    arrays = {"x_train": pixels, "y_train": labels, "x_test": pixels, "y_test": labels}
    np.savez(tmp_path / "mine.npz", **arrays)
    data = ["--data", f"ArrayFile(path={tmp_path / 'mine.npz'})"]
    with pytest.raises(SystemExit):
        main(["calibrate", str(run), *data])
    assert "was trained on, with what it held out (431)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.05, 0.15, "calibration makes probabilities worse; --remove takes it back"),
        (-0.1, 0.15, "calibration may not help; --remove takes it back"),
        (nan, nan, "calibration may not help; --remove takes it back"),
    ],
)
def test_a_calibration_that_may_do_harm_is_called_so(
    low, high, said, run, monkeypatch, capsys
):
    same, change = AppliedScores(nll=0.5, ece=0.1), Interval(0.0, low, high, 30)
    found = Gain(same, same, change, 30)
    monkeypatch.setattr("tepui.studies.calibration_gain.gain_of", lambda *_: found)
    main(["calibrate", str(run)])
    assert said in " ".join(capsys.readouterr().out.split())
