import pytest
import torch

from data_layouts import picture
from tepui.data import (
    CIFAR10,
    ImageFolder,
    Normalize,
    UnlabeledFolder,
    prepared_like,
)


def flat(folder, classes=("cat", "dog"), images=10):
    for number, name in enumerate(classes):
        for image in range(images):
            shade = (50 * number + image, 0, 0)
            picture(folder / name / f"{image}.png", shade, size=(6, 6))
    return folder


@pytest.mark.parametrize("test_name", ["test", "val"])
def test_parts_on_disk_are_taken(test_name, tmp_path):
    flat(tmp_path / "train", images=3)
    flat(tmp_path / test_name, images=2)
    train, test = ImageFolder(tmp_path), ImageFolder(str(tmp_path), train=False)
    assert train.targets.tolist() == [0, 0, 0, 1, 1, 1]
    assert test.targets.tolist() == [0, 0, 1, 1]
    assert train.classes == test.classes == ("cat", "dog")
    assert test.files[0] == tmp_path / test_name / "cat" / "0.png"


def test_without_parts_a_fifth_of_each_class_is_for_test(tmp_path):
    flat(tmp_path, ("ant", "bee", "cat"))
    train, test = ImageFolder(tmp_path), ImageFolder(tmp_path, train=False)
    assert train.targets.bincount().tolist() == [8, 8, 8]
    assert test.targets.bincount().tolist() == [2, 2, 2]
    assert sorted([*train.files, *test.files]) == sorted(tmp_path.rglob("*.png"))


def test_a_new_image_moves_few_others(tmp_path):
    flat(tmp_path, images=40)
    before = set(ImageFolder(tmp_path, train=False).files)
    picture(tmp_path / "cat" / "new.png", size=(6, 6))
    after = set(ImageFolder(tmp_path, train=False).files)
    assert len(before - after) <= 1


def test_a_test_class_unknown_in_training_is_refused(tmp_path):
    flat(tmp_path / "train")
    flat(tmp_path / "test", ("cat", "dog", "emu"))
    for train in (True, False):
        with pytest.raises(
            ValueError, match=r"emu must be one of the 2 classes of .*tr"
        ):
            ImageFolder(tmp_path, train=train)


def test_absent_test_classes_keep_the_numbers(tmp_path):
    flat(tmp_path / "train")
    flat(tmp_path / "test", ("dog",), images=1)
    assert ImageFolder(tmp_path, train=False).targets.tolist() == [1]


def test_a_class_may_be_called_test(tmp_path):
    assert ImageFolder(flat(tmp_path, ("test",))).classes == ("test",)


def test_a_size_and_constants_can_be_given(tmp_path):
    data = ImageFolder(flat(tmp_path), size=3, mean=(0, 0, 0), std=(1, 1, 1))
    assert data[0][0].shape == (3, 3, 3)
    assert data.normalize == Normalize((0, 0, 0), (1, 1, 1))


def images_directly_in_it(folder):
    picture(folder / "0.png", size=(6, 6))


def empty_class(folder):
    flat(folder)
    (folder / "emu").mkdir()


def no_test(folder):
    flat(folder / "train")


def one_image_each(folder):
    flat(folder, images=1)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda folder: None, ValueError, "hold one folder per class"),
        (
            images_directly_in_it,
            ValueError,
            r"\(images/cat, .*, got 'images without one'",
        ),
        (empty_class, ValueError, "emu must hold images, got 'none'"),
        (no_test, FileNotFoundError, "must hold test or val beside train"),
        (one_image_each, ValueError, "leave at least one image in each part"),
        (lambda folder: folder.rmdir(), FileNotFoundError, "must be a folder"),
    ],
)
def test_mistakes_are_named(make, error, message, tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    make(folder)
    with pytest.raises(error, match=message):
        ImageFolder(folder, train=False)


def test_unlabeled_images_have_no_class(tmp_path):
    data = UnlabeledFolder(flat(tmp_path))
    assert len(data) == 20
    assert data.targets.unique().tolist() == [-1]
    assert data.held.inputs.shape == (20, 3, 6, 6)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="must hold images"):
        UnlabeledFolder(tmp_path / "empty")
    with pytest.raises(FileNotFoundError, match="no image or folder of images"):
        UnlabeledFolder(tmp_path / "nowhere")


def test_real_textures(shared_textures, shared_cifar):
    train = ImageFolder(shared_textures, size=32)
    test = ImageFolder(shared_textures, train=False, size=32)
    assert (len(train), len(test)) == (960, 240)
    assert train.classes[0] == "banded"
    test = CIFAR10(shared_cifar, train=False)
    ood = prepared_like(UnlabeledFolder(shared_textures), test)
    assert ood.held.inputs.shape == (1200, 3, 32, 32)
    assert ood.normalize == CIFAR10.normalization


def test_all_images_are_one_set(tmp_path):
    flat(tmp_path / "one")
    whole = ImageFolder(tmp_path / "one", part="all")
    assert list(whole.files) == sorted((tmp_path / "one").rglob("*.png"))
    assert whole.targets.bincount().tolist() == [10, 10]
    flat(tmp_path / "two" / "train", images=3)
    flat(tmp_path / "two" / "val", ("dog",), images=2)
    for train in (True, False):
        both = ImageFolder(tmp_path / "two", train, part="all")
        assert both.targets.tolist() == [0, 0, 0, 1, 1, 1, 1, 1]
    with pytest.raises(ValueError, match="part must be one of"):
        ImageFolder(tmp_path / "one", part="some")


def test_a_class_and_an_image_may_be_links(tmp_path):
    flat(tmp_path / "store")
    linked = tmp_path / "linked"
    (linked / "cat").mkdir(parents=True)
    (linked / "cat" / "again").symlink_to(linked)  # leads back to itself
    (linked / "cat" / "one.png").symlink_to(tmp_path / "store" / "dog" / "0.png")
    (linked / "cat" / "gone.png").symlink_to(tmp_path / "nothing.png")
    (linked / "dog").symlink_to(tmp_path / "store" / "dog")
    found = ImageFolder(linked, part="all")
    assert found.targets.bincount().tolist() == [1, 10]
    assert torch.equal(found[0][0], found[1][0])
