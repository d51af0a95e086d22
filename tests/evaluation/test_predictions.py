"""Predictions in files that other programs read."""

import csv
from itertools import compress

import pytest
import torch
from torch import nn

from ensembles.blobs import blobs, overconfident
from tepui import Ensemble, metrics, tasks
from tepui.core.storage import read_tensors
from tepui.data import Arrays, Normalize
from tepui.data.preparation import Preparation
from tepui.evaluation import FeatureDetectors, predictions, write_predictions
from tepui.evaluation.predictions import KIND
from tepui.tasks import ClassPrediction

X = torch.randn(20, 4, generator=torch.Generator().manual_seed(0))
Y = torch.arange(20) % 3
LABELED = Arrays(X, Y)
TABLES = pytest.mark.parametrize("ending", [".csv", ".parquet"])


def linear(task=None, outputs=3, **known):
    ensemble = Ensemble.build(lambda: nn.Linear(4, outputs), members=2, task=task)
    ensemble.preparation = Preparation(**known) if known else None
    return ensemble


def written(ensemble, file, data=LABELED, **how):
    """The columns of a file, written in batches of eight samples."""
    write_predictions(ensemble, data, file, **{"batch_size": 8, **how})
    if file.suffix == ".safetensors":
        return read_tensors(file, KIND)[0]
    if file.suffix == ".csv":
        with file.open(newline="") as opened:
            rows = list(csv.DictReader(opened))
        return {name: [row[name] for row in rows] for name in rows[0]}
    parquet = pytest.importorskip("pyarrow.parquet")
    return parquet.read_table(file).to_pydict()


def numbers(column, dtype=torch.float32):
    return torch.tensor([float(value) for value in column], dtype=dtype)


@pytest.mark.parametrize("rule", ["probability", "logit", "vote"])
def test_statistics_are_what_metrics_and_definitions_say(rule):
    logits = linear().logits(X)
    found = ClassPrediction(logits, rule=rule).statistics(Y)
    mean = logits.softmax(-1).mean(0)
    probs = metrics.ensemble_probs(logits, rule=rule)
    expected = {
        "target": Y,
        "prediction": metrics.ensemble_predictions(logits, rule=rule),
        "confidence": probs.max(-1).values,
        "label_probability": mean[torch.arange(20), Y],
        "pds": metrics.pds(logits),
        "total_uncertainty": metrics.entropy(logits),
        "epistemic": metrics.mutual_information(logits),
    }
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        torch.testing.assert_close(found[name], values)
    labels = Y.clone()
    labels[3] = -1
    of_labels = ClassPrediction(logits).statistics(labels)["label_probability"]
    assert of_labels.isnan().nonzero().tolist() == [[3]]
    with pytest.raises(ValueError, match="one class index below 3 per sample"):
        ClassPrediction(logits).statistics(Y + 1)


@TABLES
def test_a_table_says_what_predict_says(ending, tmp_path):
    ensemble, names = linear(classes=("a", "b", "c")), [f"image {n}" for n in range(20)]
    how = {"named": {"name": names}, "probabilities": True}
    table = written(ensemble, tmp_path / f"out{ending}", **how)
    out = ensemble.predict(X)
    assert table["name"] == names
    assert [int(n) for n in table["sample"]] == list(range(20))
    assert [int(n) for n in table["target"]] == Y.tolist()
    assert table["class"] == [("a", "b", "c")[n] for n in out.labels.tolist()]
    expected = {
        "confidence": out.confidence,
        "total_uncertainty": out.total_uncertainty,
        "epistemic": out.epistemic,
        "probability_b": out.probs[:, 1],
    }
    for name, values in expected.items():
        torch.testing.assert_close(numbers(table[name]), values)
    digits = [len(f"{n}".strip("0.").partition("e")[0]) for n in table["confidence"]]
    assert max(digits) <= 9  # those of float32


def test_what_fails_midway_leaves_what_was_there(tmp_path, monkeypatch):
    ensemble, file = linear(), tmp_path / "out.csv"
    file.write_text("before")
    real = predictions._numbers

    def failing(*arguments):
        if len(left) == 2:
            raise KeyboardInterrupt
        left.append(1)
        return real(*arguments)

    left: list[int] = []
    monkeypatch.setattr(predictions, "_numbers", failing)
    with pytest.raises(KeyboardInterrupt):
        written(ensemble, file, overwrite=True)
    assert file.read_text() == "before"
    assert [*tmp_path.iterdir()] == [file]


