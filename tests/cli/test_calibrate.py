"""``tepui calibrate``: what held-out data say stays with the run, and is used."""

import csv
from math import nan

import numpy as np
import pytest
import torch

import tepui
from tepui.cli.main import main
from tepui.data import Digits, split
from tepui.ensembles.feature_detectors import read_detectors
from tepui.evaluation import FeatureDetectors, evaluate, read_evaluation
from tepui.evaluation.applied import AppliedScores
from tepui.studies.calibration_gain import Gain
from tepui.studies.statistics import Interval

SMALL = ["--model", "MLP(hidden=[8])", "--members", "2"]


@pytest.fixture
def run(tmp_path):
    words = ["--epochs", "2", "--validation", "0.3", "--out", str(tmp_path / "run")]
    main(["train", *SMALL, *words])
    return tmp_path / "run"


def rows(file):
    with file.open(newline="") as opened:
        return list(csv.DictReader(opened))


def test_what_the_run_held_out_calibrates_it(run, tmp_path, capsys):
    before = tepui.load(run)
    main(["calibrate", str(run), "--coverage", "0.8", "--score", "aps"])
    said = " ".join(capsys.readouterr().out.split())
    assert "temperature calibration on 215 samples temperature " in said
    assert "coverage 0.8 on 216 samples" in said
    _, held = split(Digits(), 0.3, seed=0)
    for_calibration, for_sets = split(held, 0.5, seed=0)
    before.calibrate(for_calibration)
    before.conformal(for_sets, 0.8, "aps")
    test, after = Digits(train=False), tepui.load(run)
    assert torch.equal(after.predict(test).probs, before.predict(test).probs)
    main(["predict", str(run), "--out", str(tmp_path / "a.csv")])
    found = rows(tmp_path / "a.csv")
    expected = before.predict(test)
    inside = [[row[f"in_set_{n}"] == "True" for n in range(10)] for row in found]
    assert inside == expected.sets.tolist()
    confidences = [float(row["confidence"]) for row in found]
    assert confidences == pytest.approx(expected.confidence.tolist(), rel=1e-5)
    main(["evaluate", str(run), "--corruptions", "none"])
    shown = capsys.readouterr().out
    for text in ("calibrated, sets", "promised", "coverage", "size"):
        assert text in shown
    main(["calibrate", str(run), "--method", "none", "--coverage", "0.8"])
    assert tepui.load(run).calibration is None
    assert tepui.load(run).conformity.score == "threshold"


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


def test_sets_that_are_dropped_are_said(run, capsys):
    main(["calibrate", str(run), "--coverage", "0.2"])
    main(["calibrate", str(run)])
    said = " ".join(capsys.readouterr().out.split())
    assert "conformal sets or intervals of before dropped" in said
    assert tepui.load(run).conformity is None


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
    expected, found = (
        evaluate(ensemble, test, ood=noise, detectors=detectors).ood["noise"]
        for detectors in (fitted, stored)
    )
    assert found == expected
    assert "mahalanobis" in found
    main(["predict", str(run), "--out", str(tmp_path / "a.csv")])
    columns = rows(tmp_path / "a.csv")[0].keys()
    assert {"mahalanobis", "nearest_neighbor", "vim"} <= columns
    main(["evaluate", str(run), "--corruptions", "none"])
    assert "mahalanobis" in capsys.readouterr().out
    main(["verify", str(run)])
    assert "detectors" in capsys.readouterr().out
    file = run / "detectors.safetensors"
    fitted_before = file.read_bytes()
    ensemble.members[0].classifier.bias.data += 1
    with pytest.warns(UserWarning, match="they are not saved with it"):
        ensemble.save(run, overwrite=True)
    assert tepui.load(run).detectors is None
    file.write_bytes(fitted_before)
    with pytest.raises(SystemExit):
        main(["predict", str(run), "--out", str(tmp_path / "b.csv")])
    assert "must be fitted for the ensemble beside it" in capsys.readouterr().err


