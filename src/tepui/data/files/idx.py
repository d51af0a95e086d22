"""Files in the idx format of MNIST: a type, the sizes of the axes, then bytes."""

import gzip
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tepui.core.checks import require
from tepui.data.files.origins import require_file

_UNSIGNED_BYTES = 8


def read_idx(path: Path) -> npt.NDArray[np.uint8]:
    """Read an array of bytes from an idx file."""
    compressed = path.with_name(f"{path.name}.gz")
    found = path if path.is_file() else compressed
    require_file(found)
    content = found.read_bytes() if found is path else _decompressed(found)
    require(len(content) >= 4, str(found), "be an idx file", f"{len(content)} bytes")
    right = content[:2] == b"\0\0" and content[2] == _UNSIGNED_BYTES
    require(right, str(found), "be an idx file of bytes", content[:4])
    start = 4 + 4 * content[3]
    rule = f"hold the sizes of {content[3]} axes"
    require(len(content) >= start, str(found), rule, f"{len(content)} bytes")
    shape = tuple(np.frombuffer(content[4:start], dtype=">u4").tolist())
    size = int(np.prod(shape, dtype=np.int64))
    rule = f"hold {size} values of shape {shape}"
    values = np.frombuffer(content, dtype=np.uint8, offset=start)
    require(len(values) == size, str(found), rule, len(values))
    return values.reshape(shape).copy()


def _decompressed(path: Path) -> bytes:
    try:
        with gzip.open(path) as file:
            return file.read()
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} must be a valid gzip file: {error}") from error
