"""The safetensors format: where tensors lie in a file, read and written by the byte.

A file begins with the length of its header, eight bytes, and the header, JSON that
gives type, shape and place of every tensor. The tensors follow without gaps.
"""

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import torch
from torch import Tensor

from tepui.core.json_text import as_text, parsed
from tepui.core.limits import limits_here

NAMES = {
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.int16: "I16",
    torch.uint16: "U16",
    torch.int32: "I32",
    torch.uint32: "U32",
    torch.int64: "I64",
    torch.uint64: "U64",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float32: "F32",
    torch.float64: "F64",
    torch.complex64: "C64",
}
_TYPES = {name: dtype for dtype, name in NAMES.items()}
_METADATA = "__metadata__"
_LENGTH = 8  # bytes that say how long the header is


class Region(NamedTuple):
    """Where a tensor lies in a file, in bytes after the header."""

    start: int
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def end(self) -> int:
        """Where the next one may begin."""
        return self.start + math.prod(self.shape) * self.dtype.itemsize

    def entry(self) -> dict[str, Any]:
        """Return what the header says of it."""
        offsets = [self.start, self.end]
        name = NAMES[self.dtype]
        return {"dtype": name, "shape": [*self.shape], "data_offsets": offsets}

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> "Region":
        """Return what an entry of a header describes."""
        shape, (start, end) = entry["shape"], entry["data_offsets"]
        if not all(type(n) is int and n >= 0 for n in (*shape, start, end)):
            raise ValueError(f"sizes must be non-negative integers, got {entry}")
        region = cls(start, tuple(shape), _TYPES[entry["dtype"]])
        if region.end != end:
            raise ValueError(f"a tensor must fill its place, got {entry}")
        return region


class Header(NamedTuple):
    """What a file says of itself before its tensors."""

    metadata: dict[str, str]
    regions: dict[str, Region]
    size: int  # bytes before the first tensor


def header_bytes(
    metadata: Mapping[str, str], regions: Mapping[str, Region], room: int = 0
) -> bytes:
    """Return the beginning of a file, filled up with blanks; tensors are aligned."""
    entries = {name: region.entry() for name, region in regions.items()}
    text = as_text({_METADATA: dict(metadata), **entries}).encode()
    size = max(room, _LENGTH + len(text))
    size += -size % 8
    return (size - _LENGTH).to_bytes(_LENGTH, "little") + text.ljust(size - _LENGTH)


def read_header(stream: BinaryIO, file: Path) -> Header:
    """Read the header of a file, which must be whole; no tensor is read."""
    found = os.fstat(stream.fileno()).st_size
    length = int.from_bytes(stream.read(_LENGTH), "little")
    size = _LENGTH + length
    if found < _LENGTH or found < size:
        raise _damaged(file, f"its header ends at byte {size}, the file at {found}")
    limits_here().check("header_bytes", length, file)
    header = parsed(stream.read(length), file, "a whole safetensors file")
    try:
        metadata = header.pop(_METADATA, {})
        regions = {str(name): Region.of(entry) for name, entry in header.items()}
        texts = all(isinstance(value, str) for value in metadata.values())
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _damaged(file, f"its header is damaged: {error!r}") from error
    if not texts:
        raise _damaged(file, "its metadata are not texts")
    end = 0
    for region in sorted(
        regions.values(), key=lambda region: (region.start, region.end)
    ):
        if region.start != end:
            raise _damaged(file, f"tensors leave a gap or overlap at byte {end}")
        end = region.end
    if size + end != found:
        raise _damaged(file, f"its tensors end at byte {size + end}, it at {found}")
    return Header(metadata, regions, size)


def read_region(stream: BinaryIO, header: Header, name: str) -> Tensor:
    """Read one tensor."""
    region = header.regions[name]
    tensor = torch.empty(region.shape, dtype=region.dtype)
    space = tensor.view(-1).view(torch.uint8).numpy().data
    stream.seek(header.size + region.start)
    done = 0
    while done < len(space):
        count = stream.readinto(space[done:])  # type: ignore[attr-defined]
        if not count:
            raise ValueError(f"{stream.name} was cut short while it was read")
        done += count
    return tensor


def _damaged(file: Path, why: str) -> ValueError:
    return ValueError(f"{file} must be a whole safetensors file, but {why}")
