"""Something that happens at the n-th operation on the files of a folder.

Python's own functions are wrapped: opening for writing, writing, fsync, renaming and
making folders; what reads is left alone.
"""

import builtins
import errno
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

Act = Callable[[int, str, Path], None]
_NEW = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class _Watched(io.FileIO):
    """A file whose writes are counted."""

    def __init__(self, path: Any, mode: str, count: Callable[[str, Any], None]) -> None:
        super().__init__(path, mode)
        self._count = count

    def write(self, data: Any) -> int:
        """Write, unless something happens."""
        try:
            self._count("write", self.name)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EFBIG):  # some of it fits
                super().write(memoryview(data).cast("B")[: len(data) // 2])
            raise
        return super().write(data)


@contextmanager
def at_operations(folder: Path, act: Act) -> Iterator[None]:
    """Call a function before every operation, with its number from 1 and its file."""
    below, number = os.path.realpath(folder), 0
    opened, fsync, os_open = io.open, os.fsync, os.open

    def count(operation: str, path: Any) -> None:
        nonlocal number
        place = str(Path(path).absolute())
        if place == below or place.startswith(below + os.sep):
            number += 1
            act(number, operation, Path(place))

    def open_file(
        file: Any, mode: str = "r", buffering: int = -1, *more: Any, **how: Any
    ):
        if isinstance(file, int) or not set(mode) & set("wax+"):
            return opened(file, mode, buffering, *more, **how)
        count("open", file)
        raw = _Watched(file, mode.replace("b", "").replace("t", ""), count)
        if buffering == 0:
            return raw
        whole = io.BufferedRandom if "+" in mode else io.BufferedWriter
        buffered = whole(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, *more, **how)

    def open_descriptor(path: Any, flags: int, *more: Any, **how: Any) -> int:
        if flags & _NEW and "dir_fd" not in how:
            count("open", path)
        return os_open(path, flags, *more, **how)

    def sync(descriptor: int) -> None:
        count("fsync", Path(f"/proc/self/fd/{descriptor}").readlink())
        fsync(descriptor)

    def of_path(name: str) -> Callable[..., Any]:
        real = getattr(os, name)

        def called(path: Any, *more: Any, **how: Any) -> Any:
            count(name, path)
            return real(path, *more, **how)

        return called

    changed = {"fsync": sync, "open": open_descriptor}
    changed |= {name: of_path(name) for name in ("mkdir", "rename", "replace")}
    with (
        mock.patch.multiple(os, **changed),
        mock.patch.object(io, "open", open_file),
        mock.patch.object(builtins, "open", open_file),
    ):
        yield
