"""Damaged bytes in every kind of file that is read."""

import os
import resource
import signal
from functools import cache
from pathlib import Path

from damage_cases import CASES, plain
from faults.totals import WRONG
from mutations import ACCEPTED, REFUSED, SAME, damaged
from mutations import outcome as read_outcome

NAMES = tuple(CASES)
ROOM = 2**30  # bytes that reading a file of a few kilobytes may take
PATIENCE = 120  # seconds
WITHOUT_REDUNDANCY = "read changed, a format without redundancy"
ENDS = {REFUSED: "refused by name", SAME: "same content", ACCEPTED: WITHOUT_REDUNDANCY}


@cache
def bound_memory() -> None:
    """Let this process take only so much memory more than it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(
        resource.RLIMIT_AS, (pages * resource.getpagesize() + ROOM, hard)
    )


@cache
def _made(name: str, folder: Path) -> tuple[Path, bytes, object]:
    folder.mkdir(parents=True, exist_ok=True)
    file = CASES[name].make(folder)
    return file, file.read_bytes(), plain(CASES[name].read(file))


def outcome(seed: int, root: Path) -> tuple[str, str]:
    """Damage a file and read it; return what came of it."""
    name = NAMES[seed % len(NAMES)]
    case = CASES[name]
    file, content, whole = _made(
        name, root / f"files{os.getpid()}" / str(seed % len(NAMES))
    )
    bound_memory()
    file.write_bytes(damaged(content, seed))
    signal.signal(signal.SIGALRM, _ring)
    signal.alarm(PATIENCE)
    try:
        end = read_outcome(file, case.read, lambda found: plain(found) == whole)
    finally:
        signal.alarm(0)
        file.write_bytes(content)
    if end == ACCEPTED and case.sealed:
        return name, f"{WRONG}: {end}"
    return name, ENDS.get(end, f"{WRONG}: {end}")


def _ring(*_: object) -> None:
    raise RuntimeError(f"hung for {PATIENCE} s")
