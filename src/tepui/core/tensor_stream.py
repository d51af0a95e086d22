"""A tensor file that is written piece by piece, for tensors too large to hold.

The file is of the format of :mod:`tepui.core.storage`, and its reader reads it. Room
for the header is left at the beginning and filled at the end, when all offsets and the
digest are known; what is left over is blank, as safetensors allows.
"""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from tepui.core.replacing import replacing, writing
from tepui.core.storage import (
    FILLER,
    begin_digest,
    described,
    header_of,
    raw_bytes,
)
from tepui.core.tensor_format import Region, header_bytes

_WIDEST = 10**18
_AT_ONCE = 2**24  # bytes


class TensorStream:
    """A tensor file in the making; see :func:`writing_tensors`."""

    def __init__(self, path: Path, file: BinaryIO, room: int) -> None:
        self._path, self._file, self._room = path, file, room
        self._regions: dict[str, Region] = {}
        self._end = 0

    def begin(self, name: str, shape: Sequence[int], dtype: torch.dtype) -> None:
        """Make room for a tensor, which :meth:`put` then fills.

        Args:
            name: Its name in the file.
            shape: Its shape.
            dtype: The type of its numbers.
        """
        if short := -self._end % dtype.itemsize:
            self._add(f"{FILLER}{name}", (short,), torch.uint8)
        self._add(name, tuple(shape), dtype)

    def put(self, name: str, values: Tensor, start: int = 0, *, axis: int = 0) -> None:
        """Fill some rows of a tensor.

        Args:
            name: A tensor that has begun.
            values: Its rows, some along ``axis`` and all along every other axis.
            start: The first of them.
            axis: The axis that is cut into pieces, 0 or 1.
        """
        region = self._regions[name]
        rows = values.detach().to("cpu", region.dtype)
        row_bytes = math.prod(region.shape[axis + 1 :]) * region.dtype.itemsize
        for number, part in enumerate(rows if axis else [rows]):
            first = number * region.shape[axis] + start
            self._write(region.start + first * row_bytes, part)

    def finish(self, kind: str, document: Mapping[str, Any]) -> None:
        """Write the header, with the digest of everything.

        Args:
            kind: What the file holds.
            document: What describes it.
        """
        content = {"document": dict(document), "aliases": {}}
        digest = hashlib.sha256()
        begin_digest(digest, kind, content)
        with writing(self._path):
            self._file.truncate(self._room + self._end)
            for name, region in sorted(self._regions.items()):
                digest.update(described(name, region.dtype, region.shape))
                self._hash(digest, region)
            metadata = header_of(kind, digest.hexdigest(), content)
            self._file.seek(0)
            self._file.write(header_bytes(metadata, self._regions, self._room))

    def _add(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        self._regions[name] = region = Region(self._end, shape, dtype)
        self._end = region.end

    def _hash(self, digest: Any, region: Region) -> None:
        self._file.seek(self._room + region.start)
        for start in range(region.start, region.end, _AT_ONCE):
            digest.update(self._file.read(min(_AT_ONCE, region.end - start)))

    def _write(self, place: int, values: Tensor) -> None:
        with writing(self._path):
            self._file.seek(self._room + place)
            self._file.write(raw_bytes(values).numpy().data)


@contextmanager
def writing_tensors(
    path: Path, kind: str, names: Sequence[str], document: Mapping[str, Any]
) -> Iterator[TensorStream]:
    """Yield a tensor file to be filled, which appears under its name once it is whole.

    Args:
        path: Its place.
        kind: What it holds.
        names: All tensors that will be in it.
        document: What describes it.

    Yields:
        The file in the making.
    """
    widest = Region(_WIDEST, (_WIDEST,) * 3, torch.float64)
    regions = {prefix + name: widest for name in names for prefix in ("", FILLER)}
    content: dict[str, Any] = {"document": dict(document), "aliases": {}}
    room = len(header_bytes(header_of(kind, "0" * 64, content), regions))
    with replacing(path) as temporary, _opened(path, temporary) as file:
        stream = TensorStream(path, file, room)
        yield stream
        stream.finish(kind, document)


@contextmanager
def _opened(path: Path, temporary: Path) -> Iterator[BinaryIO]:
    """Open a file in the making; closing it writes the last of it."""
    with writing(path):
        file = temporary.open("r+b")
    try:
        yield file
    except BaseException:
        with suppress(OSError):
            file.close()
        raise
    with writing(path):
        file.close()
