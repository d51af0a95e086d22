"""``tepui predict``: new data, the run's own preparation, a table."""

import csv

import numpy as np
import pytest
import torch
from PIL import Image

import tepui
from tepui.cli.main import main

SMALL = ["--model", "MLP(hidden=[8])", "--members", "2", "--set", "progress=none"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("predict") / "run"
    main(["train", *SMALL, "--epochs", "1", "--out", str(out)])
    return out


def rows(file):
    with file.open(newline="") as opened:
        return list(csv.DictReader(opened))


def test_a_run_alone_predicts_its_own_test_data(run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    main(["predict", str(run)])
    said = " ".join(capsys.readouterr().out.split())
    assert said == (
        "360 predictions for the test data of the run written to predictions.csv "
        f"to learn which rows look unfamiliar: tepui calibrate {run} "
        "next: look at unfamiliar and uncertain rows in predictions.csv first"
    )
    labels = [int(row["prediction"]) for row in rows(tmp_path / "predictions.csv")]
    test = tepui.data.Digits(train=False)
    assert labels == tepui.load(run).predict(test).labels.tolist()


@pytest.fixture
def photos(tmp_path):
    """Six images, of which two cannot be read."""
    folder = tmp_path / "photos"
    folder.mkdir()
    draw = np.random.default_rng(0)
    for number in range(6):
        pixels = draw.integers(0, 256, (8, 8), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    (folder / "1.png").write_bytes(b"no image")
    whole = (folder / "4.png").read_bytes()
    (folder / "4.png").write_bytes(whole[: len(whole) // 2])
    return folder


def said(capsys):
    output = capsys.readouterr()
    return " ".join(output.out.split()), " ".join(output.err.split())


def test_python_leaves_out_the_same_images_and_names_them(run, photos, tmp_path):
    found = tepui.Run.open(run)
    with pytest.warns(
        UserWarning, match=r"left out:\n .*1\.png must be a valid"
    ) as told:
        out = found.predict(photos)
    assert "4.png" in str(told[0].message)
    readable = [str(photos / f"{number}.png") for number in (0, 2, 3, 5)]
    assert out.named == {"name": readable}
    assert torch.equal(out.probs, tepui.load(run).predict(readable).probs)
    assert f"largest for name {photos}" in str(out)
    file = tmp_path / "b.csv"
    written = found.write_predictions(file, photos)
    assert (written.path, written.samples) == (file, 4)
    assert [*written.left_out] == [photos / "1.png", photos / "4.png"]
    assert [row["name"] for row in rows(file)] == readable
    with pytest.raises(ValueError, match="carry must be left out for what is no table"):
        found.predict(photos / "0.png", carry="id")


def test_where_no_image_can_be_read_nothing_is_written(run, photos, tmp_path, capsys):
    for number in (0, 2, 3, 5):
        (photos / f"{number}.png").unlink()
    with pytest.raises(SystemExit) as ended:
        main(["predict", str(run), str(photos), "--out", str(tmp_path / "a.csv")])
    assert ended.value.code == 2
    assert "1.png must be a valid image" in said(capsys)[1]
    assert not (tmp_path / "a.csv").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing"], "no image or folder of images nothing"),
        (["--data", "Digts"], "(did you mean 'Digits'?)"),
        (["--set", "rule=votes"], "rule must be"),
        (["missing.png"], "no image or folder of images missing.png"),
        (["a.png", "--data", "Digits"], "inputs must be left out with --data"),
        (["a.csv"], "no image or folder of images a.csv"),
        (["--data", "Digits", "--out", "a.xlsx"], "ending of the file must be one"),
    ],
)
def test_mistakes_end_in_words(words, message, run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(["predict", str(run), *words])
    assert message in said(capsys)[1]
    assert list(tmp_path.iterdir()) == []


def other_digits(folder, labels):
    """Two images of digits in two classes that the run does not know."""
    for name in labels:
        (folder / name).mkdir(parents=True)
        Image.fromarray(np.full((8, 8), 99, np.uint8)).save(folder / name / "1.png")
    return folder


def test_labels_of_other_classes_are_left_out(run, tmp_path, capsys):
    folder = other_digits(tmp_path / "data", ("cat", "dog"))
    data = ["--data", f"ImageFolder(path={folder}, part=all)"]
    file = tmp_path / "a.csv"
    main(["predict", str(run), *data, "--out", str(file)])
    assert "labels are left out: they number other classes" in capsys.readouterr().out
    first, *_ = rows(file)
    assert len(rows(file)) == 2
    assert "target" not in first
    assert "label_probability" not in first


def test_the_inputs_are_not_overwritten_by_the_answers(tmp_path, capsys):
    run, rows = tmp_path / "run", tmp_path / "rows.csv"
    tepui.Ensemble.build(tepui.models.MLP, members=1).save(run)
    rows.write_text("a\n1\n")
    with pytest.raises(SystemExit, match="2"):
        main(["predict", str(run), str(rows), "--out", str(rows), "--overwrite"])
    assert "out must be another file than the inputs" in capsys.readouterr().err
    assert rows.read_text() == "a\n1\n"
