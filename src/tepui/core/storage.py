"""Files that are whole or absent: JSON documents and tensors, never pickles.

A tensor file is one safetensors file whose header carries a JSON document, so that
tensors and what describes them appear together, by one rename. Tensors that share
memory (tied weights, members on one extractor) are stored once.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

_DOCUMENT = "tepui"
_ALIASES = "aliases"


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
        _flush(temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


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


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], document: Mapping[str, Any]
) -> None:
    """Write tensors and a JSON document into one file, atomically."""
    from safetensors.torch import save_file

    stored: dict[str, Tensor] = {}
    aliases: dict[str, str] = {}
    first: dict[tuple[Any, ...], str] = {}
    for name, tensor in tensors.items():
        owner = first.setdefault(_identity(tensor, name), name)
        if owner != name:
            aliases[name] = owner
        else:
            # A fresh copy: safetensors refuses tensors that overlap in memory.
            stored[name] = tensor.detach().to("cpu", copy=True).contiguous()
    header = {_DOCUMENT: json.dumps({**document, _ALIASES: aliases}, allow_nan=False)}
    with replacing(path) as temporary:
        save_file(stored, temporary, metadata=header)


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what :func:`write_tensors` wrote."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise FileNotFoundError(f"no file {path}")
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(
            f"{path} must be a whole safetensors file, but: {error}"
        ) from error
    if _DOCUMENT not in header:
        raise ValueError(f"{path} must be a file written by tepui, but has no header")
    try:
        document: dict[str, Any] = json.loads(header[_DOCUMENT])
        for name, owner in document.pop(_ALIASES).items():
            tensors[name] = tensors[owner]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} must be a file written by tepui, but its header is damaged: "
            f"{error!r}"
        ) from error
    return tensors, document


def _identity(tensor: Tensor, name: str) -> tuple[Any, ...]:
    if tensor.numel() == 0:
        return (name,)
    return (
        tensor.device,
        tensor.data_ptr(),
        tensor.shape,
        tensor.stride(),
        tensor.dtype,
    )


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


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
