"""Published data sets, one contract: what their files hold comes out, or is refused."""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.io import savemat
from sklearn.datasets import load_digits

from data_layouts import (
    cifar10_binary,
    cifar10_python,
    cifar100_binary,
    cifar100_python,
    fashion_mnist,
    idx,
    images_and_labels,
    picture,
    python2_pickle,
    tiny_imagenet,
)
from tepui.data import (
    CIFAR10,
    CIFAR100,
    SVHN,
    Arrays,
    Digits,
    FashionMNIST,
    ImageNet,
    ImageNetA,
    ImageNetR,
    Normalize,
    TinyImageNet,
    UniformNoise,
)
from tepui.data.sets.imagenet import imagenet_wnids

SIZES = {True: 20, False: 4}
IDX = "t10k-images-idx3-ubyte"
MAT = "test_32x32.mat"
WNIDS = ["n01", "n02", "n03"]


def debian(root, *data, compressed=True, name="fashion-mnist"):
    fashion_mnist(root / name, *data[:2], "train", compressed)
    fashion_mnist(root / name, *data[2:], "t10k", compressed)
    return root / name


def as_torchvision(root, *data):
    return debian(root, *data, compressed=False, name="FashionMNIST/raw")


def matlab(root, *data):
    """Write MATLAB's layout: samples along the last axis, 10 in place of 0."""
    (root / "svhn").mkdir()
    for part, images, labels in (("train", *data[:2]), ("test", *data[2:])):
        shifted = np.where(labels == 0, 10, labels).astype(np.uint8)[:, None]
        content = {"X": images.transpose(2, 3, 1, 0), "y": shifted}
        file = root / "svhn" / f"{part}_32x32.mat"
        savemat(file, content, do_compression=True)
    return root / "svhn"


@dataclass(frozen=True)
class Layout:
    kind: Any
    write: Any
    classes: int = 10
    shape: tuple[int, ...] = (3, 32, 32)


LAYOUTS = {
    "cifar10-python": Layout(CIFAR10, cifar10_python),
    "cifar10-binary": Layout(CIFAR10, cifar10_binary),
    "cifar100-python": Layout(CIFAR100, cifar100_python, 100),
    "cifar100-binary": Layout(CIFAR100, cifar100_binary, 100),
    "fashion-mnist": Layout(FashionMNIST, debian, shape=(1, 28, 28)),
    "as torchvision": Layout(FashionMNIST, as_torchvision, shape=(1, 28, 28)),
    "svhn": Layout(SVHN, matlab),
}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    for kind in (CIFAR10, CIFAR100, FashionMNIST, SVHN):
        monkeypatch.setattr(kind, "num_samples", SIZES)
    monkeypatch.setattr(TinyImageNet, "num_samples", {True: 6, False: 6})
    monkeypatch.setattr("tepui.data.sets.imagenet.TINY_CLASSES", 3)
    monkeypatch.setattr("tepui.data.sets.imagenet.CLASSES", 3)


def made(layout, root, sizes=SIZES):
    data = [
        part
        for seed, samples in enumerate(sizes.values())
        for part in images_and_labels(samples, layout.classes, seed, layout.shape)
    ]
    data[1][0] = data[3][0] = 0
    return layout.write(root, *data), data


@pytest.mark.parametrize("name", LAYOUTS)
def test_images_and_labels_come_out_as_they_went_in(name, tmp_path):
    layout = LAYOUTS[name]
    folder, data = made(layout, tmp_path)
    train = layout.kind(tmp_path)
    at_its_place = folder.name in layout.kind.origin.folders
    test = layout.kind(folder if at_its_place else tmp_path, train=False)
    for part, images, labels in ((train, *data[:2]), (test, *data[2:])):
        assert (part.inputs.numpy() == images).all()
        assert (part.targets.numpy() == labels).all()
        assert (part.inputs.dtype, part.targets.dtype) == (torch.uint8, torch.int64)
        assert len(part.classes) == layout.classes
        assert part.normalize is layout.kind.normalization


@pytest.mark.parametrize("name", LAYOUTS)
def test_another_count_is_refused(name, tmp_path, monkeypatch):
    layout = LAYOUTS[name]
    made(layout, tmp_path)
    monkeypatch.setattr(layout.kind, "num_samples", {True: 25, False: 5})
    with pytest.raises(ValueError, match=r"hold (5|25) images|shape \((5|25), "):
        layout.kind(tmp_path)


@pytest.mark.parametrize("name", LAYOUTS)
def test_absence_says_how_to_get_it(name, tmp_path):
    kind = LAYOUTS[name].kind
    with pytest.raises(FileNotFoundError, match=rf"not in .*fetch {kind.__name__}"):
        kind(tmp_path)


