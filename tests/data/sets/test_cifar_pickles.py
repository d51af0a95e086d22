import os
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_layouts import python2_pickle
from tepui.data.sets.cifar import read_cifar_pickle

ARRAY = np.arange(3 * 4, dtype=np.uint8).reshape(3, 4)
BATCH = {
    "batch_label": "training batch 1 of 5",
    "labels": [6, 9, 300],
    "data": ARRAY,
    "filenames": ["a_s_1.png", "b_s_2.png", "x" * 300],
}


def written(path, content):
    file = path / "batch"
    file.write_bytes(content)
    return file


def test_a_batch_comes_out_as_it_went_in(tmp_path):
    found = read_cifar_pickle(written(tmp_path, python2_pickle(BATCH)))
    assert (found.pop("data") == ARRAY).all()
    assert {key: found[key] for key in ("labels", "filenames")} == {
        key: BATCH[key] for key in ("labels", "filenames")
    }


def test_the_writer_of_this_test_writes_what_numpy_reads():
    found = pickle.loads(
        python2_pickle(BATCH).replace(b"numpy.core.", b"numpy._core."),
        encoding="latin-1",
    )
    assert (found.pop("data") == ARRAY).all()
    assert found == {key: value for key, value in BATCH.items() if key != "data"}


class Evil:
    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return os.mkdir, (str(self.target),)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_foreign_code_is_refused_and_not_run(protocol, tmp_path):
    target = tmp_path / "made"
    content = pickle.dumps({"data": Evil(target)}, protocol)
    pickle.loads(content)
    target.rmdir()  # the pickle does what it should
    with pytest.raises(ValueError, match="must be a valid CIFAR pickle, got the "):
        read_cifar_pickle(written(tmp_path, content))
    assert not target.exists()


FOREIGN = {
    "other function": b"\x80\x02cbuiltins\neval\nU\x011\x85R.",
    "other name in numpy": b"\x80\x02cnumpy\nload\nU\x01x\x85R.",
    "stack global": b"\x80\x02U\x02osU\x06system\x93.",
    "instance": b"\x80\x02(ios\nsystem\n.",
    "object": b"\x80\x02(cos\nsystem\nU\x01xo.",
    "new object": b"\x80\x02cnumpy\ndtype\n)\x81.",
    "extension": b"\x80\x02\x82\x01.",
    "persistent": b"\x80\x02P1\n.",
    "unicode": b"\x80\x02X\x01\x00\x00\x00a.",
    "long": b"\x80\x02\x8a\x01\x05.",
}


@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
def test_instructions_that_cifar_does_not_need_are_refused(content, tmp_path):
    with pytest.raises(ValueError, match=r"got the (instruction|name) "):
        read_cifar_pickle(written(tmp_path, content))


STATELESS = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\x00tU\x01btR"


def valued(value):
    """Return a pickle of a dictionary with one value."""
    return b"\x80\x02}U\x04data" + value + b"s."


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (python2_pickle([1, 2]), "a list in place of a dictionary"),
        (python2_pickle({"data": ARRAY.astype(np.float32)}), "an array of type b'f4'"),
        (python2_pickle({"data": ARRAY}).replace(b"\x89U", b"\x88U"), "damage"),
        (b"", "damage"),
        (b"\x80\x02.", "damage"),
        (b"not a pickle", "must be a valid CIFAR pickle"),
        (python2_pickle(BATCH) + b"more", "got 4 bytes after its end"),
        (python2_pickle(BATCH) * 2, "bytes after its end"),
        (valued(b"cnumpy\nndarray\n"), "not bytes, integers or a whole array"),
        (valued(b"](cnumpy\nndarray\ne"), "not bytes, integers or a whole array"),
        (valued(b"cnumpy\ndtype\nU\x02u1\x85R"), "not bytes, integers or"),
        (valued(STATELESS), "not bytes, integers or a whole array"),
        (valued(b"(" + STATELESS + b"t"), "not bytes, integers or a whole array"),
        (b"\x80\x02}K\x01K\x02s.", "a int in place of a name"),
    ],
)
def test_damage_is_named(content, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        read_cifar_pickle(written(tmp_path, content))


def test_every_truncation_is_refused(tmp_path):
    content = python2_pickle(BATCH)
    for length in range(len(content)):
        with pytest.raises(ValueError, match="must be a valid CIFAR pickle"):
            read_cifar_pickle(written(tmp_path, content[:length]))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_change_is_refused_or_harmless(tmp_path_factory, data):
    content = bytearray(python2_pickle(BATCH))
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(content) - 1))
        content[position] = data.draw(st.integers(0, 255))
    file = written(tmp_path_factory.getbasetemp(), bytes(content))
    try:
        found = read_cifar_pickle(file)
    except ValueError:
        return
    for value in found.values():
        items = value if isinstance(value, list) else [value]
        assert all(isinstance(i, bytes | str | int | np.ndarray) for i in items)
