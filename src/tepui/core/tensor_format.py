"""The safetensors format: read by its library, and written without a copy in memory.

The library's own writer takes a copy of all tensors, or leaves a file behind that
nobody removes when it is killed. A file begins with the length of its header, eight
bytes, and the header, JSON that gives type, shape and place of every tensor. The
tensors follow without gaps.
"""

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from tepui.core.limits import as_text, check_regular, limits_here

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


def header_bytes(
    metadata: Mapping[str, str], regions: Mapping[str, Region], room: int = 0
) -> bytes:
    """Return the beginning of a file, filled up with blanks; tensors are aligned."""
    entries = {
        name: {
            "dtype": NAMES[region.dtype],
            "shape": [*region.shape],
            "data_offsets": [region.start, region.end],
        }
        for name, region in regions.items()
    }
    text = as_text({"__metadata__": dict(metadata), **entries}).encode()
    size = max(room, _LENGTH + len(text))
    size += -size % 8
    return (size - _LENGTH).to_bytes(_LENGTH, "little") + text.ljust(size - _LENGTH)


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """Open a file with the library, which checks its header; no tensor is read.

    Tensors that it returns are mapped: they change, or end the process, with the file.
    """
    check_regular(path)
    with path.open("rb") as file:
        length = int.from_bytes(file.read(_LENGTH), "little")
    limits_here().check("header_bytes", min(length, path.stat().st_size), path)
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except SafetensorError as error:
        raise ValueError(
            f"{path} must be a whole safetensors file, but: {error}"
        ) from error


def read_all(path: Path) -> dict[str, Tensor]:
    """Read all tensors of a file."""
    with opened(path) as file:
        return {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118


def start_of(path: Path, name: str) -> int:
    """Return where a tensor begins in a file that the library has checked, in bytes."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(_LENGTH), "little")
        start: int = json.loads(file.read(size))[name]["data_offsets"][0]
    return _LENGTH + size + start