def edited(path, change):
    path.write_bytes(change(path.read_bytes()))


def late_label(folder, *_):
    edited(folder / "test_batch.bin", lambda c: c[:3073] + b"\x0a" + c[3074:])


def two_classes(folder, *_):
    (folder / "batches.meta.txt").write_text("cat\ndog\n")


def meta_as_batch(folder, *_):
    shutil.copy(folder / "batches.meta", folder / "test_batch")


def batch(**change):
    def rewrite(folder, images, labels):
        held = {"labels": labels.tolist(), "data": images.reshape(4, -1), **change}
        (folder / "test_batch").write_bytes(python2_pickle(held))

    return rewrite


def raw_idx(change):
    return lambda folder, *_: edited(folder / IDX, change)


def labels_idx(labels):
    def rewrite(folder, *_):
        idx(folder / "t10k-labels-idx1-ubyte", np.array(labels), compressed=False)

    return rewrite


def mat(**change):
    right = {"X": np.zeros((32, 32, 3, 4), np.uint8), "y": np.ones(4)}
    held = {name: part for name, part in (right | change).items() if part is not None}
    return lambda folder, *_: savemat(folder / MAT, held)


DAMAGE = [
    ("cifar10-binary", late_label, "must hold 4 labels below 10, .* to 10"),
    ("cifar10-binary", two_classes, "must name 10 classes"),
    ("cifar10-python", meta_as_batch, "must hold 'data'"),
    ("cifar10-python", batch(labels=[0, 1]), "hold 4 labels"),
    ("cifar10-python", batch(labels=["a", "b", "c", "d"]), "hold 4 labels"),
    ("cifar10-python", batch(labels=[0, 1, 2, -1]), "hold 4 labels"),
    ("cifar10-python", batch(data=[1, 2]), "hold 4 images of 3072 bytes, got"),
    ("cifar10-python", batch(data=np.zeros((4, 100), np.uint8)), r"got \(4, 100\)"),
    ("as torchvision", raw_idx(lambda c: c[:-1]), "hold 3136 values"),
    ("as torchvision", raw_idx(lambda c: c + b"\0"), "hold 3136 values"),
    ("as torchvision", raw_idx(lambda c: c[:9]), "idx file of bytes with 3 axes"),
    ("as torchvision", raw_idx(lambda c: b"\0\0\x0d" + c[3:]), "idx file of bytes"),
    ("as torchvision", raw_idx(lambda c: c[:3] + b"\x02" + c[4:]), "with 3 axes, got"),
    ("as torchvision", labels_idx([1] * 5), "must hold 4 labels below 10"),
    ("as torchvision", labels_idx([10] * 4), "must hold 4 labels below 10"),
    ("svhn", mat(y=None), "hold images X and labels y"),
    ("svhn", mat(X=np.zeros((32, 32, 3, 3), np.uint8)), "shape"),
    ("svhn", mat(X=np.zeros((32, 32, 3, 4))), "got 'torch.float64"),
    ("svhn", mat(y=np.ones(3)), "hold 4 labels"),
    ("svhn", mat(y=np.zeros(4)), "from 1 to 10"),
    ("svhn", mat(X=np.zeros((32, 32), np.uint8)), "hold images"),
]


@pytest.mark.parametrize(("name", "damage", "message"), DAMAGE)
def test_damage_is_named(name, damage, message, tmp_path):
    folder, data = made(LAYOUTS[name], tmp_path)
    damage(folder, *data[2:])
    with pytest.raises(ValueError, match=message):
        LAYOUTS[name].kind(tmp_path, train=False)


def test_folders_of_other_software_are_found(tmp_path, monkeypatch):
    made(LAYOUTS["fashion-mnist"], tmp_path)
    origin = replace(FashionMNIST.origin, elsewhere=(str(tmp_path / "fashion-mnist"),))
    monkeypatch.setattr(FashionMNIST, "origin", origin)
    monkeypatch.setenv("TEPUI_DATA", str(tmp_path / "empty"))
    assert len(FashionMNIST()) == 20
    with pytest.raises(FileNotFoundError, match="apt install dataset-fashion-mnist"):
        FashionMNIST(tmp_path / "empty")


# Folders of images ---------------------------------------------------------------


def shades(data):
    return data.inputs[:, 0, 32, 32].float().div(20).round().long()


