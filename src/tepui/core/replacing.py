"""Files that appear whole or not at all, and errors of the disk in words.

What is written lies beside its place, under a hidden name that names its writer, until
it is whole. A writer that was killed leaves such a file behind; the next one to write
into the folder removes it.
"""

import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tepui.core.processes import is_over, mark

# Seconds without a write after which no writer of another host is alive.
ABANDONED = 24 * 3600
_REMAINS = re.compile(r"\..+\.([0-9a-f]{8}-\d+-\w+)\.tmp")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Let an error of the operating system say which file could not be written."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        named = type(error)(
            f"{path} could not be written: {reason[:1].lower()}{reason[1:]}; what was "
            "there before is kept"
        )
        named.errno = error.errno
        raise named from error


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path`` that takes its place on success."""
    temporary = path.with_name(f".{path.name}.{mark()}.tmp")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_remains(path.parent)
        temporary.touch()
        mode = temporary.stat().st_mode
    try:
        yield temporary
        with writing(path):
            temporary.chmod(mode)  # some libraries make files for their owner alone
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            temporary.replace(path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_bytes(path: Path, *parts: bytes | memoryview) -> None:
    """Write a file of some parts, whole or not at all."""
    with replacing(path) as temporary, writing(path), temporary.open("wb") as file:
        for part in parts:
            file.write(part)


def is_unfinished(path: Path) -> bool:
    """Whether a writer, alive or not, has not put a path in its place, by its name."""
    return _REMAINS.fullmatch(path.name) is not None


def remains_in(folder: Path) -> Iterator[Path]:
    """Yield what writers that are no more left in a folder."""
    with os.scandir(folder) as entries:
        found = [(entry, _REMAINS.fullmatch(entry.name)) for entry in entries]
    for entry, match in found:
        if match is not None and _is_abandoned(Path(entry.path), match[1]):
            yield Path(entry.path)


def remove_remains(folder: Path) -> None:
    """Remove what writers that are no more left in a folder."""
    for remains in remains_in(folder):
        if remains.is_dir():
            shutil.rmtree(remains, ignore_errors=True)
        with suppress(OSError):
            remains.unlink(missing_ok=True)


def check_writable(folder: Path) -> None:
    """Raise unless files can be written into a folder, or it can be made.

    For a look before a long computation; the folder is not made.
    """
    present = folder
    while not present.exists() and present != present.parent:
        present = present.parent
    with writing(folder):
        if not present.is_dir():
            raise NotADirectoryError(f"{present} is not a folder")
        remove_remains(present)
        probe = present / f".probe.{mark()}.tmp"
        probe.touch()
        probe.unlink()


def _is_abandoned(file: Path, marked: str) -> bool:
    over = is_over(marked)
    if over is not None:
        return over
    try:
        return file.stat().st_mtime < time.time() - ABANDONED
    except FileNotFoundError:
        return False