def test_names_are_shown_and_not_executed_by_spreadsheets(tmp_path):
    ensemble = linear(classes=("=1+1", "-1", "@SUM(1)\x1b[2J"))
    names = ["+cmd|' /C calc'!A0", " =x", "+1.5", *["a\rb"] * 17]
    out = tmp_path / "out.csv"
    table = written(ensemble, out, named={"name": names}, probabilities=True)
    assert table["name"][:4] == [f"'{names[0]}", "' =x", "+1.5", "a b"]
    assert {*table["class"]} <= {"'=1+1", "-1", "'@SUM(1) [2J"}
    assert "\x1b" not in out.read_text()


@pytest.mark.parametrize(("mean", "std"), [(3.0, 2.0), (1.7e9, 5.0), (-20.0, 1e-6)])
def test_numbers_in_units_have_the_digits_that_are_known(mean, std, tmp_path):
    data = Arrays(X, torch.randn(20, 1))
    ensemble = linear(tasks.Gaussians(), 2, units=Normalize((mean,), (std,)))
    table = written(ensemble, tmp_path / "out.csv", data)
    values = numbers(table["mean"], torch.double)
    seen = ensemble.logits(X)[..., 0].mean(0).double()
    torch.testing.assert_close((values - mean) / std, seen, atol=5e-7, rtol=1e-6)
    expected = data.targets[:, 0].double() * std + mean
    torch.testing.assert_close(numbers(table["target"], torch.double), expected)


HALF = torch.cat([torch.full((8,), -1), torch.arange(12) % 3])
NONE = torch.full((20,), -1)


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".safetensors"])
@pytest.mark.parametrize("labels", [HALF, HALF.flip(0)], ids=["first", "last"])
def test_a_partly_labeled_file_keeps_its_labels(ending, labels, tmp_path):
    """-1 and NaN stand where there is none, be it in a whole batch."""
    ensemble, data = linear(), Arrays(X, labels)
    table = written(ensemble, tmp_path / f"out{ending}", data)
    expected = ensemble.predict(X).statistics(labels)
    assert [int(value) for value in table["target"]] == labels.tolist()
    for name in ("label_probability", "confidence", "pds"):
        values = numbers(table[name]).nan_to_num(9)
        torch.testing.assert_close(values, expected[name].nan_to_num(9))


@pytest.mark.parametrize("task", [None, tasks.Labels()])
def test_who_has_no_labels_gets_no_column_of_them(task, tmp_path):
    several = NONE[:, None].expand(-1, 3) if task else NONE
    table = written(linear(task), tmp_path / "out.csv", Arrays(X, several))
    assert not [name for name in table if name.startswith(("target", "label"))]


@pytest.mark.parametrize("classes", [("ham", "spam"), ("spam",), ()])
def test_the_answer_of_a_yes_or_no_has_its_name_in_a_table(classes, tmp_path):
    ensemble = linear(tasks.Labels(), 1, classes=classes)
    data = Arrays(X, (X[:, :1] > 0).long())
    table = written(ensemble, tmp_path / "out.csv", data)
    chosen = ensemble.predict(X).labels[:, 0].tolist()
    assert {*chosen} == {0, 1}
    assert [int(answer) for answer in table["prediction"]] == chosen
    no, yes = ("", *classes)[-2:] if classes else (None, None)
    expected = [yes if answer else no for answer in chosen] if classes else None
    assert table.get("class") == expected


@TABLES
@pytest.mark.parametrize("count", [1, 2])
def test_columns_of_quantiles_and_bounds_carry_their_levels(ending, count, tmp_path):
    levels, data = (0.05, 0.5, 0.95), Arrays(X, torch.randn(20, count))
    ensemble = linear(tasks.Quantiles(levels), 3 * count)
    ensemble.conformal(data, coverage=0.8)
    table, out = written(ensemble, tmp_path / f"out{ending}", data), ensemble.predict(X)
    for n in range(count):
        own = "" if count == 1 else f"_{n}"
        expected = {
            f"quantile_{level}": out.quantiles[place, :, n]
            for place, level in enumerate(levels)
        }
        lower, upper = (bound[:, n] for bound in out.conformal_interval)
        expected |= {"conformal_lower_0.8": lower, "conformal_upper_0.8": upper}
        for name, values in expected.items():
            # Products of other numbers of rows may round otherwise.
            torch.testing.assert_close(numbers(table[f"{name}{own}"]), values)
    two = Arrays(X, torch.randn(20, 2))
    table = written(linear(tasks.Gaussians(), 4), tmp_path / "two.csv", two)
    assert {"lower_0.9_0", "upper_0.9_1", "std_0", "target_1"} <= table.keys()


