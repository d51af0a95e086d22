import shutil

import numpy as np
import pytest
import torch

from data_layouts import (
    cifar10_binary,
    cifar10_python,
    cifar100_binary,
    cifar100_python,
    images_and_labels,
    names,
    python2_pickle,
)
from tepui.data import CIFAR10, CIFAR100, split, split_at

CASES = [
    pytest.param(CIFAR10, cifar10_python, 10, id="cifar10-python"),
    pytest.param(CIFAR10, cifar10_binary, 10, id="cifar10-binary"),
    pytest.param(CIFAR100, cifar100_python, 100, id="cifar100-python"),
    pytest.param(CIFAR100, cifar100_binary, 100, id="cifar100-binary"),
]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    for dataset in (CIFAR10, CIFAR100):
        monkeypatch.setattr(dataset, "num_samples", {True: 20, False: 4})


def made(tmp_path, write, classes):
    data = [*images_and_labels(20, classes), *images_and_labels(4, classes, seed=1)]
    return write(tmp_path, *data), data


@pytest.mark.parametrize(("dataset", "write", "classes"), CASES)
def test_images_and_labels_come_out_as_they_went_in(dataset, write, classes, tmp_path):
    folder, (images, labels, test_images, test_labels) = made(tmp_path, write, classes)
    train, test = dataset(tmp_path), dataset(folder, train=False)
    assert (train.inputs.numpy() == images).all()
    assert (train.targets.numpy() == labels).all()
    assert (test.inputs.numpy() == test_images).all()
    assert (test.targets.numpy() == test_labels).all()
    assert train.inputs.dtype == torch.uint8
    assert train.targets.dtype == torch.int64
    assert train.classes == tuple(names(classes))
    assert train.normalize is test.normalize is dataset.normalization


@pytest.mark.parametrize(("dataset", "write", "classes"), CASES)
def test_a_missing_file_is_named(dataset, write, classes, tmp_path):
    folder, _ = made(tmp_path, write, classes)
    file = next(path for path in folder.iterdir() if path.name.startswith("test"))
    file.unlink()
    with pytest.raises(FileNotFoundError, match=f"{file.name} must exist"):
        dataset(tmp_path, train=False)
    dataset(tmp_path)


@pytest.mark.parametrize(("dataset", "write", "classes"), CASES)
@pytest.mark.parametrize("length", [0, 1000, -1])
def test_a_truncated_file_is_refused(dataset, write, classes, length, tmp_path):
    folder, _ = made(tmp_path, write, classes)
    file = next(path for path in folder.iterdir() if path.name.startswith("test"))
    file.write_bytes(file.read_bytes()[:length])
    with pytest.raises(ValueError, match=str(file)):
        dataset(tmp_path, train=False)


@pytest.mark.parametrize(("dataset", "write", "classes"), CASES)
def test_another_count_is_refused(dataset, write, classes, tmp_path, monkeypatch):
    made(tmp_path, write, classes)
    monkeypatch.setattr(dataset, "num_samples", {True: 25, False: 5})
    with pytest.raises(ValueError, match=r"hold (5|25) images"):
        dataset(tmp_path)


def test_labels_past_the_classes_are_refused(tmp_path):
    folder, _ = made(tmp_path, cifar10_binary, 10)
    content = bytearray((folder / "test_batch.bin").read_bytes())
    content[3073] = 10
    (folder / "test_batch.bin").write_bytes(content)
    with pytest.raises(ValueError, match="must hold 4 labels below 10, got 10"):
        CIFAR10(tmp_path, train=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": [0, 1]}, "hold 4 labels"),
        ({"labels": ["a", "b", "c", "d"]}, "hold 4 labels"),
        ({"labels": [0, 1, 2, -1]}, "hold 4 labels"),
        ({"data": [1, 2]}, "hold 4 images of 3072 bytes, got None"),
        ({"data": np.zeros((4, 100), np.uint8)}, r"got \(4, 100\)"),
    ],
)
def test_a_pickle_of_another_shape_is_refused(change, message, tmp_path):
    folder, (_, _, images, labels) = made(tmp_path, cifar10_python, 10)
    batch = {"labels": labels.tolist(), "data": images.reshape(4, -1), **change}
    (folder / "test_batch").write_bytes(python2_pickle(batch))
    with pytest.raises(ValueError, match=message):
        CIFAR10(tmp_path, train=False)


def test_a_pickle_without_labels_is_refused(tmp_path):
    folder, _ = made(tmp_path, cifar10_python, 10)
    shutil.copy(folder / "batches.meta", folder / "test_batch")
    with pytest.raises(ValueError, match="must hold 'data'"):
        CIFAR10(tmp_path, train=False)


def test_another_number_of_classes_is_refused(tmp_path):
    folder, _ = made(tmp_path, cifar10_binary, 10)
    (folder / "batches.meta.txt").write_text("cat\ndog\n")
    with pytest.raises(ValueError, match="must name 10 classes"):
        CIFAR10(tmp_path)


def test_absence_says_how_to_get_it(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"is not in .*fetch CIFAR100"):
        CIFAR100(tmp_path)


def test_a_tenth_can_be_held_out_by_seed_or_by_file(tmp_path):
    made(tmp_path, cifar10_binary, 10)
    data = CIFAR10(tmp_path)
    train, held_out = split(data, 0.1, seed=13)
    assert (len(train), len(held_out)) == (18, 2)
    np.save(tmp_path / "valid_idx.npy", np.array([19, 3]))
    train, held_out = split_at(data, tmp_path / "valid_idx.npy")
    assert torch.equal(held_out.inputs, data.inputs[[3, 19]])
    assert torch.equal(train.inputs[:4], data.inputs[[0, 1, 2, 4]])


def test_real_cifar10(shared_cifar, monkeypatch):
    monkeypatch.undo()
    train = CIFAR10(shared_cifar)
    test = CIFAR10(shared_cifar, train=False)
    assert train.targets.bincount().tolist() == [5000] * 10
    assert test.targets.bincount().tolist() == [1000] * 10
    pixels = train.inputs.float() / 255
    mean = pixels.mean((0, 2, 3)).tolist()
    assert train.normalize.mean == pytest.approx(mean, abs=1e-4)
    std = pixels.std((0, 2, 3)).tolist()
    assert train.normalize.std == pytest.approx(std, abs=1e-3)
    assert train.targets[:6].tolist() == [6, 9, 9, 4, 1, 1]
    assert train.classes[6] == "frog"


def test_real_cifar100(shared_cifar, monkeypatch):
    monkeypatch.undo()
    test = CIFAR100(shared_cifar, train=False)
    assert test.targets.bincount().tolist() == [100] * 100
    assert test.classes[0] == "apple"
    assert CIFAR100(shared_cifar).targets.bincount().tolist() == [500] * 100
