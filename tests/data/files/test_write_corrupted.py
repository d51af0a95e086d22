import numpy as np
import pytest
import torch

from tepui.core.processes import mark
from tepui.data import (
    Arrays,
    Normalize,
    corrupt,
    corrupted,
    corrupted_files,
    to_arrays,
    write_corrupted,
)
from tepui.data.published import RECORD

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