@pytest.mark.slow
def test_predict_says_which_rows_look_unfamiliar(run, tmp_path, capsys):
    def predicted(name, *words):
        file = tmp_path / name
        main(["predict", str(run), "--out", str(file), *words])
        return rows(file), " ".join(capsys.readouterr().out.split())

    found, said = predicted("before.csv")
    assert "unfamiliar" not in found[0]
    assert f"look unlike the training data: tepui calibrate {run}" in said
    main(["calibrate", str(run)])
    test = Digits(train=False)
    found, said = predicted("logits.csv", "--level", "0.9")
    shares = [float(row["unfamiliarity"]) for row in found]
    expected = tepui.load(run).predict(test).unfamiliarity().tolist()
    assert shares == pytest.approx(expected, abs=0.005)
    called = [row["unfamiliar"] == "True" for row in found]
    assert called == [bool(row["objections"]) for row in found]
    objects = sum("energy" in row["objections"].split() for row in found)
    told = f"{sum(called)} of 360 rows look unlike the training data (level 0.9; "
    assert f"{told}energy objects to {objects}, " in said
    assert f"mean unfamiliarity {sum(shares) / 360:.2f}, expected 0.50 " in said
    main(["calibrate", str(run), "--detectors"])
    found, said = predicted("features.csv")
    shares = [float(row["unfamiliarity"]) for row in found]
    assert "unlike the training data (level 0.99" in said
    assert "as a set" not in said
    in_python = tepui.load(run).predict(test)
    assert shares == pytest.approx(in_python.unfamiliarity().tolist(), abs=0.005)
    called = [row["unfamiliar"] == "True" for row in found]
    assert sum(called) == pytest.approx(int(in_python.unfamiliar().sum()), abs=2)
    main(["calibrate", str(run), "--method", "vector"])  # detectors stay
    found, said = predicted("again.csv")
    assert [float(row["unfamiliarity"]) for row in found] == shares
    noise = np.random.default_rng(0).random((200, 1, 8, 8), dtype=np.float32)
    np.save(tmp_path / "noise.npy", noise)
    main(
        [
            "predict",
            str(run),
            str(tmp_path / "noise.npy"),
            "--out",
            str(tmp_path / "n.csv"),
        ]
    )
    said = " ".join(capsys.readouterr().out.split())
    called = sum(row["unfamiliar"] == "True" for row in rows(tmp_path / "n.csv"))
    assert f"{called} of 200 rows look unlike the training data" in said
    shares = [float(row["unfamiliarity"]) for row in rows(tmp_path / "n.csv")]
    mean = f"mean unfamiliarity {np.mean(shares):.2f}"
    assert f"as a set they look unlike it: {mean}" in said
    with pytest.raises(SystemExit):
        predicted("wrong.csv", "--level", "99")
    assert "level must lie in (0, 1], got 99" in capsys.readouterr().err


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
    ("words", "message"),
    [
        (["--remove", "--coverage", "0.9"], "--remove must stand alone"),
        (["--score", "aps"], "--score must go with coverage"),
        (["--coverage", "1.5"], "coverage must lie in (0, 1), got 1.5"),
        (["--method", "platt"], "platt"),
    ],
)
def test_mistakes_end_in_words(words, message, run, capsys):
    weights = (run / "ensemble.safetensors").read_bytes()
    with pytest.raises(SystemExit):
        main(["calibrate", str(run), *words])
    assert message in capsys.readouterr().err
    assert (run / "ensemble.safetensors").read_bytes() == weights


def test_nothing_to_learn_takes_nothing_back(run, capsys):
    main(["calibrate", str(run), "--coverage", "0.8"])
    before = (run / "ensemble.safetensors").read_bytes()
    capsys.readouterr()
    with pytest.raises(SystemExit, match="2"):
        main(["calibrate", str(run), "--method", "none"])
    said = " ".join(capsys.readouterr().err.split())
    assert "--method must go with coverage or detectors if it is none" in said
    assert (run / "ensemble.safetensors").read_bytes() == before


