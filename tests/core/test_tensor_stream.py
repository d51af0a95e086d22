"""A tensor file written piece by piece is read like one written at once."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from strategies import modest
from tepui.core.storage import (
    read_tensors,
    same_bits,
    tensors_digest,
    write_tensors,
    writing_tensors,
)

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


def test_a_changed_bit_is_found(tmp_path):
    write(tmp_path / "x", {"a": torch.randn(2, 4, 2)}, 3)
    content = bytearray((tmp_path / "x").read_bytes())
    content[-3] ^= 1
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(ValueError, match="its digest differs"):
        read_tensors(tmp_path / "x", "logits")


def test_a_file_that_is_not_finished_is_not_there(tmp_path):
    def stopped():
        with writing_tensors(tmp_path / "x", "logits", ["a"], {}) as file:
            file.begin("a", (1, 2, 3), torch.float32)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert not list(tmp_path.iterdir())
