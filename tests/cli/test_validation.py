"""Validation data that the command line names: a share, or data of their own."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import torch
from torch.utils.data import Dataset

from refusals import refused
from tepui.cli.main import main
from tepui.data import CIFAR10, CIFAR100, MRPC, ArrayFile, Digits, ImageFolder, Table
from tepui.data.sources import same_source
from tepui.training.run_folder import RunFolder

HOW = ["--members", "2", "--epochs", "9", "--set", "batch_size=8", "progress=none"]
DATA = ["--data", "Table(path=train.csv, target=sold)"]
OWN = ["--validation", "Table(path=later.csv, target=sold)"]


def write_rows(file, count, shift):
    rows = [
        f"{n % 7 + shift},{['red', 'blue'][n % 2]},{n % 7 // 3}" for n in range(count)
    ]
    file.write_text("\n".join(["size,color,sold", *rows]))


@pytest.fixture(autouse=True)
def tables(tmp_path, monkeypatch):
    """Two files of rows, the later ones of another mean."""
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "train.csv", 60, 0)
    write_rows(tmp_path / "later.csv", 30, 0.5)


def recorded(folder="run"):
    return RunFolder(folder).recorded()["config"]


def test_rows_of_another_file_are_read_by_the_columns_of_a_table():
    learned = Table("train.csv", "sold")
    later = learned.rows_of("later.csv")
    assert (len(later), later.classes) == (30, ("0", "1", "2"))
    sizes = torch.arange(30) % 7 + 0.5
    mean, std = learned.scaling.mean[0], learned.scaling.std[0]
    torch.testing.assert_close(later.inputs[:, 0], (sizes - mean) / std)
    assert later.targets.tolist() == [n % 7 // 3 for n in range(30)]
    with pytest.raises(ValueError, match="classes of the training rows"):
        Table("train.csv", "size", kind="classes").rows_of("later.csv")


@pytest.mark.filterwarnings("ignore:temperature")
def test_a_run_is_validated_and_calibrated_on_another_table(capsys):
    main(["train", *DATA, *HOW, *OWN, "--set", "keep=best", "--out", "run"])
    assert recorded()["validation"]["samples"] == 30
    assert recorded()["data"]["samples"] == 48  # nothing is held out of them
    assert "next: tepui calibrate run" in capsys.readouterr().out
    main(["calibrate", "run"])
    assert "calibration on 30 samples" in capsys.readouterr().out
    write_rows(Path("later.csv"), 29, 0.5)
    assert "validated on were changed" in refused(["calibrate", "run"], capsys)


OTHER = "validation must be other data than data"


@pytest.mark.parametrize(
    ("validation", "said"),
    [
        ("later.csv", "data must be written Table(path=later.csv, target="),
        ("1.5", "validation must be a share in (0, 1), got 1.5"),
        ("Table(path=train.csv, target=sold)", OTHER),
        ("Table(path=./train.csv, target=sold, ignore=[color])", OTHER),
        (
            "Table(path=later.csv, target=size)",
            "validation: target must be that of the run's own rows (sold), got",
        ),
    ],
)
def test_what_cannot_be_validated_on_is_refused(validation, said, capsys):
    words = ["--validation", validation, "--out", "run"]
    assert said in refused(["train", *DATA, *HOW, *words], capsys)
    assert not Path("run").exists()


@dataclass
class Rows(Dataset):
    """A class of one's own, of which any option may choose samples."""

    path: str = "rows"
    year: int = 2025
    part: str = "split"


def installed(folder):
    """Return a data folder in which CIFAR-10 seems to be."""
    Path(folder, CIFAR10.origin.folders[0]).mkdir(parents=True)
    return folder


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (ImageFolder, {"path": "photos"}),
        (ImageFolder, {"path": "photos", "size": 16, "mean": (0.5,) * 3}),
        (ImageFolder, {"path": "linked", "part": "all"}),
        (ImageFolder, {"path": Path("later", "..", "photos")}),
        (Table, {"path": "train.csv", "target": "sold", "ignore": ("color",)}),
        (Table, {"path": "linked.csv", "target": "size", "keep": ("size",)}),
        (ArrayFile, {"path": "./a.npz", "channels": "last"}),
        (Digits, {}),
        (CIFAR10, {"root": None, "download": True}),
        (CIFAR10, {"root": "default"}),
        (CIFAR10, {"root": "default/cifar-10-batches-py"}),
        (CIFAR100, {"root": None}),  # which is nowhere
        (MRPC, {"length": 64}),
        (Rows, {"path": "elsewhere/../rows", "part": "all"}),
    ],
)
def test_the_same_data_are_recognized_however_prepared(
    kind, options, tmp_path, monkeypatch
):
    for name in ("photos", "later"):
        (tmp_path / name).mkdir()
    (tmp_path / "linked").symlink_to(tmp_path / "photos")
    (tmp_path / "linked.csv").symlink_to(tmp_path / "train.csv")
    monkeypatch.setenv("TEPUI_DATA", str(installed(tmp_path / "default")))
    plain = {
        ImageFolder: {"path": "photos", "train": True},
        Table: {"path": "train.csv", "target": "sold"},
        ArrayFile: {"path": "a.npz"},
        Rows: {"path": "rows", "part": "split"},
    }
    data = partial(kind, **plain.get(kind, {}))
    assert same_source(partial(kind, **options), data)


def test_a_part_of_a_folder_of_images_is_no_other_data(tmp_path):
    for part in ("train", "test", "val"):
        (tmp_path / "photos" / part).mkdir(parents=True)
    whole = partial(ImageFolder, path="photos")
    for part in ("train", "test"):
        inside = partial(ImageFolder, path=f"photos/{part}")
        assert same_source(inside, whole)
        assert same_source(whole, inside)
    assert not same_source(partial(ImageFolder, path="photos/val"), whole)
    assert not same_source(inside, partial(ImageFolder, path="photos/train"))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (partial(ImageFolder, path="photos"), partial(ImageFolder, path="later")),
        (partial(ArrayFile, path="a.npz"), partial(ArrayFile, path="b.npz")),
        (partial(CIFAR10, root="default"), partial(CIFAR100, root="default")),
        (partial(Rows, year=2025), partial(Rows, year=2026)),
        (Digits, partial(CIFAR10, root=None)),
        (lambda: Digits(), lambda: Digits()),  # of which nothing is known
    ],
)
def test_other_data_are_no_same_data(first, second, tmp_path):
    for folder in ("default", "mine"):
        installed(tmp_path / folder)
    assert not same_source(first, second)


def test_a_table_is_no_validation_of_images(capsys):
    said = refused(["train", *HOW, *OWN, "--out", "run"], capsys)
    assert "validation must be no table where the data of the run are none" in said
