"""CIFAR-10 and CIFAR-100: 50 000 training and 10 000 test images of 32×32 pixels.

Read from the python or the binary version, whichever is there; a download fetches the
python version. The normalization constants are those of SharpBalance's released code;
its split of the training images is an index file for ``tepui.data.split_at``.

The python version was written by Python 2 with protocol 2: one dictionary of byte
strings, lists of small integers or byte strings, and one array of bytes. A pickle is a
program; the reader admits only the instructions and the three names from numpy that
those files hold, and builds the array itself, so that nothing a file names is ever
called.

References:
    Krizhevsky (2009), Learning Multiple Layers of Features from Tiny Images.
"""

import io
import pickle
import pickletools
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np
import numpy.typing as npt

from tepui.core.checks import require
from tepui.core.storage import read_text
from tepui.data.arrays import Normalize
from tepui.data.corruptions.files import Released, released_at
from tepui.data.published import (
    Contents,
    Download,
    Origin,
    PublishedArrays,
    require_file,
)

_ALLOWED = (
    "PROTO STOP MARK BINPUT LONG_BINPUT BINGET LONG_BINGET "
    "EMPTY_DICT EMPTY_LIST EMPTY_TUPLE APPEND APPENDS SETITEM SETITEMS "
    "TUPLE TUPLE1 TUPLE2 TUPLE3 NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 "
    "SHORT_BINSTRING BINSTRING GLOBAL REDUCE BUILD"
)
_OPCODES = frozenset(_ALLOWED.split())


class _Kind:
    """Stands for a numpy type that is named as an argument."""


class _Array:
    """Stands for an array while its state has not been read."""

    values: npt.NDArray[np.uint8] | None = None

    def __init__(self, *_: object) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        _version, shape, kind, fortran, data = state
        if not (isinstance(kind, _Bytes) and isinstance(data, bytes)) or fortran:
            raise _RefusedError("damage: an array that does not hold bytes in rows")
        self.values = np.frombuffer(data, dtype=np.uint8).reshape(shape)


class _Bytes:
    """Stands for the type of unsigned bytes."""

    def __init__(self, code: bytes, *_: object) -> None:
        if code != b"u1":
            raise _RefusedError(f"an array of type {code!r}")

    def __setstate__(self, state: object) -> None:
        pass


_NAMES: dict[str, type] = {
    "numpy.core.multiarray _reconstruct": _Array,
    "numpy ndarray": _Kind,
    "numpy dtype": _Bytes,
}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> type:
        return _NAMES[f"{module} {name}"]


class _RefusedError(Exception):
    """Something that CIFAR's files do not hold."""


def read_cifar_pickle(path: Path) -> dict[str, Any]:
    """Read one file of CIFAR's python version."""
    try:
        return _read(path.read_bytes())
    except Exception as error:  # a damaged pickle can fail in any way
        what = error if isinstance(error, _RefusedError) else f"damage: {error}"
        raise ValueError(f"{path} must be a valid CIFAR pickle, got {what}") from error


def _read(content: bytes) -> dict[str, Any]:
    end = 0
    for opcode, argument, position in pickletools.genops(content):
        end = (position or 0) + 1
        if opcode.name not in _OPCODES:
            raise _RefusedError(f"the instruction {opcode.name}")
        if opcode.name == "LONG_BINPUT" and int(argument or 0) > len(content):
            raise _RefusedError(f"a memory of {argument} objects")
        if opcode.name == "GLOBAL" and argument not in _NAMES:
            raise _RefusedError(f"the name {argument!r}")
    entries = _Reader(io.BytesIO(content), encoding="bytes").load()
    if end != len(content):
        raise _RefusedError(f"{len(content) - end} bytes after its end")
    if not isinstance(entries, dict):
        raise _RefusedError(f"a {type(entries).__name__} in place of a dictionary")
    for key in entries:
        if not isinstance(key, bytes):
            raise _RefusedError(f"a {type(key).__name__} in place of a name")
    return {key.decode("latin-1"): _plain(value) for key, value in entries.items()}


def _plain(value: Any) -> Any:
    """Return an array as numpy's, and lists of byte strings as text."""
    if isinstance(value, _Array) and value.values is not None:
        return value.values
    items = value if isinstance(value, list) else [value]
    if not all(isinstance(item, bytes | int) for item in items):
        raise _RefusedError("a value that is not bytes, integers or a whole array")
    if isinstance(value, list):
        return [i.decode("latin-1") if isinstance(i, bytes) else i for i in value]
    return value


_PIXELS = 3 * 32 * 32

Rows = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]


def _origin(folders: tuple[str, str], archive: str, sha256: str, size: int) -> Origin:
    url = f"https://www.cs.toronto.edu/~kriz/{archive}.tar.gz"
    file = Download(url, f"sha256:{sha256}", size)
    return Origin(folders, (file,))


