"""Files that are whole or absent, and that say what they hold; never pickles.

What tepui writes for itself to read again is of one format, with one number: a tensor
file (safetensors, with a JSON document in its header, so that tensors and what
describes them appear together by one rename) or a JSON document. Both name their kind
and carry a digest of all that they hold, which is checked when they are read: a file
with a changed bit, of another kind or of another format is refused by name. Tensors
that share memory (tied weights, members on one extractor) are stored once.
"""

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tepui.core.checks import require

# Raised when files written before would be misread.
FORMAT = 2
_HEADER = "tepui"
_SEAL = ("kind", "format", "sha256")
FILLER = "filler/"  # before the names of bytes that only keep the next tensor aligned


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path`` that takes its place on success."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.touch()
        mode = temporary.stat().st_mode
        yield temporary
        temporary.chmod(mode)  # safetensors makes files that only their owner reads
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


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


def write_json(path: Path, document: object) -> None:
    """Write a JSON document atomically."""
    text = json.dumps(document, indent=2, allow_nan=False) + "\n"
    with replacing(path) as temporary:
        temporary.write_text(text)


def read_json(path: Path) -> Any:
    """Read a JSON document."""
    try:
        return json.loads(path.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} must be a JSON document, but: {error}") from error


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


def write_tensors(
    path: Path, kind: str, tensors: Mapping[str, Tensor], document: Mapping[str, Any]
) -> str:
    """Write tensors and a JSON document into one file, atomically; return a digest."""
    from safetensors.torch import save_file

    stored: dict[str, Tensor] = {}
    aliases: dict[str, str] = {}
    owners: dict[tuple[Any, ...], str] = {}
    for name, tensor in tensors.items():
        owner = owners.setdefault(_identity(tensor, name), name)
        if owner != name:
            aliases[name] = owner
        else:
            # A fresh copy: safetensors refuses tensors that overlap in memory.
            stored[name] = tensor.detach().to("cpu", copy=True).contiguous()
    content = {"document": dict(document), "aliases": aliases}
    digest = _digest(kind, content, stored)
    with replacing(path) as temporary:
        save_file(stored, temporary, metadata=header_of(kind, digest, content))
    return digest


def read_tensors(path: Path, kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what :func:`write_tensors` wrote."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise FileNotFoundError(f"no file {path}")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(
            f"{path} must be a whole safetensors file, but: {error}"
        ) from error
    header = _header(metadata, path)
    _check_kind(kind, header, str(path))
    content = {name: header.get(name) for name in ("document", "aliases")}
    _check_digest(header, _digest(kind, content, tensors), str(path))
    for name, owner in header["aliases"].items():
        tensors[name] = tensors[owner]
    named = {n: tensor for n, tensor in tensors.items() if not n.startswith(FILLER)}
    return named, header["document"]


def tensors_digest(path: Path) -> str:
    """Return the digest that a tensor file claims, without reading its tensors."""
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        return str(_header(file.metadata() or {}, path)["sha256"])


def _header(metadata: Mapping[str, str], path: Path) -> Any:
    if _HEADER not in metadata:
        raise ValueError(f"{path} must be a file written by tepui, but has no header")
    try:
        return json.loads(metadata[_HEADER])
    except ValueError as error:
        raise ValueError(
            f"{path} must be a file written by tepui, but its header is damaged: "
            f"{error!r}"
        ) from error


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
            "file was damaged or changed"
        )


def _digest(
    kind: str, document: Mapping[str, Any], tensors: Mapping[str, Tensor] | None = None
) -> str:
    """Return the SHA-256 of a document and of every byte of some tensors."""
    digest = hashlib.sha256()
    begin_digest(digest, kind, document)
    for name, tensor in sorted((tensors or {}).items()):
        digest.update(described(name, tensor.dtype, tensor.shape))
        digest.update(raw_bytes(tensor).numpy().data)
    return digest.hexdigest()


def begin_digest(digest: Any, kind: str, document: Mapping[str, Any]) -> None:
    """Add what a file says of itself to a digest, before its tensors."""
    digest.update(_as_json([kind, FORMAT, document]).encode())


def described(name: str, dtype: torch.dtype, shape: Sequence[int]) -> bytes:
    """Return what a digest says of a tensor before the tensor's bytes."""
    return _as_json([name, str(dtype), list(shape)]).encode()


def header_of(kind: str, digest: str, content: Mapping[str, Any]) -> dict[str, str]:
    """Return what a tensor file says of itself, as safetensors keeps it."""
    header = {"kind": kind, "format": FORMAT, "sha256": digest, **content}
    return {_HEADER: _as_json(header)}


def _as_json(value: object) -> str:
    """Return JSON that is the same before a value is written and after it is read."""
    plain = json.loads(json.dumps(value, allow_nan=False))
    return json.dumps(plain, sort_keys=True)


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
