"""Predictions in files that other programs read."""

import csv
import os
import subprocess
import sys
from itertools import compress

import pytest
import torch
from torch import nn

import tepui
from tepui import Ensemble, tasks
from tepui.core.storage import read_tensors
from tepui.data import Arrays, Normalize
from tepui.data.preparation import Preparation
from tepui.evaluation import FeatureDetectors, predict_shards, write_predictions
from tepui.evaluation.shards import KIND, ShardedPredictions
from tepui.metrics import HeldOutScores
from tepui.metrics.held_out_scores import objections, unfamiliar_at

X = torch.randn(20, 4, generator=torch.Generator().manual_seed(0))
LABELED = Arrays(X, torch.arange(20) % 3)
UNLABELED = Arrays(X, torch.full((20,), -1))


def shards(path, task=None, outputs=3, data=LABELED, known=None, **options):
    ensemble = Ensemble.build(lambda: nn.Linear(4, outputs), members=2, task=task)
    ensemble.preparation = None if known is None else Preparation(**known)
    return ensemble, predict_shards(ensemble, data, path, shard_size=8, **options)


def read(file):
    if file.suffix == ".csv":
        with file.open(newline="") as opened:
            rows = list(csv.DictReader(opened))
        return {name: [row[name] for row in rows] for name in rows[0]}
    parquet = pytest.importorskip("pyarrow.parquet")
    return parquet.read_table(file).to_pydict()


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_table_says_what_predict_says(ending, tmp_path):
    known = {"classes": ("a", "b", "c")}
    ensemble, found = shards(tmp_path / "parts", known=known, probabilities=True)
    names = [f"image {n}" for n in range(20)]
    file = tmp_path / f"out{ending}"
    write_predictions(found, file, named={"name": names})
    table, out = read(file), ensemble.predict(X)
    assert table["name"] == names
    assert [int(n) for n in table["sample"]] == list(range(20))
    assert [int(n) for n in table["target"]] == LABELED.targets.tolist()
    assert table["class"] == [("a", "b", "c")[n] for n in out.labels.tolist()]
    numbers = {
        "confidence": out.confidence,
        "total_uncertainty": out.total_uncertainty,
        "epistemic": out.epistemic,
        "probability_b": out.probs[:, 1],
    }
    for name, expected in numbers.items():
        values = torch.tensor([float(value) for value in table[name]])
        torch.testing.assert_close(values, expected)


def test_names_are_shown_and_not_executed_by_spreadsheets(tmp_path):
    known = {"classes": ("=1+1", "-1", "@SUM(1)\x1b[2J")}
    _, found = shards(tmp_path / "parts", known=known, probabilities=True)
    names = ["+cmd|' /C calc'!A0", " =x", "+1.5", *["a\rb"] * 17]
    out = tmp_path / "out.csv"
    table = read(write_predictions(found, out, named={"name": names}))
    assert table["name"][:4] == [f"'{names[0]}", "' =x", "+1.5", "a b"]
    assert {*table["class"]} <= {"'=1+1", "-1", "'@SUM(1) [2J"}
    assert "\x1b" not in out.read_text()


def test_numbers_have_the_digits_of_float32(tmp_path):
    _, found = shards(tmp_path / "parts")
    table = read(write_predictions(found, tmp_path / "out.csv"))
    digits = [len(text.strip("0.").partition("e")[0]) for text in table["confidence"]]
    assert max(digits) <= 9
    again = torch.tensor([float(text) for text in table["confidence"]])
    assert torch.equal(again, found.statistics()["confidence"])


@pytest.mark.parametrize(("mean", "std"), [(3.0, 2.0), (1.7e9, 5.0), (-20.0, 1e-6)])
def test_numbers_in_units_have_the_digits_that_are_known(mean, std, tmp_path):
    data = Arrays(X, torch.randn(20, 1))
    known = {"units": Normalize((mean,), (std,))}
    ensemble, found = shards(tmp_path / "parts", tasks.Gaussians(), 2, data, known)
    table = read(write_predictions(found, tmp_path / "out.csv"))
    values = torch.tensor([float(text) for text in table["mean"]], dtype=torch.double)
    seen = ensemble.logits(X)[..., 0].mean(0).double()
    torch.testing.assert_close((values - mean) / std, seen, atol=5e-7, rtol=1e-6)
    targets = torch.tensor([float(text) for text in table["target"]])
    close = torch.testing.assert_close
    close(targets.double(), data.targets[:, 0].double() * std + mean)
    assert max(len(text.strip("-0.")) for text in table["std"]) <= 14


