"""Which process this is, of how many, and whether another one still lives."""

import hashlib
import os
import socket
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tepui.core.checks import require

UNKNOWN = "unknown"  # when a process was started that lives


def host() -> str:
    """Return a name for all that see the same processes: a host, or one container."""
    name = socket.gethostname()
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        return f"{name} {boot.strip()} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return name


@cache
def _host_mark(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:8]


def mark() -> str:
    """Return what names this process in a file's name; see :func:`is_over`."""
    process = os.getpid()
    return f"{_host_mark(host())}-{process}-{started(process)}"


def is_over(marked: str) -> bool | None:
    """Return whether a process has ended, by its mark; None if it is not of this host.

    Example:
        >>> is_over(mark())
        False
    """
    where, process, since = marked.split("-")
    if where != _host_mark(host()):
        return None
    return has_ended(int(process), since)


def has_ended(process: int, since: str | None) -> bool:
    """Return whether a process of this host that was started then lives no more."""
    now = started(process)
    return now is None or now not in (since, UNKNOWN)


def started(process: int) -> str | None:
    """Return when a process was started, None if it has ended; its number may return.

    Where ``/proc`` does not show it, all that is known of it is that it lives.
    """
    try:
        # The name of a program, in brackets, may hold any bytes.
        stat = Path(f"/proc/{process}/stat").read_text(encoding="latin-1")
        _, _, fields = stat.rpartition(")")
        state, *others = fields.split()
        return None if state in "ZX" else others[18]
    except FileNotFoundError:
        pass
    except ProcessLookupError:  # it ended while its file was read
        return None
    if process <= 0:  # a group of processes
        return None
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return None
    except PermissionError:
        pass
    return UNKNOWN


class Place(NamedTuple):
    """Which of how many processes this is."""

    rank: int
    size: int


def place_of_environment() -> Place:
    """Return the rank and the number of ranks that the environment names."""
    given = {name: os.environ.get(name) for name in ("RANK", "WORLD_SIZE")}
    if all(value is None for value in given.values()):
        return Place(0, 1)
    for name, value in given.items():
        rule = "be a number, and RANK and WORLD_SIZE both set or neither (by torchrun)"
        require(value is not None and value.isdecimal(), name, rule, value)
    place = Place(*(int(value or 0) for value in given.values()))
    rule = f"be below WORLD_SIZE ({place.size})"
    require(place.rank < place.size, "RANK", rule, place.rank)
    return place
