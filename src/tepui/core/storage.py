"""Files that say what they hold and are checked when they are read; never pickles.

What tepui writes for itself to read again is of one format, with one number: a tensor
file (safetensors, with a JSON document in its header, so that tensors and what
describes them appear together by one rename), a JSON document, or lines of such
documents. All name their kind and carry a digest of all that they hold, which is
checked when they are read: a file with a changed bit, of another kind or of another
format is refused by name. Tensors that share memory (tied weights, members on one
extractor) are stored once.

The library reads tensor files. They are written here, since its own writer takes a copy
of all tensors, or leaves a file behind that nobody removes when it is killed. A file
begins with the length of its header, eight bytes, and the header, JSON that gives type,
shape and place of every tensor. The tensors follow without gaps. A file of tensors too
large to hold is written piece by piece. Room for the header is left at the beginning
and filled at the end, when all offsets and the digest are known; what is left over is
blank, as safetensors allows.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from tepui.core.checks import one_of, require
from tepui.core.limits import as_text, check_limit, check_regular, parsed
from tepui.core.replacing import replacing, write_bytes, writing

# Raised when files written before would be misread.
FORMAT = 2
_HEADER = "tepui"
_SEAL = ("kind", "format", "sha256")
FILLER = "filler/"  # before the names of bytes that only keep the next tensor aligned


def finite_or_none(value: Any) -> Any:
    """Return a value for a JSON document, with None for infinities and NaN.

    Example:
        >>> finite_or_none({"error": float("nan"), "values": (0.5, float("inf"))})
        {'error': None, 'values': [0.5, None]}
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: finite_or_none(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite_or_none(item) for item in value]
    return value


@contextmanager
def reading(where: object, what: str) -> Iterator[None]:
    """Let a document that lacks something, or holds another thing, be named."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise ValueError(f"{where} must hold {what}, but: {error!r}") from error


def read_text(path: Path) -> str:
    """Read a text file."""
    check_regular(path)
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} must be UTF-8 text, but: {error}") from error


def write_json(path: Path, document: object) -> None:
    """Write a JSON document atomically."""
    text = json.dumps(document, indent=2, allow_nan=False) + "\n"
    write_bytes(path, text.encode())


def read_json(path: Path) -> Any:
    """Read a JSON document."""
    check_regular(path)
    check_limit("json_bytes", path.stat().st_size, path)
    return parsed(path.read_bytes(), path)


def seal(kind: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document that names its kind and format and carries its digest."""
    reserved = sorted({*_SEAL} & document.keys())
    require(not reserved, "document", "leave these names to its seal", reserved)
    digest = _digest(kind, document)
    return {"kind": kind, "format": FORMAT, "sha256": digest, **document}


def unseal(kind: str, sealed: Any, where: str) -> dict[str, Any]:
    """Return a document without its seal, which must be whole and of this kind."""
    _check_kind(kind, sealed, where)
    document = {name: sealed[name] for name in sealed if name not in _SEAL}
    _check_digest(sealed, _digest(kind, document), where)
    return document


def write_document(path: Path, kind: str, document: Mapping[str, Any]) -> None:
    """Write a sealed JSON document atomically."""
    write_json(path, seal(kind, document))


def read_document(path: Path, kind: str) -> dict[str, Any]:
    """Read what :func:`write_document` wrote."""
    return unseal(kind, read_json(path), str(path))


def is_sealed(path: Path) -> bool:
    """Return whether a file begins as sealed documents do, whole or damaged."""
    with path.open("rb") as stream:
        begins = stream.read(200)
    return begins.startswith(b"{") and b'"kind"' in begins and b'"sha256"' in begins


def sealed_line(kind: str, document: Mapping[str, Any]) -> str:
    """Return a sealed document as one line of a log."""
    return json.dumps(seal(kind, document)) + "\n"


def read_lines(path: Path, kind: str) -> list[dict[str, Any]]:
    """Read a log of :func:`sealed_line`; a line that is not whole is refused."""
    check_regular(path)
    check_limit("json_bytes", path.stat().st_size, path)
    # Not splitlines, to which other characters end lines too.
    lines = path.read_bytes().split(b"\n")
    if not lines[-1]:
        lines.pop()
    named = [(f"line {n} of {path}", line) for n, line in enumerate(lines, 1)]
    return [unseal(kind, parsed(line, where), where) for where, line in named]


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
    check_limit("header_bytes", min(length, path.stat().st_size), path)
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


def write_tensors(
    path: Path, kind: str, tensors: Mapping[str, Tensor], document: Mapping[str, Any]
) -> str:
    """Write tensors and a JSON document into one file, atomically; return a digest."""
    stored: dict[str, Tensor] = {}
    aliases: dict[str, str] = {}
    owners: dict[tuple[Any, ...], str] = {}
    for name, tensor in tensors.items():
        owner = owners.setdefault(_identity(tensor, name), name)
        if owner != name:
            aliases[name] = owner
        else:
            stored[name] = tensor.detach().cpu().contiguous()
            one_of(f"type of {name!r}", str(tensor.dtype), map(str, NAMES))
    content = {"document": dict(document), "aliases": aliases}
    digest = _digest(kind, content, sorted(stored.items()))
    # The widest first: all begin at multiples of their size.
    ordered = sorted(stored, key=lambda name: (-stored[name].dtype.itemsize, name))
    regions: dict[str, Region] = {}
    end = 0
    for name in ordered:
        regions[name] = Region(end, tuple(stored[name].shape), stored[name].dtype)
        end = regions[name].end
    header = header_bytes(header_of(kind, digest, content), regions)
    write_bytes(path, header, *(raw_bytes(stored[n]).numpy().data for n in ordered))
    return digest