def test_answers_of_pixels_are_tensors(tmp_path):
    data = Arrays(torch.randn(5, 2, 3, 3), torch.zeros(5, 3, 3).long())
    ensemble = Ensemble.build(lambda: nn.Conv2d(2, 2, 1), members=2)
    ensemble.preparation = Preparation(classes=("no", "yes"))
    file = tmp_path / "out.safetensors"
    tensors = written(ensemble, file, data)
    assert torch.equal(tensors["prediction"], ensemble.predict(data).labels)
    assert read_tensors(file, KIND)[1]["classes"] == ["no", "yes"]
    with pytest.raises(ValueError, match=r"written to \.safetensors"):
        written(ensemble, tmp_path / "out.csv", data)
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("out.csv", {}, r"out\.csv exists"),
        ("out.xlsx", {}, r"one of \.csv, \.parquet, \.safetensors"),
        ("b.csv", {"named": {"id": ["a"]}}, r"named id must be one per sample \(20\)"),
        ("b.csv", {"named": {"target": range(20)}}, r"its own, got \['target'\]"),
        ("b.csv", {"level": -1.0}, r"level must lie in \(0, 1\], got -1"),
        ("b.csv", {"rule": "none"}, "rule must be one of"),
    ],
)
def test_bad_calls_are_refused(name, options, message, tmp_path):
    (tmp_path / "out.csv").write_text("before")
    with pytest.raises((ValueError, FileExistsError), match=message):
        written(linear(), tmp_path / name, **options)
    assert [file.name for file in tmp_path.iterdir()] == ["out.csv"]


@pytest.mark.parametrize("method", ["temperature", "vector", "isotonic"])
def test_tables_hold_calibrated_answers_and_sets(tmp_path, method):
    """As predict gives them at once."""
    ensemble, data = overconfident(2), blobs(60)
    ensemble.calibrate(data, method=method)
    ensemble.conformal(data, coverage=0.8)
    file, out = tmp_path / "out.safetensors", ensemble.predict(data)
    tensors = written(ensemble, file, data, probabilities=True, batch_size=60)
    torch.testing.assert_close(tensors["confidence"], out.confidence)
    torch.testing.assert_close(tensors["probability"], out.probs)
    assert torch.equal(tensors["prediction"], out.labels)
    assert torch.equal(tensors["in_set"], out.sets)
    with pytest.raises(ValueError, match="for which the ensemble is calibrated"):
        written(ensemble, tmp_path / "other.csv", data, rule="logit")


def judged(detectors):
    """An ensemble that was given held-out data."""
    held = torch.randn(200, 4, generator=torch.Generator().manual_seed(2))
    ensemble = Ensemble.build(lambda: nn.Linear(4, 3), members=2, seed=1)
    ensemble.conformal(Arrays(held, torch.arange(200) % 3))
    if detectors:
        seen, unseen = (Arrays(x, torch.arange(100) % 3) for x in held.split(100))
        ensemble.detectors = FeatureDetectors.fit(ensemble, seen, held_out=unseen)
    return ensemble


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".safetensors"])
@pytest.mark.parametrize("detectors", [False, True])
def test_files_say_which_samples_are_unfamiliar_and_by_what(
    detectors, ending, tmp_path
):
    ensemble, file = judged(detectors), tmp_path / f"out{ending}"
    table, out = written(ensemble, file, level=0.9), ensemble.predict(LABELED)
    torch.testing.assert_close(numbers(table["unfamiliarity"]), out.unfamiliarity())
    called, by = out.unfamiliar(0.9), out.objections(0.9)
    features = ["distance", "mahalanobis", "nearest_neighbor"] * detectors
    assert [*by] == sorted(["energy", "entropy", "mutual_information", *features])
    objecting = torch.stack([*by.values()], dim=1)
    assert called.any()
    if ending == ".safetensors":
        assert torch.equal(table["unfamiliar"], called)
        assert torch.equal(table["objections"], objecting)
        assert read_tensors(file, KIND)[1]["objections"] == [*by]
        return
    assert [str(value) == "True" for value in table["unfamiliar"]] == called.tolist()
    names = [" ".join(compress(by, row)) for row in objecting.tolist()]
    assert [*table["objections"]] == names
