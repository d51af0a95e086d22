"""What workers are told: a file with a study's whole work, and a place in it.

Whoever executes the work sends a path and a number, whatever the jobs hold. The file
lies in the store, which all workers reach, and data that several jobs share are in it
once. Like all that processes send each other it is a pickle: it is made for one run of
one driver and read by the workers of that driver alone.
"""

import hashlib
import pickle
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tepui.core.processes import is_over, mark
from tepui.core.replacing import ABANDONED, remove_remains, write_bytes
from tepui.studies.job import Advance, Ended, Errors, Job, attempt, on_threads
from tepui.studies.store import Store

FOLDER = ".plans"
_DIGEST = 32  # bytes before the work: its SHA-256


@dataclass(frozen=True)
class Task:
    """A job of a plan, small enough to be sent anywhere.

    Attributes:
        plan: The plan's file.
        index: Which of its jobs.
        digest: The job's trial.
        lease: The lease under which it is worked on.
        name: What the job is called in messages.
        threads: How many threads it has on a CPU.
    """

    plan: Path
    index: int
    digest: str
    lease: Path
    name: str
    threads: int

    def __call__(self, advance: Advance = lambda steps: None) -> Ended:
        """Do the job.

        Args:
            advance: Told how many steps were done.

        Returns:
            How it ended; a failure names the job.
        """
        try:
            store, jobs, tolerated = _read(self.plan)
            with on_threads(store, self.threads):
                return attempt(jobs[self.index], store, advance, tolerated)
        except Exception as error:
            reason = f"{self.name}: {type(error).__name__}: {error}"
            return Ended(self.digest, reason, tolerated=False)


@contextmanager
def planned(
    jobs: Sequence[Job],
    store: Store,
    tolerated: Errors = (),
    *,
    threads: int = 1,
    outlives_driver: bool = True,
) -> Iterator[list[Task]]:
    """Write a plan, which is there as long as the block, and yield its tasks.

    Workers that end with this process need no plan after it: theirs has the name of a
    temporary file, which is removed at once when its writer is dead.

    Raises:
        ValueError: If a job cannot be sent to another process.
    """
    name = f"{mark()}-{uuid.uuid4().hex[:8]}.pickle"
    if not outlives_driver:
        name = f".{uuid.uuid4().hex[:8]}.{mark()}.tmp"
    file = (store.path / FOLDER / name).absolute()
    try:
        work = pickle.dumps((store, tuple(jobs), tolerated))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(
            "jobs must hold only what can be sent to another process (classes and "
            f"functions at the top of a module), but: {error}"
        ) from error
    content = pickle.dumps((_paths(), work))
    write_bytes(file, hashlib.sha256(content).digest(), content)
    try:
        yield [
            Task(file, n, job.trial.digest, store.lease(job.trial), job.name, threads)
            for n, job in enumerate(jobs)
        ]
    finally:
        file.unlink(missing_ok=True)


def remove_abandoned(store: Store) -> None:
    """Remove plans of drivers that died on this host.

    Jobs in the queue of a cluster outlive their driver: they have a day to start.
    """
    folder = store.path / FOLDER
    if folder.is_dir():
        remove_remains(folder)
    for file in folder.glob("*-*-*-*.pickle"):
        with suppress(OSError, ValueError):
            old = file.stat().st_mtime < time.time() - ABANDONED
            if old and is_over(file.stem.rpartition("-")[0]):
                file.unlink(missing_ok=True)


def _paths() -> list[str]:
    """Return where this process finds modules, for workers in other folders."""
    return [str(Path(path).absolute()) for path in sys.path]


@lru_cache(maxsize=1)
def _read(file: Path) -> tuple[Store, tuple[Job, ...], Errors]:
    whole = file.read_bytes()
    digest, pickled = whole[:_DIGEST], whole[_DIGEST:]
    if hashlib.sha256(pickled).digest() != digest:
        raise ValueError(f"{file} must hold what was written to it: start again")
    paths, work = pickle.loads(pickled)
    sys.path += [path for path in paths if path not in sys.path]
    content: tuple[Store, tuple[Job, ...], Errors] = pickle.loads(work)
    return content
