"""Carrying out the work of a study: several trials at a time, one report of progress.

On a CPU every trial trains on the same number of threads, one by default, so that
results do not depend on how many trials run at a time; on a GPU trials share it.
"""

import logging
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TypeVar

from tepui.core.checks import require
from tepui.core.lease import first_free
from tepui.studies.executors import RETRIES, Executor, Processes
from tepui.studies.executors.base import Event, Events, Retried, Started, Terms
from tepui.studies.in_memory import Request
from tepui.studies.job import (
    Advance,
    Ended,
    Errors,
    Job,
    JobError,
    attempt,
    cost_left,
    on_threads,
)
from tepui.studies.plan_file import planned, remove_abandoned
from tepui.studies.shared_prefixes import distinct_epochs, shared_beginnings
from tepui.studies.store import Store
from tepui.training import LocalExchange, exchange_here

LOG = logging.getLogger(__name__)
IN_PROCESSES = Processes()
R = TypeVar("R", bound=Request)


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
    """Return a request of each digest: the first whose logits are read, if one is."""
    first: dict[str, R] = {}
    for request in sorted(requests, key=lambda request: not request.logits_read):
        first.setdefault(request.digest, request)
    order = dict.fromkeys(request.digest for request in requests)
    return tuple(first[digest] for digest in order)


@dataclass(frozen=True)
class Cost:
    """What a plan costs."""

    trials: int  # ensembles in the plan
    trained: int  # those that the store has
    member_epochs: int  # epochs of training that are left, counted for every member
    passes: float  # the same in gradients of a member's data
    steps: int  # what is left to do in all, tests and measurements included
    seconds: float | None  # of training, at the pace of those that are trained


def cost(jobs: Sequence[Job], store: Store) -> Cost:
    """Return what a plan, merged, costs beyond what a store has."""
    left = [job.trial for job in jobs if not store.is_trained(job.trial)]
    epochs, pace = distinct_epochs(left), store.pace([job.trial for job in jobs])
    passes = sum(each for _, each in epochs)
    return Cost(
        trials=len(jobs),
        trained=len(jobs) - len(left),
        member_epochs=sum(members for members, _ in epochs),
        passes=passes,
        steps=sum(job.steps_left(store) for job in jobs),
        seconds=None if pace is None else passes * pace,
    )


def carry_out(
    jobs: Iterable[Job],
    store: Store,
    *,
    workers: int | None = 1,
    retries: int = RETRIES,
    executor: Executor = IN_PROCESSES,
    advance: Advance = lambda steps: None,
    tolerated: Errors = (),
    threads: int | None = 1,
) -> dict[str, str]:
    """Train, evaluate and measure what the store does not have.

    The logger ``tepui.studies.jobs`` reports, at level INFO, what is started, finished,
    retried, given up, and skipped because it is stored.

    Args:
        jobs: Trials and what is requested of them.
        store: Where they are kept.
        workers: Trials at a time; None for as many as the executor has room for.
        retries: How often a trial is taken up again after its worker died.
        executor: Who carries them out, if there are several at a time; one at a time is
            carried out in this process unless another executor is given.
        advance: Told how many steps were done.
        tolerated: Errors that give up a trial and let the others go on.
        threads: How many threads a trial has on a CPU; None leaves torch's setting in
            this process, and means one in others.

    Returns:
        What the error said, for the digest of each trial that was given up.

    Raises:
        JobError: If one of several trials failed, or its worker died too often; the
            others are finished first. A single trial in this process raises its own.
        ValueError: If there are several trials under torchrun, whose ranks train the
            members of one ensemble together.
    """
    terms = Terms(store.device, workers, retries, 1 if threads is None else threads)
    remove_abandoned(store)
    left = []
    for job in with_beginnings(merged(jobs)):
        if job.steps_left(store):
            left.append(job)
        else:
            LOG.info("stored already: %s", job.name)
    if not left:
        return {}
    _check_ranks(left, executor)
    here = isinstance(executor, Processes) and (workers == 1 or len(left) == 1)
    if here:
        events = _in_turn(left, store, advance, tolerated, threads)
    else:
        events = _elsewhere(left, store, terms, executor, advance, tolerated)
    given_up, failed = {}, []
    named = {job.trial.digest: job.name for job in left}
    with closing(events):
        for event in events:
            if event is None:
                continue
            LOG.info("%s: %s", _word(event), named[event.digest])
            if isinstance(event, Ended):
                if event.failure is not None and event.tolerated:
                    given_up[event.digest] = event.failure
                elif event.failure is not None:
                    failed.append(event.failure)
    if failed:
        raise JobError("; ".join(failed))
    return given_up


