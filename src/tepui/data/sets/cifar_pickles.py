"""A reader for the pickles of CIFAR's python version, and for nothing else.

The files were written by Python 2 with protocol 2: one dictionary of byte strings,
lists of small integers or byte strings, and one array of bytes. A pickle is a program;
this reader admits only the instructions and the three names from numpy that those files
hold, and builds the array itself, so that nothing a file names is ever called.
"""

import io
import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

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
