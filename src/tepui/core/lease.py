"""The right to work on something in a folder that several machines share.

Locks of the file system are unreliable on NFS and Lustre, and a lock file outlives a
holder that is killed. A lease needs one promise alone, that of two who create a file
only one succeeds, and it ends with its holder.

Holders are files with ascending numbers in a folder of the lease's own; the highest
counts. It names host and process, and grows by a character at every renewal, so that
whoever waits sees by its own clock that the holder lives. A lease whose process has
ended on this host, or that one of another host has not renewed for a while, is taken
over by creating the next number. The highest number is never removed: who comes late
cannot create it again.

Leases and unfinished files keep no folder from being free for something new.
"""

import json
import os
import threading
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from tepui.core.checks import require
from tepui.core.processes import has_ended, host, started
from tepui.core.replacing import is_unfinished, writing

STALE_AFTER = 60.0  # seconds without a renewal after which a lease may be taken over
_RENEWALS = 10  # in that time
LEASE = ".lease"  # the end of the name of such a folder
_RELEASED = "released"
_LONGEST_PAUSE = 1.0  # seconds between two looks at a lease that is taken


class LeaseLostError(RuntimeError):
    """Another process took the lease over, since it was not renewed in time."""


class LeaseHeldError(OSError):
    """Another process that lives holds the lease."""


class Lease(NamedTuple):
    """A lease that is held."""

    folder: Path
    number: int

    def check(self, _: object = None) -> None:
        """Raise if another process has taken the lease over, or its folder is gone.

        Raises:
            LeaseLostError: If it was taken over; names that process.
            FileNotFoundError: If the folder was removed.
        """
        highest = _highest(self.folder)
        if highest == 0:
            raise FileNotFoundError(
                f"{self.folder.parent} was removed or emptied while it was in use; "
                "start again in a new folder"
            )
        if highest != self.number:
            other = _holder(_read(self.folder / str(highest)))
            raise LeaseLostError(f"{self.folder} was taken over by {other}")


@contextmanager
def leased(
    folder: Path, stale_after: float = STALE_AFTER, *, wait: bool = True
) -> Iterator[Lease]:
    """Take a lease that is free or whose holder is dead, and hold it.

    A thread renews it. On this host a holder is dead once its process has ended, on
    another one when it gives no sign of life.

    Args:
        folder: The lease's own folder, made if it does not exist.
        stale_after: Seconds without a renewal after which others may take it over from
            a process of another host; the same for all who share it.
        wait: Wait for a holder that lives.

    Yields:
        The lease.

    Raises:
        LeaseHeldError: If a process that lives holds it and ``wait`` is false.
    """
    require(stale_after > 0, "stale_after", "be positive", stale_after)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    lease, file = _acquired(folder, stale_after, wait)
    ended = threading.Event()
    pause = stale_after / _RENEWALS
    renewing = threading.Thread(target=_renew, args=(file, ended, pause), daemon=True)
    renewing.start()
    try:
        yield lease
    finally:
        ended.set()
        renewing.join()
        with suppress(OSError):  # the end of the process frees it as well
            _append(file, f"\n{_RELEASED}")
        with suppress(OSError):
            file.close()


def first_free(leases: Iterable[Path]) -> int:
    """Return which of some leases is the first that nobody holds; 0 if all are held."""
    return next((n for n, folder in enumerate(leases) if not _is_held(folder)), 0)


def _is_held(folder: Path) -> bool:
    """Return whether somebody seems to hold a lease; who holds it may have died."""
    number = _highest(folder)
    return number > 0 and _is_over(_read(folder / str(number))) is not True


def _acquired(folder: Path, stale_after: float, wait: bool) -> tuple[Lease, TextIO]:
    pause, seen, since = 0.01, (0, ""), time.monotonic()
    while True:
        number = _highest(folder)
        text = _read(folder / str(number))
        renewed = seen[0] == number > 0 and text != seen[1]
        if (number, text) != seen:
            seen, since = (number, text), time.monotonic()
        over = _is_over(text)
        stale = over is None and time.monotonic() - since > stale_after
        if not number or stale or over:
            taken = _create(folder, number + 1)
            if taken is not None:
                return taken
        elif not wait and (over is False or renewed):
            raise LeaseHeldError(
                f"{folder.parent} is in use by {_holder(text)}; wait until it has "
                "ended, or choose another folder"
            )
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _create(folder: Path, number: int) -> tuple[Lease, TextIO] | None:
    """Create a number; None if another process was faster."""
    path = folder / str(number)
    try:
        with writing(path):
            file = path.open("x", encoding="utf-8")
    except FileExistsError:
        return None
    if _highest(folder) != number:  # it had been created before, superseded and removed
        file.close()
        path.unlink()
        return None
    try:
        with writing(path):
            _append(file, json.dumps(_myself()) + "\n")
    except OSError:  # a full disk: nobody holds it, and nobody shall wait for it
        with suppress(OSError):
            file.close()
        path.unlink(missing_ok=True)
        raise
    for older in _numbers(folder):
        if older < number:
            (folder / str(older)).unlink(missing_ok=True)
    return Lease(folder, number), file


def _renew(file: TextIO, ended: threading.Event, pause: float) -> None:
    while not ended.wait(pause):
        with suppress(OSError):
            _append(file, ".")


def _append(file: TextIO, text: str) -> None:
    file.write(text)
    file.flush()
    os.fsync(file.fileno())


def _numbers(folder: Path) -> list[int]:
    try:
        return [int(path.name) for path in folder.iterdir() if path.name.isdecimal()]
    except FileNotFoundError:
        return []


def _highest(folder: Path) -> int:
    return max(_numbers(folder), default=0)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, IsADirectoryError):
        return ""


def _is_over(text: str) -> bool | None:
    """Return whether a holder has ended; None if only its renewals can tell."""
    first, newline, rest = text.partition("\n")
    if not newline:
        return None  # it is being written
    if rest.endswith(_RELEASED):
        return True
    try:
        holder = json.loads(first)
        if holder["host"] != host():
            return None
        return has_ended(int(holder["process"]), holder["started"])
    except (KeyError, TypeError, ValueError, RecursionError):
        return None  # damaged


def _holder(text: str) -> str:
    """Return in words who holds a lease."""
    try:
        holder = json.loads(text.partition("\n")[0])
        return f"process {holder['process']} on {str(holder['host']).split()[0]}"
    except (IndexError, KeyError, TypeError, ValueError, RecursionError):
        return "another process"


def _myself() -> dict[str, Any]:
    process = os.getpid()
    return {"host": host(), "process": process, "started": started(process)}


def is_free(folder: Path, kept: Collection[str] = ()) -> bool:
    """Whether there is no such folder, or nothing of value in it.

    That is nothing but what is unfinished, leases, and folders of nothing else.

    Args:
        folder: The folder.
        kept: Names in it that do not count, such as of results that are used again.
    """
    return not folder.exists() or all(
        item.name in kept or _is_nothing(item) for item in folder.iterdir()
    )


def _is_nothing(item: Path) -> bool:
    if is_unfinished(item) or item.name.endswith(LEASE):
        return True
    return item.is_dir() and not item.is_symlink() and is_free(item)