def test_who_has_no_labels_gets_no_column_of_them(tmp_path):
    _, found = shards(tmp_path / "parts", data=UNLABELED)
    table = read(write_predictions(found, tmp_path / "out.csv"))
    assert not {"target", "label_probability"} & table.keys()


HALF = torch.cat([torch.full((8,), -1), torch.arange(12) % 3])


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".safetensors"])
@pytest.mark.parametrize("labels", [HALF, HALF.flip(0)], ids=["first", "last"])
def test_a_partly_labeled_file_keeps_its_labels(ending, labels, tmp_path):
    """-1 and NaN stand where there is none, be it in a whole shard."""
    _, found = shards(tmp_path / "parts", data=Arrays(X, labels))
    file = write_predictions(found, tmp_path / f"out{ending}")
    if ending == ".safetensors":
        table = {n: t.tolist() for n, t in read_tensors(file, KIND)[0].items()}
    else:
        table = read(file)
    stored = found.statistics()
    assert [int(value) for value in table["target"]] == labels.tolist()
    for name in ("label_probability", "confidence", "pds"):
        values = torch.tensor([float(value) for value in table[name]])
        assert torch.equal(values.nan_to_num(9), stored[name].nan_to_num(9)), name
    assert torch.equal(stored["label_probability"].isnan(), labels < 0)


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".safetensors"])
def test_labels_of_several_at_once_are_kept_or_left_out_for_all(ending, tmp_path):
    targets = torch.cat([torch.full((8, 3), -1), torch.ones(12, 3).long()])
    task = tasks.Labels()
    for name, held in {"some": targets, "none": torch.full((20, 3), -1)}.items():
        ensemble = Ensemble.build(lambda: nn.Linear(4, 3), members=2, task=task)
        data, parts = Arrays(X, held), tmp_path / name
        found = predict_shards(ensemble, data, parts, shard_size=8)
        file = write_predictions(found, tmp_path / f"{name}{ending}")
        if ending == ".safetensors":
            there = "target" in read_tensors(file, KIND)[0]
        else:
            there = "target_2" in read(file)
        assert there == (name == "some")


@pytest.mark.parametrize("classes", [("ham", "spam"), ("spam",), ()])
def test_the_answer_of_a_yes_or_no_has_its_name_in_a_table(classes, tmp_path):
    data = Arrays(X, (X[:, :1] > 0).long())
    known = {"classes": classes}
    ensemble, found = shards(tmp_path / "parts", tasks.Labels(), 1, data, known)
    file = write_predictions(found, tmp_path / "out.csv")
    table, chosen = read(file), ensemble.predict(X).labels[:, 0].tolist()
    assert {*chosen} == {0, 1}
    assert [int(answer) for answer in table["prediction"]] == chosen
    no, yes = ("", *classes)[-2:] if classes else (None, None)
    expected = [yes if answer else no for answer in chosen] if classes else None
    assert table.get("class") == expected


def test_numbers_have_a_column_each(tmp_path):
    data = Arrays(X, torch.randn(20, 2))
    ensemble, found = shards(tmp_path / "parts", tasks.Gaussians(), 4, data)
    table = read(write_predictions(found, tmp_path / "out.csv"))
    mean = [float(value) for value in table["mean_1"]]
    assert mean == pytest.approx(ensemble.predict(X).mean[:, 1].tolist())
    assert {"lower_0.9_0", "upper_0.9_1", "std_0", "target_1"} <= table.keys()


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
@pytest.mark.parametrize("numbers", [1, 2])
def test_columns_of_quantiles_and_bounds_carry_their_levels(ending, numbers, tmp_path):
    levels = (0.05, 0.5, 0.95)
    data = Arrays(X, torch.randn(20, numbers))
    task, outputs = tasks.Quantiles(levels), 3 * numbers
    ensemble = Ensemble.build(lambda: nn.Linear(4, outputs), members=2, seed=1)
    ensemble.task = task
    ensemble.conformal(data, coverage=0.8)
    predict_shards(ensemble, data, tmp_path / "parts", shard_size=8)
    found = ShardedPredictions.open(tmp_path / "parts")
    table = read(write_predictions(found, tmp_path / f"out{ending}"))
    out = ensemble.predict(X)
    for number in range(numbers):
        own = "" if numbers == 1 else f"_{number}"
        for place, level in enumerate(levels):
            written = [float(value) for value in table[f"quantile_{level}{own}"]]
            expected = out.quantiles[place, :, number].tolist()
            # Products of other numbers of rows may round otherwise.
            assert written == pytest.approx(expected, abs=1e-6)
        lower = [float(value) for value in table[f"conformal_lower_0.8{own}"]]
        expected = out.conformal_interval[0][:, number].tolist()
        assert lower == pytest.approx(expected, abs=1e-6)
    file = write_predictions(found, tmp_path / "out.safetensors")
    promised = {f"conformal_{side}": [0.8] for side in ("lower", "upper")}
    document = read_tensors(file, KIND)[1]
    assert document["levels"] == {"quantiles": [*levels], **promised}