class _CIFAR(PublishedArrays):
    """Either set; the first folder of its origin holds the python version.

    Its pickles are ``files`` and ``names_files[0]``, with keys that begin with
    ``prefix``; in the binary version ``names_files[1]`` is text, and the last of
    ``label_bytes`` at the beginning of a row is the label.
    """

    shape = (3, 32, 32)
    num_samples: ClassVar[dict[bool, int]] = {True: 50_000, False: 10_000}
    files: ClassVar[dict[bool, list[str]]]
    names_files: ClassVar[tuple[str, str]]
    prefix: ClassVar[str]
    label_bytes: ClassVar[int]
    num_classes: ClassVar[int]

    def _read(self, folder: Path, train: bool) -> Contents:
        files = self.files[train]
        rows = self.num_samples[train] // len(files)
        if folder.name == self.origin.folders[0]:
            key = f"{self.prefix}labels"
            parts = [_read_pickle(folder / file, key, rows) for file in files]
            key = f"{self.prefix}label_names"
            names = _entries(folder / self.names_files[0], key)[key]
        else:
            binary = [folder / f"{file}.bin" for file in files]
            parts = [_read_binary(file, self.label_bytes, rows) for file in binary]
            require_file(folder / self.names_files[1])
            names = read_text(folder / self.names_files[1]).split()
        rule = f"name {self.num_classes} classes"
        require(len(names) == self.num_classes, str(folder), rule, names)
        images, labels = map(np.concatenate, zip(*parts, strict=True))
        return images.reshape(-1, *self.shape), labels, tuple(map(str, names))


@final
class CIFAR10(_CIFAR):
    """CIFAR-10, 60 000 images of 32 px in 10 classes.

    Images are bytes of shape ``(samples, 3, 32, 32)``, labels int64. Arguments as in
    :class:`tepui.data.published.PublishedArrays`.
    """

    origin = _origin(
        ("cifar-10-batches-py", "cifar-10-batches-bin"),
        "cifar-10-python",
        "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
        170_000_000,
    )
    files: ClassVar[dict[bool, list[str]]] = {
        True: [f"data_batch_{number}" for number in range(1, 6)],
        False: ["test_batch"],
    }
    names_files = ("batches.meta", "batches.meta.txt")
    prefix, label_bytes, num_classes = "", 1, 10
    normalization = Normalize((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))


@final
class CIFAR100(_CIFAR):
    """CIFAR-100, 60 000 images of 32 px in 100 classes.

    Images are bytes of shape ``(samples, 3, 32, 32)``; labels are the fine ones, int64.
    Arguments as in :class:`tepui.data.published.PublishedArrays`.
    """

    origin = _origin(
        ("cifar-100-python", "cifar-100-binary"),
        "cifar-100-python",
        "85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
        169_000_000,
    )
    files: ClassVar[dict[bool, list[str]]] = {True: ["train"], False: ["test"]}
    names_files = ("meta", "fine_label_names.txt")
    prefix, label_bytes, num_classes = "fine_", 2, 100
    normalization = Normalize((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762))


@final
class CIFAR10C(Released):
    """CIFAR-10-C, CIFAR-10's test images under 19 corruptions at five severities."""

    origin = released_at(
        "CIFAR-10-C",
        2535967,
        "sha256:c72763e101c723b7c507b96205f7e938912a5d587376173b825850cf3cb876a7",
        2_918_000_000,
    )
    normalization = CIFAR10.normalization


@final
class CIFAR100C(Released):
    """CIFAR-100-C, CIFAR-100's test images under 19 corruptions at five severities."""

    origin = released_at(
        "CIFAR-100-C",
        3555552,
        "sha256:30ee6543a1bfd049fa33834b7c1ada301e7064b7fbe8fc38340eb8b62ced4b33",
        2_918_000_000,
    )
    normalization = CIFAR100.normalization


def _read_binary(path: Path, label_bytes: int, rows: int) -> Rows:
    """Read rows of label bytes, of which the last counts, and pixels."""
    require_file(path)
    expected, size = rows * (label_bytes + _PIXELS), path.stat().st_size
    rule = f"hold {rows} images in {expected} bytes"
    require(size == expected, str(path), rule, size)
    table = np.fromfile(path, dtype=np.uint8).reshape(rows, -1)
    return table[:, label_bytes:], table[:, label_bytes - 1].astype(np.int64)


def _read_pickle(path: Path, key: str, rows: int) -> Rows:
    entries = _entries(path, "data", key)
    images, labels = np.asarray(entries["data"]), np.asarray(entries[key])
    rule = f"hold {rows} images of {_PIXELS} bytes"
    require(images.shape == (rows, _PIXELS), str(path), rule, images.shape)
    fits = labels.shape == (rows,) and labels.dtype.kind in "iu" and labels.min() >= 0
    require(bool(fits), str(path), f"hold {rows} labels", labels.shape)
    return images, labels.astype(np.int64)


def _entries(path: Path, *keys: str) -> dict[str, Any]:
    """Return what a pickle holds, the keys among it."""
    require_file(path)
    entries = read_cifar_pickle(path)
    for key in keys:
        require(key in entries, str(path), f"hold {key!r}", sorted(entries))
    return entries