def test_both_parts_of_tiny_imagenet(tmp_path):
    folder = tiny_imagenet(tmp_path, ["n03", "n01", "n02"])
    for train in (True, False):
        data = TinyImageNet(tmp_path, train=train)
        assert data.inputs.shape == (6, 3, 64, 64)
        assert torch.equal(shades(data), data.targets)
        assert data.targets.bincount().tolist() == [2, 2, 2]
        assert data.classes == ("n01", "n02", "n03")
    assert data.targets.tolist() == [2, 0, 1, 2, 0, 1]
    val = folder / "val"  # already sorted into classes
    for line in (val / "val_annotations.txt").read_text().splitlines():
        file, wnid = line.split("\t")[:2]
        (val / wnid).mkdir(exist_ok=True)
        (val / "images" / file).rename(val / wnid / file)
    (val / "val_annotations.txt").unlink()
    (val / "images").rmdir()
    data = TinyImageNet(tmp_path, train=False)
    assert torch.equal(shades(data), data.targets)
    assert data.targets.tolist() == [0, 0, 1, 1, 2, 2]


def text(name, change):
    return lambda folder: (folder / name).write_text(
        change((folder / name).read_text())
    )


def other_size(folder):
    for path in (folder / "val" / "images").iterdir():
        picture(path, size=(32, 32))


LINES = "val/val_annotations.txt"


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda f: (f / "val/images/val_3.JPEG").unlink(), OSError, r"val_3\.JPEG"),
        (other_size, ValueError, r"\(6, 3, 64, 64\), got .* \(6, 3, 32, 32\)"),
        (text(LINES, lambda t: t[: t.rindex("val_5")]), ValueError, r"got .*\(5, "),
        (text(LINES, lambda t: t.replace("n02", "n09")), ValueError, "a file and its"),
        (text(LINES, lambda t: t.replace("val_3", "../v")), ValueError, "plain file"),
        (lambda f: (f / "wnids.txt").unlink(), OSError, r"wnids\.txt must exist"),
        (text("wnids.txt", lambda t: t[:7]), ValueError, "must list 3 classes, got 2"),
    ],
)
def test_damage_of_tiny_imagenet_is_named(change, error, message, tmp_path):
    change(tiny_imagenet(tmp_path, WNIDS))
    with pytest.raises(error, match=message):
        TinyImageNet(tmp_path, train=False)


def fill(folder, wnids, images=2):
    for wnid in wnids:
        for number in range(images):
            picture(folder / wnid / f"{wnid}_{number}.JPEG", size=(40, 30))


def test_parts_of_imagenet(tmp_path):
    fill(tmp_path / "imagenet" / "train", WNIDS, images=3)
    fill(tmp_path / "imagenet" / "val", WNIDS)
    train, test = ImageNet(tmp_path), ImageNet(tmp_path, train=False, size=16)
    assert train.targets.bincount().tolist() == [3] * 3
    assert test.targets.bincount().tolist() == [2] * 3
    assert train[0][0].shape == (3, 224, 224)
    assert test[0][0].shape == (3, 16, 16)
    assert train.class_subset.all()


@pytest.mark.parametrize(
    ("dataset", "name"), [(ImageNetA, "imagenet-a"), (ImageNetR, "imagenet-r")]
)
def test_sets_of_imagenets_classes_mark_those_that_are_there(dataset, name, tmp_path):
    fill(tmp_path / name, ["n02"])
    (tmp_path / name / "README.txt").write_text("")
    with pytest.raises(FileNotFoundError, match=r"wnids\.txt must list the 3"):
        dataset(tmp_path)
    (tmp_path / "imagenet").mkdir()
    (tmp_path / "imagenet" / "wnids.txt").write_text("\n".join(reversed(WNIDS)))
    for root in (tmp_path, tmp_path / name):
        assert dataset(root).targets.tolist() == [1, 1]
    (tmp_path / "imagenet" / "wnids.txt").unlink()
    fill(tmp_path / "imagenet" / "val", WNIDS[:2])
    with pytest.raises(ValueError, match="must name 3 classes, got 2"):
        imagenet_wnids(tmp_path / "imagenet")
    fill(tmp_path / "imagenet" / "val", WNIDS[2:])
    data = dataset(tmp_path, size=8)
    assert data.class_subset.tolist() == [False, True, False]
    assert data.classes == tuple(WNIDS)
    with pytest.raises(ValueError, match="train must be false"):
        dataset(tmp_path, train=True)
    fill(tmp_path / name, ["n09"])
    with pytest.raises(ValueError, match="n09 must be one of 3 classes"):
        dataset(tmp_path)


# Sets that need no files ---------------------------------------------------------


def pixels(data):
    return [tuple(image.flatten().mul(16).int().tolist()) for image in data.inputs]


