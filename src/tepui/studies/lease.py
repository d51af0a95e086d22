"""The right to work on something in a folder that several machines share.

Locks of the file system are unreliable on NFS and Lustre, and a lock file outlives a
holder that is killed. A lease needs one promise alone, that of two who create a file
only one succeeds, and it ends with its holder.

Holders are files with ascending numbers in a folder of the lease's own; the highest
counts. It names host and process, and grows by a character at every renewal, so that
whoever waits sees by its own clock that the holder lives. A lease that has not been
renewed for a while, or whose process has ended on this host, is taken over by creating
the next number. The highest number is never removed: who comes late cannot create it
again.
"""

import json
import os
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from tepui.core.checks import require

STALE_AFTER = 60.0  # seconds without a renewal after which a lease may be taken over
_RENEWALS = 10  # in that time
_RELEASED = "released"
_LONGEST_PAUSE = 1.0  # seconds between two looks at a lease that is taken


class LeaseLostError(RuntimeError):
    """Another process took the lease over, since it was not renewed in time."""


class Lease(NamedTuple):
    """A lease that is held."""

    folder: Path
    number: int

    def check(self, _: object = None) -> None:
        """Raise if another process has taken the lease over.

        Raises:
            LeaseLostError: If so; it names that process.
        """
        highest = _highest(self.folder)
        if highest != self.number:
            other = _read(self.folder / str(highest)).partition("\n")[0]
            raise LeaseLostError(f"{self.folder} was taken over by {other}")


@contextmanager
def leased(folder: Path, stale_after: float = STALE_AFTER) -> Iterator[Lease]:
    """Wait until a lease is free or stale, and hold it; a thread renews it.

    Args:
        folder: The lease's own folder, made if it does not exist.
        stale_after: Seconds without a renewal after which others may take it over; the
            same for all who share it.

    Yields:
        The lease.
    """
    require(stale_after > 0, "stale_after", "be positive", stale_after)
    folder.mkdir(parents=True, exist_ok=True)
    lease, file = _acquired(folder, stale_after)
    ended = threading.Event()
    pause = stale_after / _RENEWALS
    renewing = threading.Thread(target=_renew, args=(file, ended, pause), daemon=True)
    renewing.start()
    try:
        yield lease
    finally:
        ended.set()
        renewing.join()
        _append(file, f"\n{_RELEASED}")
        file.close()


def first_free(leases: Iterable[Path]) -> int:
    """Return which of some leases is the first that nobody holds; 0 if all are held."""
    return next((n for n, folder in enumerate(leases) if not _is_held(folder)), 0)


def _is_held(folder: Path) -> bool:
    """Return whether somebody seems to hold a lease; who holds it may have died."""
    number = _highest(folder) if folder.exists() else 0
    return number > 0 and not _is_over(_read(folder / str(number)))


def _acquired(folder: Path, stale_after: float) -> tuple[Lease, TextIO]:
    pause, seen, since = 0.01, (0, ""), time.monotonic()
    while True:
        number = _highest(folder)
        text = _read(folder / str(number))
        if (number, text) != seen:
            seen, since = (number, text), time.monotonic()
        stale = time.monotonic() - since > stale_after
        if not number or stale or _is_over(text):
            taken = _create(folder, number + 1)
            if taken is not None:
                return taken
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _create(folder: Path, number: int) -> tuple[Lease, TextIO] | None:
    """Create a number; None if another process was faster."""
    path = folder / str(number)
    try:
        file = path.open("x")
    except FileExistsError:
        return None
    if _highest(folder) != number:  # it had been created before, superseded and removed
        file.close()
        path.unlink()
        return None
    _append(file, json.dumps(_myself()) + "\n")
    for older in _numbers(folder):
        if older < number:
            (folder / str(older)).unlink(missing_ok=True)
    return Lease(folder, number), file


def _renew(file: TextIO, ended: threading.Event, pause: float) -> None:
    while not ended.wait(pause):
        _append(file, ".")


def _append(file: TextIO, text: str) -> None:
    file.write(text)
    file.flush()
    os.fsync(file.fileno())


def _numbers(folder: Path) -> list[int]:
    return [int(path.name) for path in folder.iterdir() if path.name.isdecimal()]


def _highest(folder: Path) -> int:
    return max(_numbers(folder), default=0)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


def _is_over(text: str) -> bool:
    """Return whether a holder has released its lease, or has ended on this host."""
    first, newline, rest = text.partition("\n")
    if not newline:
        return False  # it is being written
    if rest.endswith(_RELEASED):
        return True
    holder: dict[str, Any] = json.loads(first)
    if holder["host"] != _host():
        return False
    return bool(_started(holder["process"]) != holder["started"])


def _myself() -> dict[str, Any]:
    process = os.getpid()
    return {"host": _host(), "process": process, "started": _started(process)}


def _host() -> str:
    """Return a name for all that see the same processes: a host, or one container."""
    name = socket.gethostname()
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{name} {boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return name


def _started(process: int) -> str | None:
    """Return when a process was started, None if it has ended; its number may return.

    Without ``/proc`` all that is known of a process is that it lives.
    """
    try:
        _, _, fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")
        state, *others = fields.split()
        return None if state in "ZX" else others[18]
    except FileNotFoundError:
        pass
    except ProcessLookupError:  # it ended while its file was read
        return None
    if Path("/proc/self/stat").exists():
        return None
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return "unknown"
