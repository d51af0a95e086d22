import numpy as np
import pytest
from scipy.io import savemat

from data_layouts import images_and_labels
from tepui.data import SVHN


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(SVHN, "num_samples", {True: 7, False: 5})


def write(root, images, labels, name):
    """Write MATLAB's layout: samples along the last axis, 10 in place of 0."""
    (root / "svhn").mkdir(exist_ok=True)
    shifted = np.where(labels == 0, 10, labels).astype(np.uint8)[:, None]
    content = {"X": images.transpose(2, 3, 1, 0), "y": shifted}
    savemat(root / "svhn" / f"{name}_32x32.mat", content, do_compression=True)


@pytest.mark.parametrize(("train", "samples"), [(True, 7), (False, 5)])
def test_images_and_labels_come_out_as_they_went_in(train, samples, tmp_path):
    images, labels = images_and_labels(samples, 10)
    labels[0] = 0
    write(tmp_path, images, labels, "train" if train else "test")
    data = SVHN(tmp_path, train=train)
    assert (data.inputs.numpy() == images).all()
    assert (data.targets.numpy() == labels).all()
    assert data.classes == tuple("0123456789")


@pytest.mark.parametrize("share", [0, 0.01, 0.5, 0.99])
def test_a_truncated_file_is_refused(share, tmp_path):
    write(tmp_path, *images_and_labels(5, 10), "test")
    path = tmp_path / "svhn" / "test_32x32.mat"
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match=r"test_32x32\.mat must"):
        SVHN(tmp_path, train=False)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"X": np.zeros((32, 32, 3, 5), np.uint8)}, "must hold 'y'"),
        ({"X": np.zeros((32, 32, 3, 4), np.uint8), "y": np.ones(5)}, "shape"),
        ({"X": np.zeros((32, 32, 3, 5)), "y": np.ones(5)}, "got 'torch.float64"),
        ({"X": np.zeros((32, 32, 3, 5), np.uint8), "y": np.ones(4)}, "hold 5 labels"),
        ({"X": np.zeros((32, 32, 3, 5), np.uint8), "y": np.zeros(5)}, "from 1 to 10"),
        ({"X": np.zeros((32, 32), np.uint8), "y": np.ones(5)}, "hold images"),
    ],
)
def test_foreign_content_is_refused(content, message, tmp_path):
    (tmp_path / "svhn").mkdir()
    savemat(tmp_path / "svhn" / "test_32x32.mat", content)
    with pytest.raises(ValueError, match=message):
        SVHN(tmp_path, train=False)


def test_a_missing_file_is_named(tmp_path):
    (tmp_path / "svhn").mkdir()
    with pytest.raises(FileNotFoundError, match=r"train_32x32\.mat must exist"):
        SVHN(tmp_path)
