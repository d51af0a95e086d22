"""A tensor file that is written piece by piece, for tensors too large to hold.

The file is of the format of :mod:`tepui.core.storage`, and its reader reads it. Room
for the header is left at the beginning and filled at the end, when all offsets and the
digest are known; what is left over is blank, as safetensors allows.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import torch
from torch import Tensor

from tepui.core.storage import (
    FILLER,
    begin_digest,
    described,
    header_of,
    raw_bytes,
    replacing,
)

_NAMES = {
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.int16: "I16",
    torch.int32: "I32",
    torch.int64: "I64",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float32: "F32",
    torch.float64: "F64",
}
_READ_AT_ONCE = 2**24
_WIDEST = 10**18


class _Region(NamedTuple):
    """Where a tensor lies in the file, in bytes after the header."""

    start: int
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def end(self) -> int:
        return self.start + math.prod(self.shape) * self.dtype.itemsize

    def entry(self) -> dict[str, Any]:
        offsets = [self.start, self.end]
        name = _NAMES[self.dtype]
        return {"dtype": name, "shape": [*self.shape], "data_offsets": offsets}


class TensorStream:
    """A tensor file in the making; see :func:`writing_tensors`."""

    def __init__(self, file: BinaryIO, room: int) -> None:
        self._file, self._room = file, room
        self._regions: dict[str, _Region] = {}
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
        self._file.truncate(self._room + self._end)
        content = {"document": dict(document), "aliases": {}}
        digest = hashlib.sha256()
        begin_digest(digest, kind, content)
        for name, region in sorted(self._regions.items()):
            digest.update(described(name, region.dtype, region.shape))
            self._hash(digest, region)
        metadata = header_of(kind, digest.hexdigest(), content)
        entries = {name: region.entry() for name, region in self._regions.items()}
        text = _header(metadata, entries)
        self._file.seek(0)
        self._file.write((self._room - 8).to_bytes(8, "little"))
        self._file.write(text.ljust(self._room - 8))

    def _add(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        self._regions[name] = region = _Region(self._end, shape, dtype)
        self._end = region.end

    def _write(self, place: int, values: Tensor) -> None:
        self._file.seek(self._room + place)
        self._file.write(raw_bytes(values).numpy().data)

    def _hash(self, digest: Any, region: _Region) -> None:
        self._file.seek(self._room + region.start)
        left = region.end - region.start
        while left:
            part = self._file.read(min(left, _READ_AT_ONCE))
            digest.update(part)
            left -= len(part)


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
    widest = _Region(_WIDEST, (_WIDEST,) * 3, torch.float64).entry()
    entries = {prefix + name: widest for name in names for prefix in ("", FILLER)}
    content = {"document": dict(document), "aliases": {}}
    room = 8 + len(_header(header_of(kind, "0" * 64, content), entries))
    room += -room % 8
    with replacing(path) as temporary, temporary.open("r+b") as file:
        stream = TensorStream(file, room)
        yield stream
        stream.finish(kind, document)


def _header(metadata: Mapping[str, str], entries: Mapping[str, Any]) -> bytes:
    return json.dumps({"__metadata__": metadata, **entries}).encode()
