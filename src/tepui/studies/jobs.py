"""Carrying out the work of a study: several trials at a time, one report of progress.

On a CPU every trial trains on one thread, so that results do not depend on how many
trials run at a time; on a GPU trials share it. Processes of their own, wherever they
train, have one thread each.
"""

import logging
import multiprocessing
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from multiprocessing.process import BaseProcess
from multiprocessing.queues import Queue
from pathlib import Path
from queue import Empty
from typing import NamedTuple, TypeVar

import torch

from tepui.core.checks import require
from tepui.studies.beginnings import shared_beginnings
from tepui.studies.given import EvaluationRequest, Request
from tepui.studies.specifications import SharpnessSpec, Trial
from tepui.studies.store import Store

LOG = logging.getLogger(__name__)
THREADS_VARIABLE = "OMP_NUM_THREADS"
Advance = Callable[[int], None]
R = TypeVar("R", bound=Request)
Errors = tuple[type[Exception], ...]


class JobError(RuntimeError):
    """A trial could not be carried out; what was finished before is kept."""


class Started(NamedTuple):
    """Work that is taken up."""

    digest: str


class Ended(NamedTuple):
    """A finished job, or one whose failure is tolerated."""

    digest: str
    failure: str | None = None  # what the error said; None if there was none


Events = Generator[Started | Ended, None, None]
# What a worker says: steps done, an event, a failure, or None when it ends itself.
Message = int | Started | Ended | str | None


@dataclass(frozen=True)
class Job:
    """A trial and what is requested of it.

    Attributes:
        trial: What to train.
        evaluations: What to evaluate it on.
        measures: What to measure of it.
        beginnings: Epochs until which its training is one with that of other trials.
    """

    trial: Trial
    evaluations: tuple[EvaluationRequest, ...] = ()
    measures: tuple[SharpnessSpec, ...] = ()
    beginnings: tuple[int, ...] = ()

    @property
    def requests(self) -> tuple[Request, ...]:
        """Evaluations and measures."""
        return (*self.evaluations, *self.measures)

    @property
    def name(self) -> str:
        """Its method, with the name of its trial in a store."""
        return f"{type(self.trial.training.method).__name__} ({self.trial.digest})"

    def steps_left(self, store: Store) -> int:
        """Return what is left to do: epochs and requests, times members.

        Args:
            store: Where the rest is.

        Returns:
            The number of steps; 0 if the store has everything.
        """
        epochs = 0 if store.is_trained(self.trial) else self.trial.training.epochs
        missing = sum(not store.has(self.trial, request) for request in self.requests)
        return len(self.trial.seeds) * (epochs + missing)


def merged(jobs: Iterable[Job]) -> list[Job]:
    """Return the jobs with each trial once, and each request of it once."""
    whole: dict[str, Job] = {}
    for job in jobs:
        name = job.trial.digest
        before = whole.get(name, Job(job.trial))
        whole[name] = Job(
            before.trial,
            _once(before.evaluations + job.evaluations),
            _once(before.measures + job.measures),
        )
    return [*whole.values()]


def _once(requests: tuple[R, ...]) -> tuple[R, ...]:
    """Return the first request of each digest."""
    first: dict[str, R] = {}
    for request in requests:
        first.setdefault(request.digest, request)
    return tuple(first.values())


def carry_out(
    jobs: Iterable[Job],
    store: Store,
    *,
    workers: int = 1,
    advance: Advance = lambda steps: None,
    ended: Callable[[], None] = lambda: None,
    tolerated: Errors = (),
    threads: int | None = 1,
) -> dict[str, str]:
    """Train, evaluate and measure what the store does not have.

    The logger ``tepui.studies.jobs`` reports, at level INFO, what is started, finished,
    given up, and skipped because it is stored.

    Args:
        jobs: Trials and what is requested of them.
        store: Where they are kept.
        workers: Trials at a time, each in a process of its own if several.
        advance: Told how many steps were done.
        ended: Called whenever a trial has all that is requested of it.
        tolerated: Errors that give up a trial and let the others go on.
        threads: How many threads a trial in this process has on a CPU; None leaves
            torch's setting.

    Returns:
        What the error said, for the digest of each trial that was given up.

    Raises:
        JobError: If a worker fails; what was finished before is kept.
    """
    require(workers > 0, "workers", "be positive", workers)
    left = []
    for job in with_beginnings(merged(jobs)):
        if job.steps_left(store):
            left.append(job)
        else:
            LOG.info("stored already: %s", job.name)
    if workers == 1 or len(left) < 2:
        events = _in_turn(left, store, advance, tolerated, threads)
    else:
        workers = min(workers, len(left))
        events = _in_processes(left, store, workers, advance, tolerated)
    given_up = {}
    named = {job.trial.digest: job.name for job in left}
    with closing(events):
        for event in events:
            if isinstance(event, Started):
                LOG.info("started: %s", named[event.digest])
                continue
            if event.failure is not None:
                given_up[event.digest] = event.failure
            LOG.info("%s: %s", event.failure or "finished", named[event.digest])
            ended()
    return given_up


