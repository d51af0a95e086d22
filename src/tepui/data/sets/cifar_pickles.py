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
from typing import Any, NoReturn

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
            raise pickle.UnpicklingError("an array that does not hold bytes in rows")
        self.values = np.frombuffer(data, dtype=np.uint8).reshape(shape)


class _Bytes:
    """Stands for the type of unsigned bytes."""

    def __init__(self, code: bytes, *_: object) -> None:
        if code != b"u1":
            raise pickle.UnpicklingError(f"an array of type {code!r}")

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


def read_cifar_pickle(path: Path) -> dict[str, Any]:
    """Read one file of CIFAR's python version."""
    content = path.read_bytes()
    end = 0
    try:
        for opcode, argument, position in pickletools.genops(content):
            end = (position or 0) + 1
            if opcode.name not in _OPCODES:
                _refuse(path, f"the instruction {opcode.name}")
            if opcode.name == "GLOBAL" and argument not in _NAMES:
                _refuse(path, f"the name {argument!r}")
        found = _Reader(io.BytesIO(content), encoding="bytes").load()
    except _RefusedError:
        raise
    except Exception as error:  # a damaged pickle fails in any way it likes
        _refuse(path, f"damage: {error}", error)
    if end != len(content):
        _refuse(path, f"{len(content) - end} bytes after its end")
    if not isinstance(found, dict):
        _refuse(path, f"a {type(found).__name__} in place of a dictionary")
    for key in found:
        if not isinstance(key, bytes):
            _refuse(path, f"a {type(key).__name__} in place of a name")
    return {_text(key): _plain(path, value) for key, value in found.items()}


class _RefusedError(ValueError):
    """A file that holds something CIFAR's do not."""


def _refuse(path: Path, what: str, cause: Exception | None = None) -> NoReturn:
    raise _RefusedError(f"{path} must be a valid CIFAR pickle, got {what}") from cause


def _text(value: bytes) -> str:
    return value.decode("latin-1")


def _plain(path: Path, value: Any) -> Any:
    """Return an array as numpy's, and lists of byte strings as text."""
    if isinstance(value, _Array) and value.values is not None:
        return value.values
    items = value if isinstance(value, list) else [value]
    if not all(isinstance(item, bytes | int) for item in items):
        _refuse(path, "a value that is neither bytes, integers nor a whole array")
    if isinstance(value, list):
        return [_text(item) if isinstance(item, bytes) else item for item in value]
    return value
