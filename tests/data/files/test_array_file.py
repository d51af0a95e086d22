import numpy as np
import pytest
import torch

from data_layouts import encrypted
from tepui.data import ArrayFile, Normalize

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(0, 256, (6, 5, 4, 3), dtype=np.uint8)
LABELS = np.array([0, 1, 2, 0, 1, 2])


def arrays(x=IMAGES, y=LABELS):
    return {"x_train": x, "y_train": y, "x_test": x[:2], "y_test": y[:2]}


def write(path, content, suffix):
    if suffix == ".npz":
        np.savez(path.with_suffix(".npz"), **content)
        return path.with_suffix(".npz")
    path.mkdir()
    for name, array in content.items():
        np.save(path / f"{name}.npy", array)
    return path


@pytest.mark.parametrize("suffix", [".npz", ".npy"])
def test_both_parts_come_out_as_they_went_in(suffix, tmp_path):
    path = write(tmp_path / "mine", arrays(), suffix)
    train, test = ArrayFile(path), ArrayFile(str(path), train=False)
    assert (train.inputs.numpy() == IMAGES.transpose(0, 3, 1, 2)).all()
    assert train.targets.tolist() == LABELS.tolist()
    assert len(test) == 2
    assert train.inputs.dtype == torch.uint8
    assert train.normalize is None


@pytest.mark.parametrize(
    ("array", "channels", "shape", "dtype"),
    [
        (IMAGES, "first", (6, 5, 4, 3), torch.uint8),
        (IMAGES[..., 0], "last", (6, 1, 5, 4), torch.uint8),
        (IMAGES.astype(np.float64), "last", (6, 3, 5, 4), torch.float32),
        (IMAGES.astype(">f4"), "last", (6, 3, 5, 4), torch.float32),
        (IMAGES[:, 0, 0].astype(np.int16), "last", (6, 3), torch.float32),
    ],
)
def test_shapes_and_types(array, channels, shape, dtype, tmp_path):
    path = write(tmp_path / "x", arrays(array), ".npz")
    data = ArrayFile(path, channels=channels)
    assert data.inputs.shape == shape
    assert data.inputs.dtype == dtype


@pytest.mark.parametrize(
    ("stored", "channels", "moved"),
    [
        ((6, 1, 8, 8), None, False),  # as torch has them
        ((6, 3, 8, 8), None, False),
        ((6, 3, 8, 8), "last", True),
        ((6, 8, 8, 3), None, True),
        ((6, 8, 8, 1), None, True),
        ((6, 8, 8, 5), None, True),
        ((6, 3, 3, 3), None, True),
    ],
)
def test_the_shape_tells_where_the_channels_are(stored, channels, moved, tmp_path):
    images = np.arange(np.prod(stored), dtype=np.float32).reshape(stored)
    path = write(tmp_path / "x", arrays(images), ".npz")
    expected = images.transpose(0, 3, 1, 2) if moved else images
    found = ArrayFile(path, channels=channels).inputs.numpy()
    assert found.shape == expected.shape
    assert (found == expected).all()


def test_labels_may_be_a_column_and_images_normalized(tmp_path):
    path = write(tmp_path / "x", arrays(y=LABELS[:, None]), ".npz")
    data = ArrayFile(path, mean=(0.5,) * 3, std=(0.2,) * 3)
    assert data.targets.tolist() == LABELS.tolist()
    assert data.normalize == Normalize((0.5,) * 3, (0.2,) * 3)


@pytest.mark.parametrize("suffix", [".npz", ".npy"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y_train": np.array(["a"] * 6)}, "y_train must hold a number, a row"),
        ({"y_train": LABELS[:5]}, r"inputs must have as many samples as targets \(5\)"),
        ({"y_train": np.zeros((6, 2, 2))}, "y_train must hold a number, a row"),
        ({"x_train": np.array(["a"] * 6)}, "x must hold numbers"),
        ({"x_train": LABELS}, "x must hold numbers, samples along the first axis"),
        ({"x_train": np.array([{}] * 6, dtype=object)}, "x_train must be an array in"),
    ],
)
def test_mistakes_are_named(suffix, change, message, tmp_path):
    path = write(tmp_path / "x", arrays() | change, suffix)
    with pytest.raises(ValueError, match=message):
        ArrayFile(path)


@pytest.mark.parametrize(
    ("targets", "kind"),
    [
        (LABELS + 0.5, torch.float32),
        (np.eye(6, dtype=bool), torch.int64),
        (np.linspace(0, 1, 12).reshape(6, 2), torch.float32),
        (IMAGES[..., 0], torch.int64),
        (IMAGES[..., 0].astype(np.int16) - 100, torch.int64),
    ],
)
def test_targets_may_be_numbers_several_labels_or_masks(targets, kind, tmp_path):
    path = write(tmp_path / "x", arrays() | {"y_train": targets}, ".npz")
    found = ArrayFile(path).targets
    assert found.dtype == kind
    assert torch.equal(found, torch.from_numpy(targets).to(kind))


def test_what_is_missing_is_named(tmp_path):
    content = arrays()
    del content["x_test"]
    with pytest.raises(ValueError, match="must hold 'x_test'"):
        ArrayFile(write(tmp_path / "x", content, ".npz"), train=False)
    with pytest.raises(FileNotFoundError, match=r"x_test\.npy must exist"):
        ArrayFile(write(tmp_path / "x", content, ".npy"), train=False)
    with pytest.raises(ValueError, match="std must be given with mean"):
        ArrayFile(write(tmp_path / "y", arrays(), ".npz"), mean=(0.5,) * 3)


def test_a_damaged_compressed_file_is_refused(tmp_path):
    path = tmp_path / "x.npz"
    np.savez_compressed(path, **arrays(np.tile(IMAGES, (1, 9, 9, 1))))
    whole = path.read_bytes()
    messages = []
    for position in range(60, len(whole) // 3, 7):
        path.write_bytes(whole[:position] + b"\xff\xff" + whole[position + 2 :])
        try:
            ArrayFile(path)
        except ValueError as error:
            messages.append(str(error))
    assert len(messages) > 20
    assert all(str(path) in message for message in messages)


def test_an_encrypted_file_and_a_lone_array_are_refused(tmp_path):
    path = encrypted(write(tmp_path / "x", arrays(), ".npz"))
    with pytest.raises(ValueError, match=r"x\.npz: .*encrypted"):
        ArrayFile(path)
    np.save(tmp_path / "x.npy", LABELS[:, None])
    with pytest.raises(ValueError, match=r"array in .*x\.npy"):
        ArrayFile(tmp_path / "x.npy")