def with_beginnings(jobs: Sequence[Job]) -> list[Job]:
    """Let trials share the training that they have in common."""
    shared = shared_beginnings(job.trial for job in jobs)
    return [replace(job, beginnings=shared.get(job.trial.digest, ())) for job in jobs]


def _in_turn(
    work: Sequence[Job],
    store: Store,
    advance: Advance,
    tolerated: Errors,
    threads: int | None,
) -> Events:
    for job in work:
        yield Started(job.trial.digest)
        with _threads(store, threads):
            ended = _try(job, store, advance, tolerated)
        yield ended


def _try(work: Job, store: Store, advance: Advance, tolerated: Errors) -> Ended:
    left = work.steps_left(store)

    def count(steps: int) -> None:
        nonlocal left
        left -= steps
        advance(steps)

    try:
        _do(work, store, count)
    except tolerated as error:
        advance(left)
        return Ended(work.trial.digest, str(error))
    return Ended(work.trial.digest)


def _do(work: Job, store: Store, advance: Advance) -> None:
    members = len(work.trial.seeds)
    if not store.is_trained(work.trial):
        done = 0

        def count(_: object) -> None:
            nonlocal done
            done += 1
            advance(members)

        store.run(work.trial, beginnings=work.beginnings, on_epoch=count)
        before = work.trial.training.epochs - done  # epochs of an earlier start
        advance(members * before)
    for request in work.requests:
        if store.has(work.trial, request):
            continue
        if isinstance(request, SharpnessSpec):
            store.measured(work.trial, request)
        else:
            store.evaluation(work.trial, request)
        advance(members)


@contextmanager
def _threads(store: Store, threads: int | None) -> Iterator[None]:
    before = torch.get_num_threads()
    if store.device.type == "cpu" and threads is not None:
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _in_processes(
    work: Sequence[Job],
    store: Store,
    workers: int,
    advance: Advance,
    tolerated: Errors,
) -> Events:
    context = multiprocessing.get_context("spawn")
    tasks: Queue[Job | None] = context.Queue()
    messages: Queue[Message] = context.Queue()
    for task in (*work, *[None] * workers):
        tasks.put(task)
    given = (store.path, str(store.device), tasks, messages, tolerated)
    processes: list[BaseProcess] = [
        context.Process(target=_serve, args=given, daemon=True) for _ in range(workers)
    ]
    try:
        with _children_on_one_thread():
            for process in processes:
                process.start()
        yield from _listen(messages, processes, advance)
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()


@contextmanager
def _children_on_one_thread() -> Iterator[None]:
    """Set what libraries read once, when they are loaded; oneDNN ignores changes."""
    before = os.environ.get(THREADS_VARIABLE)
    os.environ[THREADS_VARIABLE] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[THREADS_VARIABLE]
        else:
            os.environ[THREADS_VARIABLE] = before


def _listen(
    messages: "Queue[Message]", processes: Sequence[BaseProcess], advance: Advance
) -> Iterator[Started | Ended]:
    running = len(processes)
    while running:
        try:
            message = messages.get(timeout=1)
        except Empty:
            dead = [p.exitcode for p in processes if p.exitcode not in (None, 0)]
            if dead:
                raise JobError(
                    f"a worker ended with exit code {dead[0]}; run it again to continue"
                ) from None
            continue
        if message is None:
            running -= 1
        elif isinstance(message, str):
            raise JobError(message)
        elif isinstance(message, Started | Ended):
            yield message
        else:
            advance(message)


def _serve(
    path: Path,
    device: str,
    tasks: "Queue[Job | None]",
    messages: "Queue[Message]",
    tolerated: Errors,
) -> None:
    """Do tasks until there are none; in a process of its own."""
    store = Store(path, device=device)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def tell(steps: int) -> None:
        if not parent.is_alive():
            raise SystemExit  # it was killed; what is finished is kept
        messages.put(steps)

    with _threads(store, 1):
        while (work := tasks.get()) is not None:
            messages.put(Started(work.trial.digest))
            try:
                messages.put(_try(work, store, tell, tolerated))
            except KeyboardInterrupt:
                raise SystemExit(130) from None
            except Exception as error:
                messages.put(f"{work.name}: {type(error).__name__}: {error}")
                return
    messages.put(None)
