import pytest
import torch
from sklearn.datasets import load_digits

from tepui.data import Digits


@pytest.fixture(scope="module")
def parts():
    return Digits(train=True), Digits(train=False)


def _rows(data):
    return [tuple(image.flatten().mul(16).int().tolist()) for image in data.inputs]


def test_shapes_and_types(parts):
    for data, samples in zip(parts, (1437, 360), strict=True):
        assert data.inputs.shape == (samples, 1, 8, 8)
        assert data.inputs.dtype == torch.float32
        assert data.targets.dtype == torch.int64
        assert data.classes == tuple("0123456789")
        assert (data.inputs.min(), data.inputs.max()) == (0, 1)


def test_parts_together_are_the_original(parts):
    bunch = load_digits()
    original = [
        (tuple(image.astype(int).flatten().tolist()), int(label))
        for image, label in zip(bunch.images, bunch.target, strict=True)
    ]
    found = [
        pair
        for data in parts
        for pair in zip(_rows(data), data.targets.tolist(), strict=True)
    ]
    assert sorted(found) == sorted(original)


def test_split_is_stratified(parts):
    train, test = (data.targets.bincount(minlength=10) for data in parts)
    expected = (train + test) * 360 / 1797
    assert (test - expected).abs().max() < 1


def test_split_never_moves(parts):
    rows = _rows(Digits(train=False))
    assert rows == _rows(parts[1])
    weights = torch.arange(1, 361)
    assert int((weights * parts[1].targets).sum()) == 282_737


def test_constants_are_those_of_the_training_images(parts):
    train, test = parts
    assert train.normalize == test.normalize
    assert train.normalize.mean == pytest.approx([train.inputs.mean().item()], abs=5e-5)
    assert train.normalize.std == pytest.approx([train.inputs.std().item()], abs=5e-5)
    ready = train.prepare(train.inputs)
    assert ready.mean() == pytest.approx(0, abs=1e-3)
    assert ready.std() == pytest.approx(1, abs=1e-3)
