import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from data_layouts import fashion_mnist, images_and_labels
from tepui.data import FashionMNIST
from tepui.data.sets.images import read_idx

DEBIAN = Path("/usr/share/datasets/fashion-mnist")


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(FashionMNIST, "num_samples", {True: 7, False: 5})


def made(folder, compressed=True):
    train = images_and_labels(7, 10, shape=(1, 28, 28))
    test = images_and_labels(5, 10, seed=1, shape=(1, 28, 28))
    fashion_mnist(folder, *train, "train", compressed)
    fashion_mnist(folder, *test, "t10k", compressed)
    return train, test


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("name", ["fashion-mnist", "FashionMNIST/raw"])
def test_images_and_labels_come_out_as_they_went_in(compressed, name, small, tmp_path):
    parts = made(tmp_path / name, compressed)
    for train, (images, labels) in zip((True, False), parts, strict=True):
        data = FashionMNIST(tmp_path, train=train)
        assert (data.inputs.numpy() == images).all()
        assert (data.targets.numpy() == labels).all()
        assert data.inputs.dtype == torch.uint8
        assert len(data.classes) == 10


def test_folders_of_other_software_are_found(small, tmp_path, monkeypatch):
    made(tmp_path / "system")
    origin = replace(FashionMNIST.origin, elsewhere=(str(tmp_path / "system"),))
    monkeypatch.setattr(FashionMNIST, "origin", origin)
    monkeypatch.setenv("TEPUI_DATA", str(tmp_path / "empty"))
    assert len(FashionMNIST()) == 7
    with pytest.raises(FileNotFoundError, match="apt install dataset-fashion-mnist"):
        FashionMNIST(tmp_path / "empty")


IMAGES = "t10k-images-idx3-ubyte.gz"


def rewritten(folder, change):
    content = gzip.decompress((folder / IMAGES).read_bytes())
    (folder / IMAGES).write_bytes(gzip.compress(change(content)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content[:-1], "hold 3920 values"),
        (lambda content: content + b"\0", "hold 3920 values"),
        (lambda content: content[:9], "idx file of bytes with 3 axes"),
        (lambda content: b"\0\0", "must be an idx file of bytes"),
        (lambda content: b"\0\0\x0d" + content[3:], "be an idx file of bytes"),
        (lambda content: b"PK" + content[2:], "be an idx file of bytes"),
        (lambda content: content[:3] + b"\x02" + content[4:], "with 3 axes, got"),
    ],
)
def test_damage_is_named(change, message, small, tmp_path):
    folder = tmp_path / "fashion-mnist"
    made(folder)
    rewritten(folder, change)
    with pytest.raises(ValueError, match=message):
        FashionMNIST(tmp_path, train=False)


@pytest.mark.parametrize("length", [0, 5, 400])
def test_a_truncated_gzip_is_refused(length, small, tmp_path):
    folder = tmp_path / "fashion-mnist"
    made(folder)
    (folder / IMAGES).write_bytes((folder / IMAGES).read_bytes()[:length])
    with pytest.raises(ValueError, match=IMAGES):
        FashionMNIST(tmp_path, train=False)


def test_another_count_is_refused(small, tmp_path):
    images, labels = images_and_labels(6, 10, shape=(1, 28, 28))
    folder = tmp_path / "fashion-mnist"
    fashion_mnist(folder, images, labels, "t10k")
    with pytest.raises(ValueError, match=r"\(5, 1, 28, 28\), got .*\(6, 1, 28, 28\)"):
        FashionMNIST(tmp_path, train=False)
    fashion_mnist(folder, images[:5], labels, "t10k")
    with pytest.raises(ValueError, match="must hold 5 labels below 10"):
        FashionMNIST(tmp_path, train=False)
    fashion_mnist(folder, images[:5], np.full(5, 10), "t10k")
    with pytest.raises(ValueError, match="must hold 5 labels below 10"):
        FashionMNIST(tmp_path, train=False)


def test_idx_files_of_any_shape(tmp_path):
    from data_layouts import idx

    for shape in [(3,), (2, 3), (2, 3, 4, 5)]:
        array = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
        idx(tmp_path / "x", array)
        assert (read_idx(tmp_path / "x", len(shape)) == array).all()
    with pytest.raises(FileNotFoundError, match=r"y\.gz must exist"):
        read_idx(tmp_path / "y", 1)


@pytest.mark.skipif(not DEBIAN.is_dir(), reason="dataset-fashion-mnist not installed")
def test_real_files_of_debian(monkeypatch, tmp_path):
    monkeypatch.setenv("TEPUI_DATA", str(tmp_path))
    train, test = FashionMNIST(), FashionMNIST(train=False)
    assert train.targets.bincount().tolist() == [6000] * 10
    assert test.targets.bincount().tolist() == [1000] * 10
    pixels = train.inputs.float() / 255
    assert train.normalize.mean == pytest.approx([pixels.mean().item()], abs=5e-5)
    assert train.normalize.std == pytest.approx([pixels.std().item()], abs=5e-5)
    assert train.classes[train.targets[0]] == "ankle boot"