def read_tensors(path: Path, kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what :func:`write_tensors` wrote."""
    with _opened(path, kind) as (file, about):
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    content = {name: about.get(name) for name in ("document", "aliases")}
    _check_digest(about, _digest(kind, content, sorted(tensors.items())), str(path))
    with reading(path, "tensors and a document"):
        for name, owner in about["aliases"].items():
            tensors[name] = tensors[owner]
        document = dict(about["document"])
    named = {n: tensor for n, tensor in tensors.items() if not n.startswith(FILLER)}
    return named, document


def check_tensors(path: Path, kind: str) -> None:
    """Check a tensor file as :func:`read_tensors` does, without holding its tensors."""
    with _opened(path, kind) as (file, about):
        content = {name: about.get(name) for name in ("document", "aliases")}
        mapped = ((name, file.get_tensor(name)) for name in sorted(file.keys()))
        _check_digest(about, _digest(kind, content, mapped), str(path))


def tensors_digest(path: Path) -> str:
    """Return the digest that a tensor file claims, without reading its tensors."""
    return str(_claims(path).get("sha256"))


def tensors_document(path: Path) -> dict[str, Any]:
    """Return what a tensor file claims to hold, without reading its tensors."""
    with reading(path, "a document"):
        return dict(_claims(path)["document"])


def tensors_kind(path: Path) -> str:
    """Return the kind that a tensor file claims to be of."""
    return str(_claims(path).get("kind"))


@contextmanager
def _opened(path: Path, kind: str) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Open a tensor file of a kind, and read what it says of itself."""
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}")
    with opened(path) as file:
        about = _about(file.metadata() or {}, path)
        _check_kind(kind, about, str(path))
        yield file, about


def _claims(path: Path) -> dict[str, Any]:
    with opened(path) as file:
        about = _about(file.metadata() or {}, path)
    return about if isinstance(about, dict) else {}


def _about(metadata: Mapping[str, str], path: Path) -> Any:
    if _HEADER not in metadata:
        raise ValueError(f"{path} must be a file written by tepui, but has no header")
    text = metadata[_HEADER].encode(errors="replace")
    return parsed(text, path, "a file written by tepui")


def _check_kind(kind: str, header: Any, where: str) -> None:
    if not isinstance(header, dict) or header.get("format", 1) == 1:
        raise ValueError(
            f"{where} must be of format {FORMAT}; files of tepui 0.1 and of other "
            "programs are not read: make it again with this version"
        )
    if header["format"] != FORMAT:
        raise ValueError(
            f"{where} must be of format {FORMAT}, which this version reads, got "
            f"format {header['format']!r}"
        )
    if header.get("kind") != kind:
        raise ValueError(f"{where} must hold {kind!r}, got {header.get('kind')!r}")


def _check_digest(header: Mapping[str, Any], digest: str, where: str) -> None:
    if header.get("sha256") != digest:
        raise ValueError(
            f"{where} must hold what was written to it, but its digest differs: the "
            "file was damaged or changed; put back a copy, or remove it and make it "
            "again"
        )


def _digest(
    kind: str,
    document: Mapping[str, Any],
    tensors: Iterable[tuple[str, Tensor]] = (),
) -> str:
    """Return the SHA-256 of a document and of every byte of tensors sorted by name."""
    digest = hashlib.sha256()
    begin_digest(digest, kind, document)
    for name, tensor in tensors:
        digest.update(described(name, tensor.dtype, tensor.shape))
        digest.update(raw_bytes(tensor).numpy().data)
    return digest.hexdigest()


def begin_digest(digest: Any, kind: str, document: Mapping[str, Any]) -> None:
    """Add what a file says of itself to a digest, before its tensors."""
    digest.update(as_text([kind, FORMAT, document]).encode())


def described(name: str, dtype: torch.dtype, shape: Sequence[int]) -> bytes:
    """Return what a digest says of a tensor before the tensor's bytes."""
    return as_text([name, str(dtype), list(shape)]).encode()


def header_of(kind: str, digest: str, content: Mapping[str, Any]) -> dict[str, str]:
    """Return what a tensor file says of itself, as safetensors keeps it."""
    header = {"kind": kind, "format": FORMAT, "sha256": digest, **content}
    return {_HEADER: as_text(header)}


def _identity(tensor: Tensor, name: str) -> tuple[Any, ...]:
    if tensor.numel() == 0:
        return (name,)
    layout = tensor.shape, tensor.stride(), tensor.dtype
    return tensor.device, tensor.data_ptr(), *layout


def same_bits(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> bool:
    """Return whether two sets of tensors agree in names, types and every bit."""
    return first.keys() == second.keys() and all(
        first[name].dtype == second[name].dtype
        and first[name].shape == second[name].shape
        and torch.equal(raw_bytes(first[name]), raw_bytes(second[name]))
        for name in first
    )


def raw_bytes(tensor: Tensor) -> Tensor:
    """Return the bytes of a tensor of any type, in order, on the CPU."""
    return tensor.detach().cpu().contiguous().flatten().view(torch.uint8)


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
    with replacing(path) as temporary, _unfinished(path, temporary) as file:
        stream = TensorStream(path, file, room)
        yield stream
        stream.finish(kind, document)


@contextmanager
def _unfinished(path: Path, temporary: Path) -> Iterator[BinaryIO]:
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
