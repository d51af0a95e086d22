"""Every reader of data files on files that are none of theirs.

One sentence that names the file, whatever is wrong with it, and nothing hangs.
"""

import os
import shutil
import tempfile
import threading
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch
from safetensors.torch import save_file
from scipy.io import savemat

from data.mrpc_files import write as write_mrpc
from data_layouts import (
    cifar10_binary,
    cifar10_python,
    cifar100_python,
    fashion_mnist,
    images_and_labels,
    picture,
)
from table_files import rows, written
from tepui.data import (
    CIFAR10,
    CIFAR100,
    MRPC,
    SVHN,
    ArrayFile,
    Arrays,
    ArraysOnDisk,
    FashionMNIST,
    ImageFiles,
    Preparation,
    Table,
    corrupted,
    corrupted_files,
    split_at,
    write_corrupted,
)
from tepui.data.image_files import listed_classes

NOBODY = 65534
SETS = (CIFAR10, CIFAR100, FashionMNIST, SVHN)
SMALL = {True: 5, False: 5}
CLEAN = Arrays(torch.zeros(4, 1, 8, 8, dtype=torch.uint8), [0, 1, 0, 1])


def table(kind):
    def make(folder):
        file = written(folder / "t.csv", rows())
        if kind == "parquet":
            pandas.read_csv(file).to_parquet(folder / "t.parquet")
        return folder / f"t.{kind}"

    return make, lambda file: Table(file, "sold")


def arrays(name):
    def make(folder):
        x, y = np.random.default_rng(0).normal(size=(40, 9)), np.arange(40) % 2
        parts = {"x_train": x, "y_train": y}
        if name == "x.npz":
            np.savez_compressed(folder / name, **parts)
        for part, values in parts.items():
            np.save(folder / f"{part}.npy", values)
        save_file({"x": torch.from_numpy(x)}, folder / "x.safetensors")
        return folder / name

    return make


def images(name):
    def make(folder):
        return picture(folder / name)

    return make, lambda file: ImageFiles([file], [0]).held


def published(kind, write, name):
    def make(folder):
        data = images_and_labels(5, 10, shape=(*kind.shape[:1], *kind.shape[1:]))
        write(folder, *data, *data)
        return next(folder.rglob(name))

    return make, lambda file: kind(file.parent.parent, train=False)


def debian(folder, images, labels, *_):
    fashion_mnist(folder / "fashion-mnist", images, labels, "t10k")


def plain(folder, images, labels, *_):
    fashion_mnist(folder / "fashion-mnist", images, labels, "t10k", compressed=False)


def matlab(folder, images, labels, *_):
    (folder / "svhn").mkdir()
    content = {"X": images.transpose(2, 3, 1, 0), "y": labels + 1}
    savemat(folder / "svhn" / "test_32x32.mat", content)


def copies(name):
    def make(folder):
        write_corrupted(corrupted(CLEAN, types=["fog"]), folder / "c")
        return folder / "c" / name

    return make, lambda file: corrupted_files(file.parent, CLEAN)["fog", 1]


def sentences(folder):
    return write_mrpc(folder) / "msr_paraphrase_train.txt"


def classes(folder):
    (folder / "wnids.txt").write_text("n03\nn01\nn02\n")
    return folder / "wnids.txt"


def positions(folder):
    np.save(folder / "held_out.npy", [3, 1])
    return folder / "held_out.npy"


READERS = {
    "csv": table("csv"),
    "parquet": table("parquet"),
    "npz": (arrays("x.npz"), ArrayFile),
    "npy in a folder": (arrays("x_train.npy"), lambda file: ArrayFile(file.parent)),
    "npy to predict": (arrays("x_train.npy"), Preparation().apply),
    "npy on disk": (arrays("x_train.npy"), lambda f: ArraysOnDisk(f, torch.zeros(40))),
    "safetensors": (arrays("x.safetensors"), lambda f: ArraysOnDisk(f, torch.ones(40))),
    "positions": (positions, lambda file: split_at(CLEAN, file)),
    **{name: images(name) for name in ("x.png", "x.jpg", "x.gif", "x.tif", "x.webp")},
    "pickle": published(CIFAR10, cifar10_python, "test_batch"),
    "other pickle": published(CIFAR100, cifar100_python, "test"),
    "binary": published(CIFAR10, cifar10_binary, "test_batch.bin"),
    "idx": published(FashionMNIST, plain, "t10k-images-idx3-ubyte"),
    "idx.gz": published(FashionMNIST, debian, "t10k-images-idx3-ubyte.gz"),
    "mat": published(SVHN, matlab, "test_32x32.mat"),
    "copies": copies("fog.npy"),
    "labels of copies": copies("labels.npy"),
    "texts": (sentences, lambda file: MRPC(file.parent.parent)),
    "classes": (classes, lambda file: listed_classes(file, 3)),
}


