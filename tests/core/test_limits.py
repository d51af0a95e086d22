"""A file that asks for more than its limit is refused before it is given anything."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image

from data_layouts import python2_pickle
from tepui.core.limits import check_limit
from tepui.core.storage import read_json, read_tensors, write_tensors
from tepui.data import ArrayFile
from tepui.data.image_files import decode
from tepui.data.sets.cifar import read_cifar_pickle
from tepui.data.sets.images import read_idx


def limited(monkeypatch, **limits):
    for name, value in limits.items():
        monkeypatch.setenv(f"TEPUI_LIMIT_{name.upper()}", str(value))


def test_the_environment_changes_a_limit(monkeypatch):
    check_limit("json_depth", 100, "a.json")
    limited(monkeypatch, json_depth=7)
    with pytest.raises(ValueError, match=r"7 json depth, got 8; .* TEPUI_LIMIT_JSON_D"):
        check_limit("json_depth", 8, "a.json")


@pytest.mark.parametrize("text", ["", "0", "-3", "many", "1e9", "²"])
def test_a_limit_is_a_positive_number(text, monkeypatch):
    monkeypatch.setenv("TEPUI_LIMIT_JSON_BYTES", text)
    with pytest.raises(ValueError, match="TEPUI_LIMIT_JSON_BYTES must be a positive"):
        check_limit("json_bytes", 1, "a.json")


@pytest.mark.parametrize("depth", [200, 100_000])
def test_deep_json_is_refused_by_name(depth, tmp_path):
    (tmp_path / "a.json").write_text("[" * depth + "]" * depth)
    with pytest.raises(ValueError, match=r"a\.json must"):
        read_json(tmp_path / "a.json")
    assert read_json_of(tmp_path, "[" * 100 + "]" * 100)


def read_json_of(folder, text):
    (folder / "b.json").write_text(text)
    return read_json(folder / "b.json")


def test_long_json_is_refused_before_it_is_read(tmp_path, monkeypatch):
    limited(monkeypatch, json_bytes=100)
    with pytest.raises(ValueError, match=r"b\.json must stay within .* 100 json bytes"):
        read_json_of(tmp_path, json.dumps("a" * 99))
    assert read_json_of(tmp_path, json.dumps("a" * 98)) == "a" * 98


@pytest.mark.parametrize(
    "text", ["NaN", "[Infinity]", "-Infinity", "9" * 5000, "[1e999]"]
)
def test_numbers_that_json_lacks_are_refused(text, tmp_path):
    with pytest.raises(ValueError, match=r"b\.json must be a JSON document"):
        read_json_of(tmp_path, text)


def test_a_long_header_is_refused(tmp_path, monkeypatch):
    file = tmp_path / "a.safetensors"
    write_tensors(file, "test", {"a": torch.ones(2)}, {"text": "a" * 500})
    limited(monkeypatch, header_bytes=500)
    with pytest.raises(ValueError, match=r"a\.safetensors .* 500 header bytes"):
        read_tensors(file, "test")


def test_a_large_picture_is_refused_before_it_is_decoded(tmp_path, monkeypatch):
    Image.new("1", (300, 200)).save(tmp_path / "a.png")
    assert decode(tmp_path / "a.png").shape == (3, 200, 300)
    limited(monkeypatch, image_pixels=59_999)
    with pytest.raises(ValueError, match=r"a\.png .* limit of 59999 .* got 60000"):
        decode(tmp_path / "a.png")


def test_arrays_that_become_too_much_are_refused(tmp_path, monkeypatch):
    zeros = np.zeros((4, 1000), dtype=np.float32)
    labels = np.zeros(4, dtype=np.int64)
    np.savez_compressed(tmp_path / "a.npz", x_train=zeros, y_train=labels)
    assert len(ArrayFile(tmp_path / "a.npz")) == 4
    limited(monkeypatch, unpacked_bytes=16_000)
    with pytest.raises(ValueError, match=r"a\.npz .* limit of 16000 unpacked bytes"):
        ArrayFile(tmp_path / "a.npz")


def test_a_header_that_claims_more_than_there_is_takes_no_memory(tmp_path):
    header = {"descr": "|u1", "fortran_order": False, "shape": (10**12, 4, 4, 3)}
    for name in ("x_train.npy", "y_train.npy"):
        with (tmp_path / name).open("wb") as stream:
            np.lib.format.write_array_header_1_0(stream, header)
            stream.write(bytes(100))
    with pytest.raises(
        ValueError, match=r"x_train\.npy must be a valid \.npy file: mmap length"
    ):
        ArrayFile(tmp_path)
    (tmp_path / "images").write_bytes(bytes([0, 0, 8, 3]) + b"\xff" * 12)
    with pytest.raises(ValueError, match="images must stay within the limit"):
        read_idx(tmp_path / "images", 3)


def test_a_pickle_that_asks_for_a_long_memory_is_refused(tmp_path):
    content = python2_pickle({"labels": [1]})
    changed = content.replace(b"q\x01", b"r\xff\xff\xff\xff", 1)
    (tmp_path / "batch").write_bytes(changed)
    with pytest.raises(ValueError, match=r"batch must be .* memory of 4294967295 obj"):
        read_cifar_pickle(tmp_path / "batch")


LOAD = """
import resource, sys, tepui
resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30, 3 * 2**30))
for folder in sys.argv[1:]:
    try:
        tepui.load(folder)
    except ValueError as error:
        print(error)
"""
HOSTILE = {
    "wide": {"in_features": 60_000, "hidden": [60_000], "num_classes": 10},
    "deep": {"in_features": 4, "hidden": [4] * 50_000, "num_classes": 3},
    "negative": {"in_features": -4, "hidden": [], "num_classes": 3},
    "text": {"in_features": "many", "hidden": [], "num_classes": 3},
    "none": {"in_features": 4, "hidden": None, "num_classes": 3},
    "unknown": {"depth": 3},
}


def test_a_short_file_cannot_ask_for_a_large_model(tmp_path):
    """In a process in which a huge allocation would fail."""
    files = []
    for name, config in HOSTILE.items():
        files.append(tmp_path / name / "ensemble.safetensors")
        document = {"members": [{"model": "MLP", "config": config}], "seeds": [1]}
        tensors = {"0.classifier.weight": torch.zeros(3, 4)}
        write_tensors(files[-1], "ensemble", tensors, document)
    command = [sys.executable, "-c", LOAD, *(file.parent for file in files)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    said = done.stdout.splitlines()
    assert len(said) == len(files)
    assert all(str(file) in line for file, line in zip(files, said, strict=True))
