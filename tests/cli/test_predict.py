"""``tepui predict``: new data, the run's own preparation, a table."""

import csv
from inspect import signature

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Subset

import tepui
from data_layouts import picture
from tepui.cli.main import main
from tepui.cli.predict import predict
from tepui.data import Arrays, image_files
from tepui.data.labels import unlabeled
from tepui.evaluation import new_samples, predict_shards
from tepui.metrics.held_out_scores import LEVEL
from training.cases import Plain

SMALL = ["--model", "MLP(hidden=[8])", "--members", "2", "--set", "progress=none"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("predict") / "run"
    main(["train", *SMALL, "--epochs", "1", "--out", str(out)])
    return out


def rows(file):
    with file.open(newline="") as opened:
        return list(csv.DictReader(opened))


def test_a_data_set_by_its_name(run, tmp_path, capsys):
    file = tmp_path / "digits.csv"
    main(["predict", str(run), "--data", "Digits", "--out", str(file)])
    assert "360 predictions written to" in capsys.readouterr().out
    labels = [int(row["prediction"]) for row in rows(file)]
    test = tepui.data.Digits(train=False)
    assert labels == tepui.load(run).predict(test).labels.tolist()
    assert [path.name for path in tmp_path.iterdir()] == ["digits.csv"]
    with pytest.raises(SystemExit):
        main(["predict", str(run), "--data", "Digits", "--out", str(file)])
    assert "pass --overwrite to replace it" in capsys.readouterr().err


def test_inputs_may_follow_options(run, tmp_path):
    numbers = tepui.data.Digits(train=False).inputs[:4].numpy()
    np.save(tmp_path / "new.npy", numbers)
    for number, words in enumerate(
        (
            [str(run), "--level", "0.9", str(tmp_path / "new.npy")],
            ["--probabilities", str(run), str(tmp_path / "new.npy")],
            [str(run), "--overwrite", "--data", "Digits"],
        )
    ):
        file = tmp_path / f"{number}.csv"
        main(["predict", "--out", str(file), *words])
        assert len(rows(file)) == (360 if "Digits" in words else 4)


def test_raw_images_are_prepared_as_the_run_prepared_its_own(
    run, tmp_path, monkeypatch
):
    folder = tmp_path / "photos"
    folder.mkdir()
    draw = np.random.default_rng(0)
    for number in range(3):
        pixels = draw.integers(0, 256, (8, 8), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    monkeypatch.setattr(image_files, "decode_all", None)  # what would hold all of them
    main(["predict", str(run), str(folder), "--out", str(tmp_path / "a.csv")])
    found = rows(tmp_path / "a.csv")
    assert [row["name"] for row in found] == [
        str(folder / f"{n}.png") for n in range(3)
    ]
    ensemble = tepui.load(run)
    expected = ensemble.predict(folder).confidence.tolist()
    assert [float(row["confidence"]) for row in found] == pytest.approx(expected)
    test = tepui.data.Digits(train=False)
    np.save(tmp_path / "raw.npy", test.inputs[:4].numpy())
    main(
        [
            "predict",
            str(run),
            str(tmp_path / "raw.npy"),
            "--out",
            str(tmp_path / "b.csv"),
        ]
    )
    labels = [int(row["prediction"]) for row in rows(tmp_path / "b.csv")]
    assert labels == ensemble.predict(test).labels[:4].tolist()


def test_what_was_killed_goes_on_to_the_same_file(run, tmp_path, monkeypatch):
    words = ["predict", str(run), "--data", "Digits", "--probabilities"]
    words += ["--set", "shard_size=100"]
    main([*words, "--out", str(tmp_path / "whole.csv")])
    written = []

    def killed(*arguments, **options):
        found = predict_shards(*arguments, **options, world=2)
        written.append(len(found.missing))
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(new_samples, "predict_shards", killed)
        with pytest.raises(SystemExit):
            main([*words, "--out", str(tmp_path / "killed.csv")])
    assert written == [2]
    assert not (tmp_path / "killed.csv").exists()
    main([*words, "--out", str(tmp_path / "killed.csv")])
    whole, resumed = tmp_path / "whole.csv", tmp_path / "killed.csv"
    assert whole.read_text() == resumed.read_text()
    assert len(rows(whole)[0]) > 10
    assert not (tmp_path / "killed.csv.parts").exists()


def test_a_run_alone_predicts_its_own_test_data(run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    main(["predict", str(run)])
    said = " ".join(capsys.readouterr().out.split())
    assert said == (
        "360 predictions for the test data of the run written to predictions.csv "
        f"to learn which rows look unlike the training data: tepui calibrate {run} "
        "--held-out test "
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


@pytest.mark.parametrize("workers", [0, 1])
def test_images_that_cannot_be_read_are_left_out_and_named(
    workers, run, photos, tmp_path, capsys
):
    file = tmp_path / "a.csv"
    words = ["predict", str(run), str(photos), "--out", str(file)]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--set", f"workers={workers}", "batch_size=2"])
    assert ended.value.code == 1
    out, err = said(capsys)
    assert "4 predictions written to" in out
    assert "tepui: 2 of 6 images cannot be read and have no prediction:" in err
    for number in (1, 4):
        assert f"{photos / f'{number}.png'} must be a valid image: " in err
    found = rows(file)
    readable = [photos / f"{number}.png" for number in (0, 2, 3, 5)]
    assert [row["name"] for row in found] == list(map(str, readable))
    assert [row["sample"] for row in found] == ["0", "1", "2", "3"]
    expected = tepui.load(run).predict(readable).labels.tolist()
    assert [int(row["prediction"]) for row in found] == expected
    assert not (tmp_path / "a.csv.parts").exists()


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


@pytest.mark.parametrize("size", ["", ", size=6"])
def test_the_first_image_may_be_the_one_that_cannot_be_read(
    size, photos, tmp_path, capsys
):
    for kind in ("one", "two"):
        for number in range(3):
            picture(tmp_path / f"classes/{kind}/{number}.png", size=(8, 8))
    data = ["--data", f"ImageFolder(path={tmp_path / 'classes'}{size})"]
    trained = str(tmp_path / "run")
    main(["train", *data, *SMALL, "--epochs", "1", "--out", trained])
    (photos / "0.png").write_bytes(b"no image")
    file, model = tmp_path / "a.csv", ["--model", "MLP(hidden=[8])"]
    for words in ([], [*model, "--overwrite"]):
        with pytest.raises(SystemExit) as ended:
            main(["predict", trained, str(photos), "--out", str(file), *words])
        assert ended.value.code == 1
        assert "3 of 6 images cannot be read and have no prediction" in said(capsys)[1]
        names = [row["name"] for row in rows(file)]
        assert names == [str(photos / f"{number}.png") for number in (2, 3, 5)]


def test_what_was_left_out_is_known_after_a_kill(
    run, photos, tmp_path, monkeypatch, capsys
):
    file, calls = tmp_path / "a.csv", []
    words = ["predict", str(run), str(photos), "--out", str(file)]
    words += ["--set", "shard_size=1"]

    def killed(*arguments, **options):
        calls.append(len(arguments[1]))
        found = predict_shards(*arguments, **options, world=2)
        assert found.missing
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(new_samples, "predict_shards", killed)
        with pytest.raises(SystemExit):
            main(words)
    parts = tmp_path / "a.csv.parts"
    assert calls == [6, 4]
    assert len(list(parts.glob("shard-*"))) == 2
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 1
    assert "2 of 6 images cannot be read" in said(capsys)[1]
    assert len(rows(file)) == 4


def test_an_image_that_was_mended_is_predicted(run, photos, tmp_path, monkeypatch):
    file = tmp_path / "a.csv"
    words = ["predict", str(run), str(photos), "--out", str(file)]

    def killed(*arguments, **options):
        predict_shards(*arguments, **options, world=2)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(new_samples, "predict_shards", killed)
        with pytest.raises(SystemExit):
            main(words)
    for number in (1, 4):
        (photos / f"{number}.png").write_bytes((photos / "0.png").read_bytes())
    with pytest.raises(SystemExit):
        main(words)  # parts are of fewer images
    main([*words, "--overwrite"])
    assert len(rows(file)) == 6


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


def test_the_level_of_the_help_is_that_of_the_library():
    assert signature(predict).parameters["level"].default == LEVEL


def test_an_evaluation_is_printed_with_each_member(run, capsys):
    main(["evaluate", str(run), "--corruptions", "none"])
    shown = capsys.readouterr().out
    for text in ("member accuracies", "member nlls", "mistakes"):
        assert text in shown


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


def test_some_of_the_classes_of_a_run_are_known_by_their_names(run, tmp_path):
    folder = other_digits(tmp_path / "data", ("7", "3"))
    data = ["--data", f"ImageFolder(path={folder}, part=all)"]
    main(["predict", str(run), *data, "--out", str(tmp_path / "a.csv")])
    assert [row["target"] for row in rows(tmp_path / "a.csv")] == ["3", "7"]


@pytest.mark.parametrize("held", [True, False])
def test_any_data_set_can_be_without_its_labels(held):
    test = tepui.data.Digits(train=False)
    inputs = Arrays(test.inputs[:3], torch.tensor([11, 12, 13]))
    named = Named(inputs)
    found = unlabeled(inputs if held else named)
    assert [found[n][1] for n in range(len(found))] == [-1, -1, -1]
    assert torch.equal(found[0][0], inputs[0][0])


class Named(Plain):
    classes = ("cat", "dog")


def test_overwrite_begins_anew_where_parts_of_another_command_lie(
    run, tmp_path, capsys
):
    file = tmp_path / "a.csv"
    few = Subset(tepui.data.Digits(), range(9))
    predict_shards(tepui.load(run), few, tmp_path / "a.csv.parts")
    words = ["predict", str(run), "--data", "Digits", "--out", str(file)]
    with pytest.raises(SystemExit):
        main(words)
    assert "to begin anew, remove that folder" in capsys.readouterr().err
    main([*words, "--overwrite"])
    assert len(rows(file)) == 360
    assert not (tmp_path / "a.csv.parts").exists()


def test_overwrite_goes_on_with_parts_of_the_same_command(run, tmp_path, monkeypatch):
    words = ["predict", str(run), "--data", "Digits", "--overwrite"]
    words += ["--set", "shard_size=100"]
    words += ["--out", str(tmp_path / "a.csv")]
    left = []

    def killed(*arguments, **options):
        predict_shards(*arguments, **options, world=2)
        raise KeyboardInterrupt

    def gone_on(ensemble, dataset, out, **options):
        left.append(len([*out.glob("shard-*")]))
        return predict_shards(ensemble, dataset, out, **options)

    monkeypatch.setattr(new_samples, "predict_shards", killed)
    with pytest.raises(SystemExit):
        main(words)
    monkeypatch.setattr(new_samples, "predict_shards", gone_on)
    main(words)
    assert left == [2]
    assert len(rows(tmp_path / "a.csv")) == 360


@pytest.mark.parametrize("more", [[], ["--overwrite"]])
def test_a_folder_of_other_files_is_never_removed(more, run, tmp_path, capsys):
    mine = tmp_path / "a.csv.parts" / "mine.txt"
    mine.parent.mkdir()
    mine.write_text("work of years")
    with pytest.raises(SystemExit):
        main(
            [
                "predict",
                str(run),
                "--data",
                "Digits",
                "--out",
                str(tmp_path / "a.csv"),
                *more,
            ]
        )
    assert "a.csv.parts, where parts are kept until all are" in capsys.readouterr().err
    assert [*mine.parent.iterdir()] == [mine]


def test_the_inputs_are_not_overwritten_by_the_answers(tmp_path, capsys):
    run, rows = tmp_path / "run", tmp_path / "rows.csv"
    tepui.Ensemble.build(tepui.models.MLP, members=1).save(run)
    rows.write_text("a\n1\n")
    with pytest.raises(SystemExit, match="2"):
        main(["predict", str(run), str(rows), "--out", str(rows), "--overwrite"])
    assert "out must be another file than the inputs" in capsys.readouterr().err
    assert rows.read_text() == "a\n1\n"
