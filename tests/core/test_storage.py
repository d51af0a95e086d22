"""Files are whole or absent, and hold every bit of every tensor."""

import re
from contextlib import suppress

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn

from strategies import modest
from tepui.core.replacing import replacing
from tepui.core.storage import (
    read_document,
    read_json,
    read_tensors,
    same_bits,
    tensors_digest,
    write_document,
    write_json,
    write_tensors,
    writing_tensors,
)

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "tensors.safetensors"


def written(file, tensors, document=None):
    write_tensors(file, "test", tensors, document or {})
    return read_tensors(file, "test")[0]


def stored_names(file):
    with safe_open(file, framework="pt") as handle:
        return set(handle.keys())


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def test_a_file_takes_its_place_when_it_is_whole(tmp_path):
    path = tmp_path / "new" / "deep" / "a.txt"
    with replacing(path) as temporary:
        temporary.write_text("whole")
        assert not path.exists()
        assert temporary.parent == path.parent  # a rename must not cross disks
    assert path.read_text() == "whole"
    assert names(path.parent) == ["a.txt"]


def test_files_are_as_readable_as_any_other_new_file(file):
    write_tensors(file, "test", {"a": torch.ones(2)}, {})
    plain = file.with_name("plain")
    plain.touch()
    assert file.stat().st_mode == plain.stat().st_mode


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(-9, 9) | st.text(),
    lambda parts: st.lists(parts) | st.dictionaries(st.text(), parts),
    max_leaves=8,
)


@modest
@given(JSON)
def test_json_comes_back_as_it_was(tmp_path_factory, document):
    path = tmp_path_factory.mktemp("json") / "a.json"
    write_json(path, document)
    assert read_json(path) == document


def test_json_without_meaning_is_refused_and_the_old_file_kept(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"a": 1})
    for bad in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="not JSON compliant"):
            write_json(path, {"a": bad})
    with pytest.raises(TypeError, match="not JSON serializable"):
        write_json(path, {"a": torch.ones(1)})
    assert read_json(path) == {"a": 1}
    assert names(tmp_path) == ["a.json"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (5,), (2, 3, 4, 5)])
def test_every_type_and_shape_comes_back_bit_for_bit(file, dtype, shape):
    noise = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    tensor = noise.mul(3).to(dtype)
    assert same_bits(written(file, {"a": tensor}), {"a": tensor})


def test_any_layout_comes_back_contiguous(file):
    base = torch.arange(120.0).reshape(2, 3, 4, 5)
    layouts = {
        "channels_last": base.to(memory_format=torch.channels_last),
        "transposed": base.transpose(0, 3),
        "strided": base[:, ::2, 1:, ::3],
        "expanded": torch.arange(3.0).expand(4, 3),
    }
    back = written(file, layouts)
    assert same_bits(back, layouts)
    assert all(tensor.is_contiguous() for tensor in back.values())


def test_tied_tensors_are_stored_once_and_restored(file):
    weight = nn.Parameter(torch.randn(4, 3))
    tensors = {"b.tied": weight, "a.other": torch.ones(1), "z.tied": weight.data}
    assert same_bits(written(file, tensors), tensors)
    assert stored_names(file) == {"b.tied", "a.other"}


def test_equal_tensors_with_their_own_memory_are_both_stored(file):
    written(file, {"a": torch.ones(3), "b": torch.ones(3)})
    assert stored_names(file) == {"a", "b"}


def test_views_that_overlap_come_back_each_in_full(file):
    base = torch.arange(6.0)
    tensors = {
        "all": base,
        "start": base[:4],
        "end": base[2:],
        "matrix": base.view(2, 3),
        "turned": base.view(2, 3).t(),
        "square": base[:4].view(2, 2),
        "turned_square": base[:4].view(2, 2).t(),
        "bits": base.view(torch.int32),
        "none": base[:0],
        "none_again": base[:0],
    }
    assert same_bits(written(file, tensors), tensors)


def test_a_file_can_be_replaced_while_its_tensors_are_in_use(file):
    first = written(file, {"a": torch.ones(1000)})["a"]
    write_tensors(file, "test", {"a": torch.zeros(1000)}, {})
    assert first.eq(1).all()


OLD = "files of tepui 0.1 and of other programs are not read"
HEADERS = {
    None: "written by tepui, but has no header",
    "{": "must be a file written by tepui, but: Exp",
    "nothing": "must be a file written by tepui, but: Exp",
    "[]": OLD,
    "{}": OLD,
    '{"kind": "test", "aliases": {}}': OLD,
    '{"kind": "test", "format": 1}': OLD,
    '{"kind": "test", "format": 0}': "which this version reads, got format 0",
    '{"kind": "test", "format": "2"}': "which this version reads, got format '2'",
}


@pytest.mark.parametrize("header", HEADERS)
def test_another_header_is_refused_in_words(file, header):
    metadata = {"format": "pt"} if header is None else {"tepui": header}
    save_file({"a": torch.ones(2)}, file, metadata=metadata)
    with pytest.raises(ValueError, match=re.escape(HEADERS[header])):
        read_tensors(file, "test")


def test_another_kind_is_refused(file):
    write_tensors(file, "logits", {}, {})
    with pytest.raises(ValueError, match="must hold 'ensemble', got 'logits'"):
        read_tensors(file, "ensemble")
    write_document(file, "run", {})
    with pytest.raises(ValueError, match="must hold 'checkpoint', got 'run'"):
        read_document(file, "checkpoint")