def test_tensors_keep_their_shapes(tmp_path):
    data = Arrays(torch.randn(5, 2, 3, 3), torch.zeros(5, 3, 3).long())
    ensemble = Ensemble.build(lambda: nn.Conv2d(2, 2, 1), members=2)
    ensemble.preparation = Preparation(classes=("no", "yes"))
    found = predict_shards(ensemble, data, tmp_path / "parts", shard_size=2)
    file = write_predictions(found, tmp_path / "out.safetensors")
    tensors, document = read_tensors(file, "predictions")
    assert torch.equal(tensors["prediction"], ensemble.predict(data).labels)
    assert document["classes"] == ["no", "yes"]
    with pytest.raises(ValueError, match=r"written to \.safetensors"):
        write_predictions(found, tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


def test_bad_calls_are_refused(tmp_path):
    _, found = shards(tmp_path / "parts")
    write_predictions(found, tmp_path / "out.csv")
    with pytest.raises(FileExistsError, match=r"out\.csv exists"):
        write_predictions(found, tmp_path / "out.csv")
    with pytest.raises(ValueError, match=r"one of \.csv, \.parquet, \.safetensors"):
        write_predictions(found, tmp_path / "out.xlsx")
    rule = r"named id must be one per sample \(20\), got 1"
    with pytest.raises(ValueError, match=rule):
        write_predictions(found, tmp_path / "other.csv", named={"id": ["a"]})
    with pytest.raises(ValueError, match=r"names of its own, got \['target'\]"):
        write_predictions(found, tmp_path / "other.csv", named={"target": range(20)})
    with pytest.raises(ValueError, match=r"level must lie in \(0, 1\], got -1"):
        write_predictions(found, tmp_path / "other.csv", level=-1)
    found.file(1).unlink()
    with pytest.raises(ValueError, match="hold all shards"):
        write_predictions(found, tmp_path / "other.csv")


@pytest.mark.filterwarnings("ignore:dataset")
@pytest.mark.parametrize("method", ["temperature", "vector", "isotonic"])
def test_tables_hold_calibrated_answers_and_sets(tmp_path, method):
    """As predict gives them at once."""
    noise = torch.randn(60, 4, generator=torch.Generator().manual_seed(1))
    x = X.repeat(3, 1)
    data = Arrays(x, (x + noise)[:, :3].argmax(1))
    ensemble = Ensemble.build(lambda: nn.Linear(4, 3), members=2, seed=1)
    how = {"method": tepui.methods.DeepEnsemble(), "epochs": 30, "progress": "none"}
    tepui.fit(ensemble, Arrays(data.inputs, data.inputs[:, :3].argmax(1)), **how)
    ensemble.calibrate(data, method=method)
    ensemble.conformal(data, coverage=0.8)
    options = {"shard_size": 16, "probabilities": True}
    found = predict_shards(ensemble, data, tmp_path / "parts", **options)
    out = ensemble.predict(data)
    file = write_predictions(found, tmp_path / "out.safetensors")
    tensors, _ = read_tensors(file, KIND)
    torch.testing.assert_close(tensors["confidence"], out.confidence)
    torch.testing.assert_close(tensors["probability"], out.probs)
    assert torch.equal(tensors["prediction"], out.labels)
    assert torch.equal(tensors["in_set"], out.sets)
    ensemble.calibration = None
    with pytest.raises(ValueError, match="ensemble must be what"):
        predict_shards(ensemble, data, tmp_path / "parts", **options)


def test_tables_hold_intervals_of_promised_coverage(tmp_path):
    x = torch.randn(60, 4)
    data = Arrays(x, x.sum(1))
    ensemble = Ensemble.build(lambda: nn.Linear(4, 1), members=2, seed=1)
    ensemble.task = tasks.Numbers()
    ensemble.conformal(data, coverage=0.8)
    found = predict_shards(ensemble, data, tmp_path / "parts", shard_size=16)
    lower, upper = ensemble.predict(data).conformal_interval
    assert torch.equal(found.statistics()["conformal_lower"], lower)
    assert torch.equal(found.statistics()["conformal_upper"], upper)


def judged(path, detectors=False, ending=".safetensors", level=0.9):
    """Predictions of an ensemble that was given held-out data, and their file."""
    held = torch.randn(200, 4, generator=torch.Generator().manual_seed(2))
    ensemble = Ensemble.build(lambda: nn.Linear(4, 3), members=2, seed=1)
    ensemble.conformal(Arrays(held, torch.arange(200) % 3))
    found = None
    if detectors:
        halves = (Arrays(half, torch.arange(100) % 3) for half in held.split(100))
        train, unseen = halves
        found = FeatureDetectors.fit(ensemble, train, held_out=unseen)
    done = predict_shards(
        ensemble, LABELED, path / "parts", shard_size=8, detectors=found
    )
    file = write_predictions(done, path / f"out{ending}", level=level)
    return ensemble, found, done, file


@pytest.mark.parametrize("detectors", [False, True])
def test_tables_say_which_samples_are_unfamiliar_and_by_what(detectors, tmp_path):
    ensemble, fitted, done, file = judged(tmp_path, detectors)
    tensors, document = read_tensors(file, KIND)
    features = ["distance", "mahalanobis", "nearest_neighbor"]
    ensemble.detectors = fitted
    out = ensemble.predict(LABELED)
    torch.testing.assert_close(tensors["unfamiliarity"], out.unfamiliarity())
    assert torch.equal(tensors["unfamiliar"], out.unfamiliar(0.9))
    by = sorted(["energy", "entropy", "mutual_information", *(features * detectors)])
    assert (document["unfamiliarity_by"], document["level"]) == (" ".join(by), 0.9)
    assert done.unfamiliarity_by == (*by,)
    objecting = tensors["objections"]
    assert torch.equal(objecting, torch.stack([*out.objections(0.9).values()], dim=1))
    assert torch.equal(objecting.any(1), tensors["unfamiliar"])
    assert objecting.any()


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_columns_say_yes_or_no(ending, tmp_path):
    *_, done, file = judged(tmp_path, ending=ending)
    table = read(file)
    found = done.statistics()
    called = unfamiliar_at(0.9, found["unfamiliarity"], done.held_out)
    assert [str(value) == "True" for value in table["unfamiliar"]] == called.tolist()
    by = objections(0.9, found["surprises"], called).tolist()
    names = [" ".join(compress(done.unfamiliarity_by, row)) for row in by]
    assert [*table["objections"]] == names
    assert any(names)
    if ending == ".parquet":
        parquet = pytest.importorskip("pyarrow.parquet")
        metadata = parquet.read_schema(file).metadata
        assert metadata[b"unfamiliarity_by"] == b"energy entropy mutual_information"
        assert metadata[b"level"] == b"0.9"


def test_without_held_out_data_there_are_no_such_columns(tmp_path):
    _, found = shards(tmp_path / "parts")
    file = write_predictions(found, tmp_path / "out.safetensors")
    tensors, document = read_tensors(file, KIND)
    assert not {"unfamiliarity", "unfamiliar", "objections"} & tensors.keys()
    assert not {"unfamiliarity_by", "level"} & document.keys()


def test_shards_go_on_and_those_of_other_held_out_data_are_refused(tmp_path):
    ensemble, _, done, _ = judged(tmp_path)
    before = done.statistics()["unfamiliarity"]
    done.file(1).unlink()
    again = predict_shards(ensemble, LABELED, tmp_path / "parts", shard_size=8)
    assert torch.equal(again.statistics()["unfamiliarity"], before)
    kept = ensemble.held_out_scores
    ensemble.held_out_scores = HeldOutScores(kept.names, kept.scores + 1)
    with pytest.raises(ValueError, match="ensemble must be what"):
        predict_shards(ensemble, LABELED, tmp_path / "parts", shard_size=8)


def test_names_of_classes_are_written_whatever_the_locale_says(tmp_path):
    """In a process of its own, since Python reads the locale as it starts."""
    known = {"classes": ("\u00e9", "b", "c")}
    shards(tmp_path / "parts", known=known, probabilities=True)
    code = (
        "import sys; from tepui.evaluation import ShardedPredictions as S; "
        "from tepui.evaluation import write_predictions as write; "
        "write(S.open(sys.argv[1]), sys.argv[2])"
    )
    file = tmp_path / "out.csv"
    ascii_alone = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    subprocess.run(
        [sys.executable, "-c", code, tmp_path / "parts", file],
        env={**os.environ, **ascii_alone},
        check=True,
    )
    assert "probability_é" in file.read_text(encoding="utf-8").splitlines()[0]
