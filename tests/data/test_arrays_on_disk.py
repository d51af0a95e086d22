"""Arrays that stay on disk."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from tepui.data import ArraysOnDisk, StoredArray, to_arrays


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