def _check_ranks(jobs: Sequence[Job], executor: Executor) -> None:
    """Refuse work that ranks would divide in other ways than they train."""
    if isinstance(exchange_here(), LocalExchange):
        return
    here = len(jobs) == 1 and isinstance(executor, Processes)
    rule = (
        "be one, in this process, under torchrun, whose ranks train an ensemble "
        "together; start a study without torchrun, with workers or another executor"
    )
    by = f"{len(jobs)} by {type(executor).__name__.lower()}"
    require(here, "jobs", rule, by)


def with_beginnings(jobs: Sequence[Job]) -> list[Job]:
    """Let trials share the training that they have in common."""
    shared = shared_beginnings(job.trial for job in jobs)
    return [replace(job, beginnings=shared.get(job.trial.digest, ())) for job in jobs]


def _word(event: Started | Ended | Retried) -> str:
    if isinstance(event, Ended):
        return event.failure or "finished"
    return "started" if isinstance(event, Started) else f"retried, {event.reason}"


def _in_turn(
    work: Sequence[Job],
    store: Store,
    advance: Advance,
    tolerated: Errors,
    threads: int | None,
) -> Events:
    waiting = list(work)
    while waiting:
        job = waiting.pop(first_free(store.lease(job.trial) for job in waiting))
        yield Started(job.trial.digest)
        try:
            with on_threads(store, threads):
                ended = attempt(job, store, advance, tolerated)
        except Exception as error:
            if len(work) == 1:
                raise
            reason = f"{job.name}: {type(error).__name__}: {error}"
            ended = Ended(job.trial.digest, reason, tolerated=False)
        yield ended


def _elsewhere(
    work: Sequence[Job],
    store: Store,
    terms: Terms,
    executor: Executor,
    advance: Advance,
    tolerated: Errors,
) -> Events:
    progress = Progress(work, store, advance)
    with (
        planned(
            work,
            store,
            tolerated,
            threads=terms.threads,
            outlives_driver=not isinstance(executor, Processes),
        ) as tasks,
        closing(executor.run(tasks, terms)) as events,
    ):
        for event in events:
            progress.look(event)
            yield event


class Progress:
    """Tells how many steps were done since it last looked."""

    def __init__(self, jobs: Sequence[Job], store: Store, advance: Advance) -> None:
        self._jobs = {job.trial.digest: job for job in jobs}
        self._left = {name: job.steps_left(store) for name, job in self._jobs.items()}
        self._running: set[str] = set()
        self._store, self._advance = store, advance

    def look(self, event: Event) -> None:
        """Take note of an event and look at all jobs that are running."""
        if isinstance(event, Started):
            self._running.add(event.digest)
        elif isinstance(event, Ended):
            self._running.discard(event.digest)
            self._tell(event.digest, 0)
        elif event is None:
            for name in self._running:
                self._tell(name, steps_left(self._jobs[name], self._store))

    def _tell(self, name: str, left: int) -> None:
        """Count what was done; a job whose beginning is trained again stands still."""
        done = max(0, self._left[name] - left)
        self._left[name] -= done
        if done:
            self._advance(done)


def steps_left(job: Job, store: Store) -> int:
    """Return what is left to do of a job, also of one that is being trained."""
    left = job.steps_left(store)
    if not store.is_trained(job.trial):
        done = store.epochs_done(job.trial, job.beginnings)
        spent = cost_left(job.trial) - cost_left(job.trial, done)
        left -= spent
    return left
