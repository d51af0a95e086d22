import shutil

import pytest
import torch

from data_layouts import picture, tiny_imagenet
from tepui.data import TinyImageNet

WNIDS = ["n03", "n01", "n02"]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr("tepui.data.sets.imagenet.TINY_CLASSES", 3)
    monkeypatch.setattr(TinyImageNet, "num_samples", {True: 6, False: 6})


@pytest.fixture
def folder(tmp_path):
    return tiny_imagenet(tmp_path, WNIDS)


def shades(data):
    return data.inputs[:, 0, 32, 32].float().div(20).round().long()


def test_both_parts_of_the_official_layout(folder, tmp_path):
    for train in (True, False):
        data = TinyImageNet(tmp_path, train=train)
        assert data.inputs.shape == (6, 3, 64, 64)
        assert torch.equal(shades(data), data.targets)
        assert data.targets.bincount().tolist() == [2, 2, 2]
        assert data.classes == ("n01", "n02", "n03")
    assert data.targets.tolist() == [2, 0, 1, 2, 0, 1]


def test_validation_images_already_sorted_into_classes(folder, tmp_path):
    val = folder / "val"
    for line in (val / "val_annotations.txt").read_text().splitlines():
        file, wnid = line.split("\t")[:2]
        (val / wnid).mkdir(exist_ok=True)
        (val / "images" / file).rename(val / wnid / file)
    (val / "val_annotations.txt").unlink()
    (val / "images").rmdir()
    data = TinyImageNet(tmp_path, train=False)
    assert torch.equal(shades(data), data.targets)
    assert data.targets.tolist() == [0, 0, 1, 1, 2, 2]


def remove_image(folder):
    (folder / "val" / "images" / "val_3.JPEG").unlink()


def truncate_image(folder):
    path = folder / "val" / "images" / "val_3.JPEG"
    path.write_bytes(path.read_bytes()[:300])


def other_size(folder):
    for path in (folder / "val" / "images").iterdir():
        picture(path, size=(32, 32))


def shorten(folder):
    path = folder / "val" / "val_annotations.txt"
    path.write_text("\n".join(path.read_text().splitlines()[:5]))


def foreign_class(folder):
    path = folder / "val" / "val_annotations.txt"
    path.write_text(path.read_text().replace("n02", "n09"))


def climb(folder):
    path = folder / "val" / "val_annotations.txt"
    path.write_text(path.read_text().replace("val_3", "../../../val_3"))


def no_list(folder):
    (folder / "wnids.txt").unlink()


def short_list(folder):
    (folder / "wnids.txt").write_text("n01\nn02\n")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (remove_image, FileNotFoundError, r"val_3\.JPEG"),
        (truncate_image, ValueError, r"val_3\.JPEG must be a valid image"),
        (other_size, ValueError, r"\(6, 3, 64, 64\), got .* \(6, 3, 32, 32\)"),
        (shorten, ValueError, r"bytes of shape \(6, 3, 64, 64\), got .*\(5, "),
        (foreign_class, ValueError, "name a file and its class on each line"),
        (climb, ValueError, "must hold plain file names"),
        (no_list, FileNotFoundError, r"wnids\.txt must exist"),
        (short_list, ValueError, "must list 3 classes, got 2"),
    ],
)
def test_damage_is_named(change, error, message, folder, tmp_path):
    change(folder)
    with pytest.raises(error, match=message):
        TinyImageNet(tmp_path, train=False)


def test_a_class_without_images_is_refused(folder, tmp_path):
    shutil.rmtree(folder / "train" / "n02" / "images")
    with pytest.raises(ValueError, match="n02 must hold images"):
        TinyImageNet(tmp_path)


def test_real_validation_images(shared_tiny_imagenet, monkeypatch):
    monkeypatch.undo()
    data = TinyImageNet(shared_tiny_imagenet, train=False)
    assert data.targets.bincount().tolist() == [50] * 200
    pixels = data.inputs.float() / 255
    mean = pixels.mean((0, 2, 3)).tolist()
    assert data.normalize.mean == pytest.approx(mean, abs=5e-3)
    listed = (shared_tiny_imagenet / "tiny-imagenet-200" / "val_labels.txt").read_text()
    classes = sorted({line.split("\t")[1] for line in listed.splitlines()})
    assert data.classes == tuple(classes)
    with pytest.raises(FileNotFoundError, match="train must be a folder"):
        TinyImageNet(shared_tiny_imagenet)