def test_a_run_that_held_nothing_out_says_so(tmp_path, capsys):
    main(["train", *SMALL, "--epochs", "1", "--out", str(tmp_path)])
    with pytest.raises(SystemExit):
        main(["calibrate", str(tmp_path)])
    assert "--held-out must be test, since" in capsys.readouterr().err
    main(["calibrate", str(tmp_path), "--held-out", "test"])
    assert tepui.load(tmp_path).calibration is not None


@pytest.mark.slow
def test_an_evaluation_before_the_calibration_says_so(run, capsys):
    def after(*words):
        capsys.readouterr()
        main([*words[:1], str(run), *words[1:]])
        return " ".join(capsys.readouterr().out.split())

    assert f"next: tepui predict {run} FILES" in after("calibrate")
    after("evaluate", "--corruptions", "none")
    assert read_evaluation(run)["applied"]["clean"]
    assert f"next: tepui predict {run} FILES" in after("calibrate")  # the same again
    assert f"next: tepui evaluate {run}" in after("calibrate", "--method", "vector")
    assert "applied" not in read_evaluation(run)
    after("evaluate", "--corruptions", "none")
    assert f"next: tepui evaluate {run}" in after("calibrate")
    after("calibrate", "--remove")
    assert "applied" not in read_evaluation(run)


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["--coverage", "0.8"]])
def test_scores_on_the_samples_of_the_calibration_are_called_so(run, more, capsys):
    def told(*words):
        main(["calibrate", str(run), *more, *words])
        capsys.readouterr()
        main(["evaluate", str(run), "--corruptions", "none"])
        evaluated = " ".join(capsys.readouterr().out.split())
        main(["report", str(run)])
        page = " ".join((run / "report.html").read_text().split())
        return evaluated, page

    vouched = "Calibration was fitted on held-out data and is applied by predict."
    evaluated, page = told()
    assert "say nothing of new ones" not in evaluated + page
    assert vouched in page
    evaluated, page = told("--held-out", "test")
    for said in (evaluated, page):
        assert "was fitted on these very test samples" in said
        assert "say nothing of new ones" in said
    assert vouched not in page
    _, page = told()
    assert "these very test samples" not in page


def test_other_data_than_those_of_the_run_are_refused(run, tmp_path, capsys):
    pixels = np.zeros((30, 8, 8), dtype=np.uint8)
    labels = np.arange(30) % 10
    arrays = {"x_train": pixels, "y_train": labels, "x_test": pixels, "y_test": labels}
    np.savez(tmp_path / "mine.npz", **arrays)
    data = ["--data", f"ArrayFile(path={tmp_path / 'mine.npz'})"]
    with pytest.raises(SystemExit):
        main(["calibrate", str(run), *data])
    assert "--data must be the data set that" in capsys.readouterr().err


def test_help_shows_an_example(capsys):
    main(["calibrate", "--help"])
    example = "tepui calibrate runs/sam --coverage 0.9 --detectors"
    assert example in capsys.readouterr().out


def test_a_calibration_that_hurts_is_called_so(run, monkeypatch, capsys):
    same = AppliedScores(nll=0.5, ece=0.1)
    worse = Gain(same, same, Interval(0.1, 0.05, 0.15, 30), 30)
    monkeypatch.setattr("tepui.studies.calibration_gain.gain_of", lambda *_: worse)
    main(["calibrate", str(run)])
    said = " ".join(capsys.readouterr().out.split())
    assert "changes by +0.1000, 95 % interval +0.0500 to +0.1500" in said
    assert "calibration makes probabilities worse" in said


def test_too_few_samples_are_said_to_be(run, monkeypatch, capsys):
    same = AppliedScores(nll=0.5, ece=0.1)
    few = Gain(same, same, Interval(nan, nan, nan, 0), 1)
    monkeypatch.setattr("tepui.studies.calibration_gain.gain_of", lambda *_: few)
    main(["calibrate", str(run)])
    said = capsys.readouterr().out
    assert "calibration may not help" in said
    assert "nan" not in said
