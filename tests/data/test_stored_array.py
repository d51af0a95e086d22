"""Rows of array files: what is read, what is refused, what is hashed."""

import os

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from strategies import modest
from tepui.data import ArraysOnDisk, StoredArray
from tepui.data import arrays_on_disk as module

SHAPES = [(7,), (7, 3), (7, 2, 3, 2), (7, 0)]
TYPES = [np.uint8, np.int64, np.float32, np.float64, np.float16, np.bool_]


def numbers(shape=(7, 3), dtype=np.float32):
    values = np.random.default_rng(0).integers(0, 200, shape)
    return values.astype(dtype)


@pytest.fixture
def saved(tmp_path):
    def save(values, name="x.npy"):
        path = tmp_path / name
        if path.suffix == ".npy":
            np.save(path, values)
        else:
            save_file({"x": torch.from_numpy(values)}, path)
        return path

    return save


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", ["x.npy", "x.safetensors"])
def test_all_rows_are_what_was_written(saved, shape, dtype, name):
    values = numbers(shape, dtype)
    array = StoredArray.open(saved(values, name))
    assert array.shape == shape
    assert torch.equal(array.read_all(), torch.from_numpy(values))


@modest
@given(rows=st.lists(st.integers(0, 6), max_size=20))
def test_rows_come_in_the_order_asked_for(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("rows") / "x.npy"
    values = numbers((7, 2, 2))
    np.save(path, values)
    read = StoredArray.open(path).read(torch.tensor(rows, dtype=torch.int64))
    assert torch.equal(read, torch.from_numpy(values)[rows])


def test_bfloat16_is_read(tmp_path):
    values = torch.randn(5, 3).bfloat16()
    save_file({"x": values, "other": torch.zeros(3)}, tmp_path / "x.safetensors")
    array = StoredArray.open(tmp_path / "x.safetensors", "x")
    assert torch.equal(array.read_all(), values)


def test_a_file_cut_short_after_it_was_opened_is_named(saved):
    path = saved(numbers((7, 3)))
    array, size = StoredArray.open(path), path.stat().st_size
    os.truncate(path, size - 12)
    with pytest.raises(ValueError, match=rf"{size} bytes.*got {size - 12}"):
        array.read(torch.tensor([6]))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.asfortranarray(numbers((4, 3))), "C order"),
        (np.array(["a", "b"]), r"numbers of a type that torch has.*<U1"),
        (numbers((4, 3), ">f4"), r"byte order, got >f4"),
        (np.float32(3), "samples along a first axis"),
        (numbers((0, 3)), "samples along a first axis"),
        (np.array([{}, {}], dtype=object), r"x\.npy must be .* objects"),
    ],
)
def test_what_torch_cannot_hold_is_refused(values, message, tmp_path):
    np.save(tmp_path / "x.npy", values, allow_pickle=True)
    with pytest.raises(ValueError, match=message):
        StoredArray.open(tmp_path / "x.npy")
    (tmp_path / "x.csv").write_text("1,2")
    with pytest.raises(ValueError, match=r"x\.csv must end in \.npy or \.safetensors"):
        StoredArray.open(tmp_path / "x.csv")


def test_a_missing_tensor_is_named_with_those_there_are(tmp_path):
    save_file({"a": torch.zeros(2), "b": torch.zeros(2)}, tmp_path / "x.safetensors")
    for name in (None, "c"):
        match = rf"one of \['a', 'b'\] in .*x\.safetensors, got {name!r}"
        with pytest.raises(ValueError, match=match):
            StoredArray.open(tmp_path / "x.safetensors", name)
    np.save(tmp_path / "x.npy", numbers())
    with pytest.raises(ValueError, match="name must be left out"):
        StoredArray.open(tmp_path / "x.npy", "a")


def test_a_file_is_hashed_once_until_it_changes(saved, monkeypatch):
    path, hashed = saved(numbers()), []
    real = module.file_digest
    monkeypatch.setattr(module, "file_digest", lambda p: hashed.append(p) or real(p))
    first = ArraysOnDisk(path, torch.zeros(7)).identity()
    assert ArraysOnDisk(path, torch.zeros(7)).identity() == first
    assert hashed == [path]
    np.save(path, numbers() + 1)  # of the same size
    assert ArraysOnDisk(path, torch.zeros(7)).identity() != first
