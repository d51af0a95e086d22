"""Trying the seeds of a suite, in processes that may crash or hang without harm."""

import json
import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from faults.totals import WRONG, Totals

Outcome = Callable[[int, Path], tuple[str, str]]


class Suite(NamedTuple):
    """What is tried for a seed, and for how long at most."""

    outcome: Outcome
    about: str
    patience: float = 300.0  # seconds for a seed
    together: int = 50  # seeds for one process


class _Child:
    """A process that tries some seeds, one after the other, and tells what came."""

    def __init__(
        self, suite: Suite, seeds: Sequence[int], folder: Path, until: float
    ) -> None:
        self.left = [*seeds]
        self.since = time.monotonic()
        self.reader, writer = os.pipe()
        self._rest = b""
        self.process = os.fork()
        if self.process == 0:
            _try_all(suite, seeds, folder, until, writer)
        os.close(writer)

    def said(self) -> Iterator[tuple[int, str, str]]:
        """Yield what it has told since; after a crash also what it could not tell."""
        part = os.read(self.reader, 2**16)
        *lines, self._rest = (self._rest + part).split(b"\n")
        for line in lines:
            seed, group, end = json.loads(line)
            self.left.remove(seed)
            self.since = time.monotonic()
            yield seed, group, end
        if not part:
            yield from self._end("crash")

    def stop(self) -> Iterator[tuple[int, str, str]]:
        """End a process that hangs."""
        with suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGKILL)
        yield from self._end("hang")

    def _end(self, how: str) -> Iterator[tuple[int, str, str]]:
        _, status = os.waitpid(self.process, 0)
        os.close(self.reader)
        self.process = 0
        code = os.waitstatus_to_exitcode(status)
        if self.left and code:
            yield self.left.pop(0), how, f"{WRONG}: {how}, ended with {code}"


def _try_all(
    suite: Suite, seeds: Sequence[int], folder: Path, until: float, writer: int
) -> None:
    """Try seeds, while there is time, and tell a pipe; never returns."""
    code = 1
    try:
        for seed in seeds:
            if time.monotonic() > until:
                break
            try:
                group, end = suite.outcome(seed, folder)
            except Exception as error:
                group, end = "suite", f"{WRONG}: {type(error).__name__}: {error}"
            os.write(writer, json.dumps([seed, group, end]).encode() + b"\n")
        code = 0
    finally:
        os._exit(code)


def tried(
    suite: Suite,
    seeds: Iterable[int],
    folder: Path,
    *,
    workers: int = 1,
    until: float = float("inf"),
) -> Iterator[tuple[int, str, str]]:
    """Yield seed, group and outcome as they come, until a moment of the clock."""
    waiting, children = [*seeds], []
    while children or (waiting and time.monotonic() < until):
        while waiting and len(children) < workers and time.monotonic() < until:
            taken, waiting = waiting[: suite.together], waiting[suite.together :]
            children.append(_Child(suite, taken, folder, until))
        ready, _, _ = select.select([child.reader for child in children], [], [], 0.5)
        for child in [*children]:
            if child.reader in ready:
                yield from child.said()
            elif time.monotonic() - child.since > suite.patience:
                yield from child.stop()
            if not child.process:
                children.remove(child)
                waiting = child.left + waiting


def pending(totals: Totals, first: int, end: int) -> list[int]:
    """Return the seeds of a range that were not tried."""
    return [seed for seed in range(first, end) if seed not in totals.seeds]