def empty(file):
    file.write_bytes(b"")


def cut(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def another_format(file):
    file.write_bytes(b"<!doctype html><title>404 Not Found</title>\n" * 90)


def another_encoding(file):
    file.write_bytes("größe,sold\n1,x\n".encode("utf-16") * 90)


def a_fifo(file):
    file.unlink()
    os.mkfifo(file)


def a_folder(file):
    file.unlink()
    file.mkdir()


def a_broken_link(file):
    file.unlink()
    file.symlink_to(file.parent / "gone")


def no_permission(file):
    file.chmod(0)


FAULTS = {
    empty: "",
    cut: "",
    another_format: "",
    another_encoding: "",
    a_fifo: "must be a file|must exist",
    a_folder: "must be a file|must exist",
    a_broken_link: "must exist|No such file",
    no_permission: "ermission denied",
}


@pytest.fixture
def folder(monkeypatch):
    for kind in SETS:
        monkeypatch.setattr(kind, "num_samples", SMALL)
    place = Path(tempfile.mkdtemp())  # where nobody else but root may look, either
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


def said(read, file):
    """Return the error of reading a file, within some seconds."""
    found = []

    def reading():
        try:
            found.append(read(file))
        except Exception as error:  # what kind of one is asked below
            found.append(error)

    thread = threading.Thread(target=reading, daemon=True)
    thread.start()
    thread.join(10)
    assert found, "reading hangs"
    return found[0]


def check_sentence(error, file):
    assert isinstance(error, ValueError | FileNotFoundError | PermissionError), error
    text = str(error)
    assert file.name.removesuffix(".gz") in text, text
    assert "\n" not in text
    assert len(text) < 400


@pytest.mark.parametrize("reader", READERS)
def test_whole_files_are_read(reader, folder):
    make, read = READERS[reader]
    assert len(read(make(folder))) > 0


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
@pytest.mark.parametrize("reader", READERS)
def test_what_is_wrong_is_said_in_one_sentence(reader, fault, folder):
    make, read = READERS[reader]
    file = make(folder)
    fault(file)
    hidden = fault is no_permission and os.geteuid() == 0
    if hidden:
        os.seteuid(NOBODY)
    try:
        error = said(read, file)
    finally:
        if hidden:
            os.seteuid(0)
    if reader == "csv" and fault in (cut, another_format):
        return  # which may end after a row, and be lines of anything
    check_sentence(error, file)
    assert any(part in str(error) for part in FAULTS[fault].split("|")), error


def claims_npy(file):
    header = {"descr": "<f4", "fortran_order": False, "shape": (10**13, 4)}
    with file.open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, header)
        stream.write(bytes(100))


def claims_npz(file):
    claims_npy(file.with_name("x_train.npy"))
    shutil.make_archive(str(file.with_suffix("")), "zip", file.parent, "x_train.npy")
    file.with_suffix(".zip").rename(file)


def claims_idx(file):
    file.write_bytes(bytes([0, 0, 8, 3]) + b"\xff" * 12)


def claims_image(file):
    head = file.read_bytes()
    file.write_bytes(head[:16] + b"\x00\x01\x00\x00" * 2 + head[24:])


def claims_header(file):
    file.write_bytes((2**60).to_bytes(8, "little") + bytes(100))


@pytest.mark.parametrize(
    ("reader", "claim"),
    [
        ("npz", claims_npz),
        ("npy in a folder", claims_npy),
        ("npy to predict", claims_npy),
        ("npy on disk", claims_npy),
        ("safetensors", claims_header),
        ("positions", claims_npy),
        ("x.png", claims_image),
        ("idx", claims_idx),
        ("copies", claims_npy),
        ("labels of copies", claims_npy),
    ],
)
def test_what_claims_too_much_for_memory_is_refused(reader, claim, folder):
    make, read = READERS[reader]
    file = make(folder)
    claim(file)
    check_sentence(said(read, file), file)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_table_too_large_for_memory_is_refused(kind, folder, monkeypatch):
    make, read = READERS[kind]
    file = make(folder)

    def fail(*_, **how):
        raise MemoryError

    monkeypatch.setattr(pandas, f"read_{kind}", fail)
    error = said(read, file)
    check_sentence(error, file)
    assert "MemoryError" in str(error)
