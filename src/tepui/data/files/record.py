"""The record of a data set's files: what each held when it was put there.

Pixels and labels lie in the formats of their publishers, which carry no digest; one
file beside them holds the SHA-256 of all others.
"""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tepui.core.replacing import is_unfinished
from tepui.core.storage import read_document, write_document

RECORD = ".tepui.json"
KIND = "data set"


class Checked(NamedTuple):
    """A file of a data set, and what is wrong with it."""

    file: Path
    damage: str | None


def write_record(folder: Path, origin: Mapping[str, Any]) -> None:
    """Write down the hashes of all files of a folder; those known are kept.

    What a writer has not finished is no file of the folder.
    """
    known: dict[str, str] = {}
    if (folder / RECORD).exists():
        known = _hashes(folder)
    names = sorted(path.as_posix() for path in _files(folder) if path.name != RECORD)
    hashes = {name: known.get(name) or file_digest(folder / name) for name in names}
    write_document(folder / RECORD, KIND, {"from": dict(origin), "files": hashes})


def check_record(folder: Path) -> Iterator[Checked]:
    """Compare the files of a data set with the hashes in its record."""
    for name, expected in _hashes(folder).items():
        path = folder / name
        if not path.is_file():
            yield Checked(path, "is missing, though it was put there")
            continue
        found = file_digest(path)
        damage = f"must have sha256 {expected}, got {found}"
        yield Checked(path, None if found == expected else damage)


def file_digest(path: Path, algorithm: str = "sha256") -> str:
    """Return the hash of a file's contents."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder, relative to it."""
    for path in folder.rglob("*"):
        below = path.relative_to(folder)
        whole = not any(is_unfinished(part) for part in (below, *below.parents))
        if whole and path.is_file():
            yield below


def _hashes(folder: Path) -> dict[str, str]:
    hashes = read_document(folder / RECORD, KIND).get("files")
    if not isinstance(hashes, dict):
        raise ValueError(f"{folder / RECORD} must be a record of hashes, got {hashes}")
    return hashes
