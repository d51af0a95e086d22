"""Rows of array files: what is read, what is refused, what is hashed."""

import json
import os

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from strategies import modest
from tepui.data import StoredArray
from tepui.data import arrays_on_disk as module
from tepui.data.arrays_on_disk import contents_digest

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


def age(path):
    """Let a file have been changed long ago."""
    os.utime(path, ns=(10**18, 10**18))


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


def test_neighbors_are_read_together(saved, monkeypatch):
    array, calls = StoredArray.open(saved(numbers((7, 3)))), []
    read = os.preadv
    monkeypatch.setattr(
        module.os, "preadv", lambda *a: calls.append(len(a[1][0])) or read(*a)
    )
    array.read(torch.tensor([2, 3, 4, 0, 6, 5]))
    assert calls == [36, 12, 12, 12]


def test_bfloat16_is_read(tmp_path):
    values = torch.randn(5, 3).bfloat16()
    save_file({"x": values, "other": torch.zeros(3)}, tmp_path / "x.safetensors")
    array = StoredArray.open(tmp_path / "x.safetensors", "x")
    assert torch.equal(array.read_all(), values)


@pytest.mark.parametrize("name", ["x.npy", "x.safetensors"])
def test_a_file_cut_short_is_named(saved, name):
    path = saved(numbers((7, 3)), name)
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(ValueError, match=rf"{path.name} must be a "):
        StoredArray.open(path)


def test_a_file_cut_short_after_it_was_opened_is_named(saved):
    path = saved(numbers((7, 3)))
    array, size = StoredArray.open(path), path.stat().st_size
    os.truncate(path, size - 12)
    assert len(array.read(torch.arange(6))) == 6
    with pytest.raises(ValueError, match=rf"{size} bytes.*got {size - 12}"):
        array.read(torch.tensor([6]))


def test_other_files_are_refused_by_name(saved, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.npy must exist"):
        StoredArray.open(tmp_path / "none.npy")
    (tmp_path / "x.csv").write_text("1,2")
    with pytest.raises(ValueError, match=r"x\.csv must end in \.npy or \.safetensors"):
        StoredArray.open(tmp_path / "x.csv")
    for name in ("bad.npy", "bad.safetensors"):
        (tmp_path / name).write_bytes(b"nothing of the kind, at all")
        with pytest.raises(ValueError, match=rf"{name} must be a"):
            StoredArray.open(tmp_path / name)
    with pytest.raises(ValueError, match="C order"):
        StoredArray.open(saved(np.asfortranarray(numbers((4, 3)))))
    with pytest.raises(ValueError, match=r"numbers of a type that torch has.*<U1"):
        StoredArray.open(saved(np.array(["a", "b"])))
    with pytest.raises(ValueError, match=r"byte order, got >f4"):
        StoredArray.open(saved(numbers((4, 3), ">f4")))
    with pytest.raises(ValueError, match="samples along a first axis"):
        StoredArray.open(saved(np.float32(3)))
    with pytest.raises(ValueError, match="samples along a first axis"):
        StoredArray.open(saved(numbers((0, 3))))


def test_a_pickle_is_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.array([{}, {}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"x\.npy must be .* objects"):
        StoredArray.open(tmp_path / "x.npy")


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
    age(path)
    real = module.hashlib.file_digest
    monkeypatch.setattr(
        module.hashlib, "file_digest", lambda *a: hashed.append(1) or real(*a)
    )
    first = contents_digest(path)
    assert contents_digest(path) == first
    assert len(hashed) == 1
    np.save(path, numbers() + 1)  # of the same size
    assert contents_digest(path) != first
    # Changed just now: it may change again without a sign, so nothing is kept.
    contents_digest(path)
    assert len(hashed) == 3


@pytest.mark.parametrize("text", ["", "[]", "{", '{"size": 1}'])
def test_a_damaged_record_is_made_again(saved, text):
    path = saved(numbers())
    age(path)
    digest = contents_digest(path)
    record = path.with_name(".x.npy.sha256.json")
    record.write_text(text)
    assert contents_digest(path) == digest
    assert json.loads(record.read_text())["contents"] == digest


def test_a_folder_that_cannot_be_written_keeps_no_record(saved, monkeypatch):
    path = saved(numbers())
    age(path)

    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(module, "write_document", refuse)
    assert contents_digest(path) == contents_digest(path)
    assert not path.with_name(".x.npy.sha256.json").exists()