def test_digits_are_scikit_learns_with_a_split_that_never_moves():
    parts = train, test = Digits(), Digits(train=False)
    bunch = load_digits()
    images = bunch.images.astype(int).reshape(1797, -1)
    original = zip(map(tuple, images.tolist()), bunch.target.tolist(), strict=True)
    found = [
        pair for d in parts for pair in zip(pixels(d), d.targets.tolist(), strict=True)
    ]
    assert sorted(found) == sorted(original)
    for data, samples in zip(parts, (1437, 360), strict=True):
        assert data.inputs.shape == (samples, 1, 8, 8)
        assert (data.inputs.dtype, data.targets.dtype) == (torch.float32, torch.int64)
        assert data.classes == tuple("0123456789")
        expected = torch.from_numpy(np.bincount(bunch.target)) * samples / 1797
        assert (data.targets.bincount() - expected).abs().max() < 1
    weights = torch.arange(1, 361)
    assert int((weights * test.targets).sum()) == 282_737
    assert train.normalize == test.normalize
    ready = train.prepare(train.inputs)
    assert ready.mean() == pytest.approx(0, abs=1e-3)
    assert ready.std() == pytest.approx(1, abs=1e-3)


def test_noise_is_uniform_without_classes_and_follows_its_seed():
    images = UniformNoise(num_samples=400).inputs
    assert images.shape == (400, 3, 32, 32)
    counts = images.flatten().long().bincount(minlength=256).double()
    expected = images.numel() / 256
    chi_squared = ((counts - expected) ** 2 / expected).sum()
    assert 255 - 5 * 510**0.5 < chi_squared < 255 + 5 * 510**0.5
    normalize = Normalize((0.5,), (0.2,))
    like = Arrays(torch.zeros(3, 1, 8, 8), torch.zeros(3), normalize)
    data = UniformNoise(num_samples=5, like=like)
    assert data.inputs.shape == (5, 1, 8, 8)
    assert data.normalize is normalize
    assert data.targets.tolist() == [-1] * 5
    assert torch.equal(data.inputs, UniformNoise(5, like=like).inputs)
    assert not torch.equal(data.inputs, UniformNoise(5, like=like, seed=1).inputs)
    with pytest.raises(ValueError, match="num_samples must be positive, got 0"):
        UniformNoise(0)
    with pytest.raises(ValueError, match="like must hold images"):
        UniformNoise(like=Arrays(torch.zeros(2, 4), torch.zeros(2)))


# The real ones, if they are here -------------------------------------------------


def check_real(train, test, counts, scale):
    """The numbers of samples by class, and the constants, of the training images."""
    for data, count in zip((train, test), counts, strict=True):
        assert {*data.targets.bincount().tolist()} == {count}
    values = train.inputs.float() / 255
    mean, std = values.mean((0, 2, 3)).tolist(), values.std((0, 2, 3)).tolist()
    assert train.normalize.mean == pytest.approx(mean, abs=scale)
    assert train.normalize.std == pytest.approx(std, abs=10 * scale)


def test_real_cifar(shared_cifar, monkeypatch):
    monkeypatch.undo()
    train, test = CIFAR10(shared_cifar), CIFAR10(shared_cifar, train=False)
    check_real(train, test, (5000, 1000), 1e-4)
    assert train.targets[:6].tolist() == [6, 9, 9, 4, 1, 1]
    assert train.classes[6] == "frog"
    train, test = CIFAR100(shared_cifar), CIFAR100(shared_cifar, train=False)
    assert {*train.targets.bincount().tolist()} == {500}
    assert {*test.targets.bincount().tolist()} == {100}
    assert test.classes[0] == "apple"


def test_real_files_of_debian(monkeypatch, tmp_path):
    monkeypatch.undo()
    if not Path("/usr/share/datasets/fashion-mnist").is_dir():
        pytest.skip("dataset-fashion-mnist is not installed")
    monkeypatch.setenv("TEPUI_DATA", str(tmp_path))
    train, test = FashionMNIST(), FashionMNIST(train=False)
    check_real(train, test, (6000, 1000), 5e-5)
    assert train.classes[train.targets[0]] == "ankle boot"


def test_real_validation_images(shared_tiny_imagenet, monkeypatch):
    monkeypatch.undo()
    data = TinyImageNet(shared_tiny_imagenet, train=False)
    check_real(data, data, (50, 50), 5e-3)
    listed = (shared_tiny_imagenet / "tiny-imagenet-200" / "val_labels.txt").read_text()
    classes = sorted({line.split("\t")[1] for line in listed.splitlines()})
    assert data.classes == tuple(classes)
    with pytest.raises(FileNotFoundError, match="train must be a folder"):
        TinyImageNet(shared_tiny_imagenet)