@pytest.mark.parametrize("bit", [0, 7])
def test_a_changed_bit_anywhere_is_refused(file, bit):
    """In the tensors, in their names, types and shapes, and in the document."""
    tensors = {"a": torch.arange(5.0), "b": torch.arange(6).view(2, 3)}
    write_tensors(file, "test", {**tensors, "c": tensors["b"]}, {"epoch": 1})
    whole = file.read_bytes()
    for place in range(len(whole)):
        changed = bytes([whole[place] ^ (1 << bit)])
        file.write_bytes(whole[:place] + changed + whole[place + 1 :])
        with suppress(ValueError):
            read, document = read_tensors(file, "test")
            # White space between the parts of a header has no meaning.
            assert same_bits(read, {**tensors, "c": tensors["b"]})
            assert document == {"epoch": 1}


def test_the_digest_depends_on_content_alone(file):
    one, two = torch.arange(3.0), torch.ones(2, 2)
    first = write_tensors(file, "test", {"a": one, "b": two}, {"x": 1, "y": (2,)})
    assert tensors_digest(file) == first
    other = file.with_name("other")
    again = write_tensors(other, "test", {"b": two, "a": one}, {"y": [2], "x": 1})
    assert first == again
    for tensors, document in (
        ({"a": one, "b": two.flatten()}, {"x": 1, "y": [2]}),
        ({"a": one, "c": two}, {"x": 1, "y": [2]}),
        ({"a": one.double(), "b": two}, {"x": 1, "y": [2]}),
        ({"a": one, "b": two}, {"x": 1, "y": [3]}),
    ):
        assert write_tensors(other, "test", tensors, document) != first


DOCUMENTS = st.dictionaries(st.text().filter(lambda name: name not in SEAL), JSON)
SEAL = ("kind", "format", "sha256")


@modest
@given(DOCUMENTS)
def test_a_sealed_document_comes_back_as_it_was(tmp_path_factory, document):
    path = tmp_path_factory.mktemp("sealed") / "a.json"
    write_document(path, "test", document)
    assert read_document(path, "test") == document


def test_numbers_as_names_are_sealed_as_they_are_read_back(tmp_path):
    path = tmp_path / "a.json"
    write_document(path, "test", {"by_epoch": {number: number for number in range(20)}})
    assert len(read_document(path, "test")["by_epoch"]) == 20


@pytest.mark.parametrize("name", SEAL)
def test_a_document_leaves_the_names_of_its_seal_alone(tmp_path, name):
    with pytest.raises(ValueError, match="document must leave these names to its seal"):
        write_document(tmp_path / "a.json", "test", {name: 1})


def test_same_bits_sees_every_difference():
    one = {"a": torch.tensor([1.0, torch.nan])}
    assert same_bits(one, {"a": one["a"].clone()})
    assert not same_bits(one, {"b": one["a"]})
    assert not same_bits(one, {**one, "b": one["a"]})
    assert not same_bits(one, {"a": one["a"].double()})
    assert not same_bits(one, {"a": one["a"].view(1, 2)})
    assert not same_bits({"a": torch.tensor(0.0)}, {"a": torch.tensor(-0.0)})


DOCUMENT = {"rule": "vote", "cells": [["fog", 3]], "text": "ü"}


def write(path, tensors, size, document=DOCUMENT):
    with writing_tensors(path, "logits", [*tensors], document) as file:
        for name, tensor in tensors.items():
            file.begin(name, tensor.shape, tensor.dtype)
            axis = 1 if tensor.ndim == 3 else 0
            for start in range(0, tensor.shape[axis], size):
                part = tensor.narrow(axis, start, min(size, tensor.shape[axis] - start))
                file.put(name, part, start, axis=axis)


@modest
@given(
    shape=st.tuples(st.integers(1, 4), st.integers(1, 9), st.integers(1, 5)),
    size=st.integers(1, 10),
    dtype=st.sampled_from([torch.float16, torch.float32, torch.float64]),
)
def test_any_pieces_give_the_tensors_back(tmp_path_factory, shape, size, dtype):
    path = tmp_path_factory.mktemp("stream") / "x.safetensors"
    tensors = {
        "ood/ä": torch.randn(shape).to(dtype),
        "labels/clean": torch.arange(shape[1]),
        "logits/clean": torch.randn(shape).to(dtype),
        "labels/fog/3": torch.arange(shape[1] + 1),
        "features": torch.randn(*shape, 2).to(dtype),
    }
    write(path, tensors, size)
    read, document = read_tensors(path, "logits")
    assert document == DOCUMENT
    assert same_bits(read, tensors)


def test_the_digest_is_that_of_a_file_written_at_once(tmp_path):
    tensors = {"a": torch.randn(2, 4, 2), "b": torch.arange(3)}
    write(tmp_path / "x", tensors, 3)
    write_tensors(tmp_path / "y", "logits", tensors, DOCUMENT)
    assert tensors_digest(tmp_path / "x") == tensors_digest(tmp_path / "y")


def test_a_file_that_is_not_finished_is_not_there(tmp_path):
    def stopped():
        with writing_tensors(tmp_path / "x", "logits", ["a"], {}) as file:
            file.begin("a", (1, 2, 3), torch.float32)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert not list(tmp_path.iterdir())
