import numpy as np
import pytest
import torch
from PIL import Image

from data_layouts import picture
from tepui.core.processes import mark
from tepui.data import (
    CIFAR10C,
    CIFAR100C,
    Arrays,
    ImageFolder,
    ImageNet,
    ImageNetC,
    Normalize,
    TinyImageNetC,
    corrupt,
    corrupted,
    corrupted_files,
    to_arrays,
    write_corrupted,
)
from tepui.data.published import RECORD

SAMPLES = 6


def write_arrays(folder, types=("fog", "snow"), samples=SAMPLES):
    """Write the layout of CIFAR-10-C: severity by severity, labels five times."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    shape = (5 * samples, 32, 32, 3)
    made = {name: random.integers(0, 256, shape, dtype=np.uint8) for name in types}
    for name, images in made.items():
        np.save(folder / f"{name}.npy", images)
    labels = np.arange(samples) % 10
    np.save(folder / "labels.npy", np.tile(labels, 5))
    return made, labels


@pytest.mark.parametrize(
    ("dataset", "name"), [(CIFAR10C, "CIFAR-10-C"), (CIFAR100C, "CIFAR-100-C")]
)
def test_every_severity_is_its_slice(dataset, name, tmp_path):
    made, labels = write_arrays(tmp_path / name)
    copies = dataset(tmp_path)
    assert list(copies) == [(kind, s) for kind in ("snow", "fog") for s in range(1, 6)]
    for (kind, severity), copy in copies.items():
        rows = made[kind][(severity - 1) * SAMPLES : severity * SAMPLES]
        assert (copy.inputs.numpy() == rows.transpose(0, 3, 1, 2)).all()
        assert copy.targets.tolist() == labels.tolist()
    assert copy.normalize.mean[0] in (0.4914, 0.5071)


def test_types_and_severities_can_be_chosen(tmp_path):
    write_arrays(tmp_path / "CIFAR-10-C")
    copies = CIFAR10C(tmp_path, types=("snow",), severities=(5, 1))
    assert list(copies) == [("snow", 5), ("snow", 1)]
    with pytest.raises(KeyError, match="key must be one of"):
        copies["fog", 1]
    with pytest.raises(ValueError, match="types must be among"):
        CIFAR10C(tmp_path, types=("hail",))
    with pytest.raises(ValueError, match="severities must be integers from 1 to 5"):
        CIFAR10C(tmp_path, severities=(0,))
    with pytest.raises(ValueError, match="not be empty"):
        CIFAR10C(tmp_path, severities=())


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("labels", np.zeros(5 * SAMPLES - 1, int), "hold the labels repeated five"),
        ("labels", np.zeros(5 * SAMPLES - 5, int), r"bytes of shape \(25,"),
        ("fog", np.zeros((5 * SAMPLES, 32, 32, 3)), "got 'float64 of shape"),
        ("fog", np.zeros((59, 8, 10, 3), np.uint8), r"bytes of shape .* got .*\(59,"),
        ("fog", np.array([{}], dtype=object), r"fog\.npy must be a valid \.npy"),
    ],
)
def test_other_arrays_are_refused(name, values, message, tmp_path):
    write_arrays(tmp_path / "CIFAR-10-C")
    np.save(tmp_path / "CIFAR-10-C" / f"{name}.npy", values, allow_pickle=True)
    with pytest.raises(ValueError, match=message):
        CIFAR10C(tmp_path)["fog", 1]


def write_folders(folder, classes=("n01", "n02"), kinds=("fog", "snow"), size=(64, 64)):
    """Write the layout of Tiny-ImageNet-C; the red of an image tells its cell."""
    for k, kind in enumerate(kinds):
        for severity in range(1, 6):
            for c, name in enumerate(classes):
                path = folder / kind / str(severity) / name / "val_0.JPEG"
                picture(path, (40 * severity, 100 * k, 100 * c), size=size)
    return folder


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(TinyImageNetC, "num_classes", 2)
    monkeypatch.setattr(ImageNetC, "num_classes", 2)


@pytest.mark.parametrize(
    ("dataset", "name", "side"),
    [(TinyImageNetC, "Tiny-ImageNet-C", 64), (ImageNetC, "imagenet-c", 224)],
)
def test_every_folder_is_its_cell(dataset, name, side, small, tmp_path):
    write_folders(tmp_path / name)
    copies = dataset(tmp_path)
    assert len(copies) == 10
    for k, kind in enumerate(("fog", "snow")):
        for severity in (1, 5):
            copy = copies[kind, severity].held
            assert copy.inputs.shape == (2, 3, side, side)
            assert copy.targets.tolist() == [0, 1]
            middle = copy.inputs[:, :, side // 2, side // 2].float()
            expected = [[40.0 * severity, 100.0 * k, 100.0 * c] for c in (0, 1)]
            assert (middle - torch.tensor(expected)).abs().max() <= 3


def test_imagenets_copies_are_not_cut_a_second_time(small, tmp_path, monkeypatch):
    """They were 224 pixels wide when they were corrupted."""
    monkeypatch.setattr("tepui.data.sets.imagenet.CLASSES", 2)
    write_folders(tmp_path / "imagenet-c", size=(224, 224))
    for name in ("n01", "n02"):
        file = tmp_path / "imagenet" / "val" / name / "0.png"
        picture(file, size=(300, 260))
    edge = Image.new("RGB", (224, 224))
    edge.paste((255, 255, 255), (0, 0, 8, 224))
    edge.save(tmp_path / "imagenet-c" / "fog" / "1" / "n01" / "val_0.JPEG", quality=95)
    test = ImageNet(tmp_path, train=False)
    named = ImageNetC(tmp_path)
    for copies in (named, corrupted_files(tmp_path / "imagenet-c", test)):
        image = copies["fog", 1].held.inputs[0]
        assert (image[:, :, :7] > 200).all()
        assert (image[:, :, 9:] < 50).all()


def test_another_number_of_classes_is_refused(small, tmp_path):
    folder = write_folders(tmp_path / "Tiny-ImageNet-C")
    path = folder / "snow" / "3" / "n02"
    (path / "val_0.JPEG").unlink()
    path.rmdir()
    with pytest.raises(ValueError, match="3 must hold 2 classes, got 1"):
        TinyImageNetC(tmp_path)["snow", 3]
    write_folders(folder, classes=("n01", "n02", "n03"))
    with pytest.raises(ValueError, match="must hold 2 classes, got 3"):
        TinyImageNetC(tmp_path)


def test_a_folder_without_copies_is_refused(tmp_path):
    (tmp_path / "Tiny-ImageNet-C" / "extra").mkdir(parents=True)
    like = Arrays(torch.zeros(1, 3, 4, 4), torch.tensor([0]), classes=("a",))
    with pytest.raises(ValueError, match="must hold corrupted copies"):
        corrupted_files(tmp_path / "Tiny-ImageNet-C", like)
    with pytest.raises(FileNotFoundError, match="must be a folder of corrupted copies"):
        corrupted_files(tmp_path / "nowhere", like)


def test_either_layout_is_recognized(tmp_path):
    normalize = Normalize((0.1,) * 3, (0.2,) * 3)
    images = torch.zeros(10, 3, 32, 32, dtype=torch.uint8)
    classes = tuple("0123456789")
    like = Arrays(images, torch.arange(10), normalize, classes)
    write_arrays(tmp_path / "arrays", samples=10)
    write_folders(tmp_path / "folders", classes, size=(32, 32))
    arrays = corrupted_files(tmp_path / "arrays", like, severities=(2,))
    folders = corrupted_files(tmp_path / "folders", like, types=("fog",))
    for copy in (arrays["fog", 2], folders["fog", 2]):
        assert copy.normalize is normalize
        assert copy.classes == classes


def test_folders_beside_an_image_folder_take_its_size(tmp_path):
    for part in ("train", "test"):
        for name in ("n01", "n02"):
            picture(tmp_path / "images" / part / name / "0.png", size=(70, 60))
    write_folders(tmp_path / "c")
    like = ImageFolder(tmp_path / "images", train=False, size=16)
    assert corrupted_files(tmp_path / "c", like)["snow", 2][1][0].shape == (3, 16, 16)


def test_gray_copies_of_unnamed_classes_keep_the_order_of_their_names(tmp_path):
    for number, name in enumerate("1010"):
        path = tmp_path / "fog" / "1" / name / f"{number}.png"
        picture(path, (50 * number,), size=(8, 8), mode="L")
    like = Arrays(torch.zeros(4, 1, 8, 8), torch.tensor([1, 0, 1, 0]))
    copy = corrupted_files(tmp_path, like, severities=(1,))["fog", 1].held
    assert copy.inputs[:, 0, 0, 0].tolist() == [0, 50, 100, 150]
    assert copy.inputs.shape == (4, 1, 8, 8)
    assert copy.targets.tolist() == [1, 0, 1, 0]


def test_copies_must_have_the_samples_of_the_test_set(tmp_path):
    _, labels = write_arrays(tmp_path / "c")
    images, labels = torch.zeros(SAMPLES, 3, 32, 32), torch.from_numpy(labels)
    right = Arrays(images, labels)
    assert len(corrupted_files(tmp_path / "c", right)["fog", 3]) == SAMPLES
    swapped = labels[[1, 0, 2, 3, 4, 5]]
    wrong = {
        rf"as many samples as the test set \(5\), got {SAMPLES}": right.subset(
            range(5)
        ),
        r"shape \(3, 16, 32\), got \(3, 32, 32\)": Arrays(images[:, :, :16], labels),
        "have the test set's targets, got '2 different ones'": Arrays(images, swapped),
    }
    for message, like in wrong.items():
        place = rf"fog at severity 3 in {tmp_path / 'c'} must .*"
        with pytest.raises(ValueError, match=place + message):
            corrupted_files(tmp_path / "c", like)["fog", 3]


def test_folders_must_have_the_classes_of_the_test_set_in_any_order(tmp_path):
    write_folders(tmp_path, size=(8, 8))
    images, classes = torch.zeros(2, 3, 8, 8), ("n01", "n02")
    like = Arrays(images, torch.tensor([1, 0]), classes=classes)
    assert corrupted_files(tmp_path, like)["fog", 1].targets.tolist() == [0, 1]
    like = Arrays(images, torch.tensor([1, 1]), classes=classes)
    message = "targets in any order, got '1 different ones'"
    with pytest.raises(ValueError, match=message):
        corrupted_files(tmp_path, like)["fog", 1]
    like = Arrays(images[:, :, 1:], torch.tensor([0, 1]), classes=classes)
    with pytest.raises(ValueError, match=r"shape \(3, 7, 8\), got \(3, 8, 8\)"):
        corrupted_files(tmp_path, like)["fog", 1]


TYPES = ("fog", "contrast")
CELLS = [(name, severity) for name in TYPES for severity in range(1, 6)]


@pytest.fixture(scope="module")
def clean():
    rng = torch.Generator().manual_seed(0)
    images = torch.randint(256, (12, 3, 8, 10), generator=rng, dtype=torch.uint8)
    labels = torch.tensor([2, 0, 1] * 4)
    return Arrays(images, labels, Normalize((0.5,), (0.3,)), ("b", "c", "a"))


@pytest.fixture(scope="module")
def copies(clean):
    return corrupted(clean, types=TYPES, seed=3)


def test_arrays_have_the_published_layout(clean, copies, tmp_path):
    write_corrupted(copies, tmp_path / "x")
    names = {path.name for path in (tmp_path / "x").iterdir()}
    assert names == {
        "contrast.npy",
        "fog.npy",
        "labels.npy",
        "corruptions.json",
        RECORD,
    }
    images = np.load(tmp_path / "x" / "fog.npy", allow_pickle=False)
    labels = np.load(tmp_path / "x" / "labels.npy", allow_pickle=False)
    assert images.dtype == np.uint8
    assert images.shape == (5 * 12, 8, 10, 3)
    assert labels.tolist() == [2, 0, 1] * 20
    third = corrupt(clean.inputs, "fog", 3, seed=3).permute(0, 2, 3, 1)
    np.testing.assert_array_equal(images[24:36], third)


def test_arrays_read_back_are_those_made(clean, copies, tmp_path):
    write_corrupted(copies, tmp_path / "x")
    read = corrupted_files(tmp_path / "x", clean)
    assert list(read) == CELLS
    assert len(read) == 10
    for cell, copy in read.items():
        assert torch.equal(copy.inputs, copies[cell].inputs)
        assert torch.equal(copy.targets, clean.targets)
        assert copy.normalize == clean.normalize
        assert copy.classes == clean.classes


@pytest.mark.parametrize("channels", [1, 3])
def test_folders_have_the_published_layout(clean, channels, tmp_path):
    smooth = torch.linspace(0, 255, 80).view(1, 1, 8, 10).to(torch.uint8)
    images = clean.like(smooth.repeat(12, channels, 1, 1), clean.targets)
    made = corrupted(images, types=("contrast",))
    write_corrupted(made, tmp_path / "x", layout="folders")
    files = sorted((tmp_path / "x" / "contrast" / "4").rglob("*.JPEG"))
    found = [f"{file.parent.name}/{file.name}" for file in files]
    assert found == sorted(
        f"{'acb'[i % 3 and 3 - i % 3]}/{i:02d}.JPEG" for i in range(12)
    )
    read = corrupted_files(tmp_path / "x", images)
    assert list(read) == [("contrast", severity) for severity in range(1, 6)]
    copy, expected = to_arrays(read["contrast", 4]), made["contrast", 4]
    assert torch.equal(copy.targets, clean.targets)
    assert copy.inputs.shape == expected.inputs.shape
    assert (copy.inputs.float() - expected.inputs).abs().mean() < 4


@pytest.mark.parametrize("layout", ["arrays", "folders"])
def test_a_folder_appears_whole_or_not_at_all(clean, copies, layout, tmp_path):
    dead = tmp_path / f".x.{mark().rpartition('-')[0]}-0.tmp"
    dead.mkdir()  # of a writer that was killed

    def failing(images, severity, draws):
        if severity == 3:
            raise KeyboardInterrupt
        return images

    broken = corrupted(clean, types=["fog", failing])
    with pytest.raises(KeyboardInterrupt):
        write_corrupted(broken, tmp_path / "x", layout=layout)
    assert [*tmp_path.iterdir()] == []
    write_corrupted(copies, tmp_path / "x", layout=layout)
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    with pytest.raises(FileExistsError, match="x is not empty; choose another folder"):
        write_corrupted(copies, tmp_path / "x", layout=layout)


@pytest.mark.parametrize("name", ["..", "a/b", ""])
def test_classes_must_be_names_of_folders(clean, name, tmp_path):
    bad = Arrays(clean.inputs, clean.targets, None, ("a", "b", name))
    with pytest.raises(ValueError, match="classes must be valid folder names"):
        write_corrupted(corrupted(bad), tmp_path / "x", layout="folders")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("label", [-1, 2])
def test_images_of_no_class_have_no_folder(label, tmp_path):
    images = Arrays(torch.zeros(2, 3, 8, 8).byte(), [0, label], classes=("a", "b"))
    with pytest.raises(ValueError, match="layout must be arrays unless every image"):
        write_corrupted(corrupted(images), tmp_path / "x", layout="folders")
    assert not (tmp_path / "x").exists()
    nameless = Arrays(torch.zeros(2, 3, 8, 8).byte(), [-1, -1])
    with pytest.raises(ValueError, match="layout must be arrays unless every image"):
        write_corrupted(corrupted(nameless), tmp_path / "x", layout="folders")


def test_what_a_layout_cannot_hold_is_refused(clean, tmp_path):
    with pytest.raises(ValueError, match="severities must be 1 to 5"):
        write_corrupted(corrupted(clean, severities=(1,)), tmp_path / "x")
    five = Arrays(torch.zeros(2, 5, 4, 4), torch.tensor([0, 1]))
    with pytest.raises(ValueError, match="layout must be arrays unless images"):
        write_corrupted(corrupted(five), tmp_path / "x", layout="folders")


@pytest.mark.parametrize("layout", ["arrays", "folders"])
def test_copies_of_other_images_are_refused_at_once(clean, copies, layout, tmp_path):
    write_corrupted(copies, tmp_path / "x", layout=layout)
    other = clean.like(255 - clean.inputs, clean.targets)
    message = r"x must hold copies of the test set, .* hash [0-9a-f]{64}, got '[0-9a-f]"
    with pytest.raises(ValueError, match=message):
        corrupted_files(tmp_path / "x", other)
    (tmp_path / "x" / "corruptions.json").write_text("[]")
    with pytest.raises(ValueError, match=r"corruptions\.json must be of format 2"):
        corrupted_files(tmp_path / "x", clean)
    (tmp_path / "x" / "corruptions.json").unlink()
    assert len(corrupted_files(tmp_path / "x", clean)["fog", 1]) == len(clean)


def test_copies_do_not_take_the_name_of_the_labels(clean, tmp_path):
    def labels(images, severity, draws):
        return images

    with pytest.raises(ValueError, match=r"be called otherwise than labels.npy"):
        write_corrupted(corrupted(clean, types=[labels]), tmp_path / "x")
    assert not (tmp_path / "x").exists()
