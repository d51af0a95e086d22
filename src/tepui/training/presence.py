"""Whether the ranks of a run are there, told by the store that they share.

Ranks may have to wait for each other for as long as a member's epoch takes, so that a
collective which takes long says nothing. Every rank therefore leaves a beat in the
store every second, and waits before a collective until all have come; one whose beat
stops, whose process is gone or who said that it leaves is not waited for.
"""

import atexit
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import final

from torch._C._distributed_c10d import Store

from tepui.core.processes import is_over, mark

BEAT = 1.0  # seconds between two beats
LOOK = 0.25  # seconds between two looks at the others while waiting
LONGEST_PAUSE = 0.01  # seconds between two questions whether all have come

GO_ON = (
    "start the run again with resume=True (--resume) to go on from its last "
    "checkpoint, with any number of ranks"
)


class RankLost(RuntimeError):  # noqa: N818 - what happened, in plain words
    """Another process of the run is gone.

    Args:
        reason: Which, and how one knows; the message adds how to go on.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}; {GO_ON}")
        self.reason = reason


@contextmanager
def unbroken() -> Iterator[None]:
    """Say in plain words that the connection to the other ranks broke."""
    try:
        yield
    except RankLost:
        raise
    except RuntimeError as error:
        raise RankLost(f"the connection between ranks broke ({error})") from error


@final
class Presence:
    """A rank's beat, and what it knows of the others'."""

    def __init__(self, store: Store, rank: int, size: int, timeout: float) -> None:
        self._store = store
        self._rank = rank
        self._size = size
        self._timeout = timeout
        self._meetings = 0
        self._run = 0
        self._beats: dict[int, tuple[int, float]] = {}  # and when they last changed
        store.set(f"process/{rank}", mark())
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()
        # A thread that is in the store when the interpreter ends would abort it.
        atexit.register(self.end)

    def end(self) -> None:
        """Beat no more."""
        self._ended.set()
        self._thread.join()

    def wait_for_all(self) -> None:
        """Return once all ranks have come here; raise if one never will."""
        self._meetings += 1
        meeting = f"arrived/{self._meetings}"
        with unbroken():
            arrived = self._store.add(meeting, 1)
            pause, looked = LONGEST_PAUSE / 20, time.monotonic()
            self._beats.clear()
            while arrived < self._size:
                time.sleep(pause)
                pause = min(1.5 * pause, LONGEST_PAUSE)
                lost = None
                if time.monotonic() - looked > LOOK:
                    lost, looked = self._lost(), time.monotonic()
                arrived = self._store.add(meeting, 0)
                # Who came may have gone on, and even have ended, since.
                if lost is not None and arrived < self._size:
                    raise RankLost(lost)

    @contextmanager
    def attending(self) -> Iterator[None]:
        """Tell the others if the block ends in an error."""
        self._run += 1
        try:
            yield
        except BaseException as error:
            known = error.reason if isinstance(error, RankLost) else error
            text = f"{type(error).__name__}: {known}"
            with suppress(RuntimeError):  # of a store that is gone too
                self._store.set(f"left/{self._run}/{self._rank}", text)
            raise

    def _lost(self) -> str | None:
        """Return who is gone, and how one knows; None if all others are there."""
        for rank in range(self._size):
            reason = None if rank == self._rank else self._why_lost(rank)
            if reason is not None:
                return f"rank {rank} {reason}"
        return None

    def _why_lost(self, rank: int) -> str | None:
        left, process = f"left/{self._run}/{rank}", f"process/{rank}"
        if self._store.check([left]):
            return f"left the run with {self._store.get(left).decode()}"
        known = self._store.check([process])
        if known and is_over(self._store.get(process).decode()):
            return "has died"
        now, beat = time.monotonic(), self._store.add(f"beat/{rank}", 0)
        last, since = self._beats.get(rank, (-1, now))
        if beat != last:
            self._beats[rank] = beat, now
        elif now - since > self._timeout:
            return f"gave no sign of life for {self._timeout:g} s"
        return None

    def _beat(self) -> None:
        while not self._ended.wait(min(BEAT, self._timeout / 4)):
            try:
                self._store.add(f"beat/{self._rank}", 1)
            except RuntimeError:
                return  # the store is gone, and with it the run
