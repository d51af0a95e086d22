"""Arrays that stay on disk."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from strategies import modest
from tepui.data import ArraysOnDisk, StoredArray, to_arrays
from tepui.data import arrays_on_disk as module


@pytest.fixture
def files(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(12, dtype=np.float32).reshape(6, 2))
    np.save(tmp_path / "y.npy", np.array([0, 1, 2, 0, 1, 2], dtype=np.int16))
    return tmp_path / "x.npy", tmp_path / "y.npy"


def test_named_inputs_come_from_several_arrays(tmp_path):
    parts = {"a": torch.arange(6), "b": torch.randn(6, 3), "y": torch.arange(6) % 2}
    save_file(parts, tmp_path / "x.safetensors")
    opened = {n: StoredArray.open(tmp_path / "x.safetensors", n) for n in parts}
    data = ArraysOnDisk({n: opened[n] for n in "ab"}, opened["y"])
    inputs = data.raw(torch.tensor([4, 0]))
    assert all(torch.equal(inputs[n], parts[n][[4, 0]]) for n in "ab")
    loaded = to_arrays(data)
    assert all(torch.equal(loaded.inputs[n], parts[n]) for n in "ab")
    assert torch.equal(loaded.targets, parts["y"])


def test_targets_become_class_indices(files):
    assert ArraysOnDisk(*files).targets.dtype == torch.int64
    column = torch.arange(6)[:, None]
    assert ArraysOnDisk(files[0], column).targets.shape == (6,)


def test_subsets_of_subsets_read_the_right_rows(files):
    part = ArraysOnDisk(*files).subset([5, 3, 1]).subset(torch.tensor([2, 0]))
    assert part.raw(torch.arange(2)).tolist() == [[2, 3], [10, 11]]
    assert part.targets.tolist() == [1, 2]


def test_what_does_not_fit_together_is_named(files, tmp_path):
    with pytest.raises(ValueError, match=r"x\.npy must hold as many samples .*\(5\)"):
        ArraysOnDisk(files[0], torch.zeros(5, dtype=torch.int64))
    with pytest.raises(ValueError, match="channels must be one of first, last"):
        ArraysOnDisk(*files, channels="middle")
    with pytest.raises(ValueError, match="inputs must name at least one file"):
        ArraysOnDisk({}, files[1])


def test_identity_follows_contents_rows_targets_and_layout(files, tmp_path):
    data = ArraysOnDisk(*files)
    assert data.identity() == ArraysOnDisk(*files).identity()
    moved = tmp_path / "moved.npy"
    moved.write_bytes(files[0].read_bytes())
    assert ArraysOnDisk(moved, files[1]).identity() == data.identity()
    others = [
        data.subset([1, 0]),
        ArraysOnDisk(files[0], data.targets.flip(0)),
        ArraysOnDisk(*files, channels="last"),
    ]
    assert all(other.identity() != data.identity() for other in others)
    before = data.identity()
    np.save(files[0], np.zeros((6, 2), dtype=np.float32))
    assert ArraysOnDisk(*files).identity() != before


def test_reading_through_a_file_does_not_grow_the_process(tmp_path):
    megabytes = 500
    with (tmp_path / "x.npy").open("wb") as file:
        rows = megabytes * 2**10
        header = {"descr": "|u1", "fortran_order": False, "shape": (rows, 1024)}
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(file.tell() + rows * 1024)
    script = f"""
        import torch
        from tepui.data import ArraysOnDisk
        from tepui.data.loading import in_order

        def peak():
            for line in open("/proc/self/status"):
                if line.startswith("VmHWM"):  # not that of the process that started it
                    return int(line.split()[1]) / 2**10

        data = ArraysOnDisk({str(tmp_path / "x.npy")!r}, torch.zeros({rows}).long())
        next(in_order(data, 512, device=torch.device("cpu")))
        before = peak()
        for batch in in_order(data, 512, device=torch.device("cpu")):
            pass
        print(peak() - before)
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert float(done.stdout) < megabytes / 4


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
