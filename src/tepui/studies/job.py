"""A piece of a study's work: one trial, what is requested of it, and doing it."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import torch

from tepui.core.lease import LeaseLostError
from tepui.studies.in_memory import EvaluationRequest, Request
from tepui.studies.specifications import SharpnessSpec, Trial
from tepui.studies.store import Store
from tepui.training.history import EpochRecord

THREADS_VARIABLE = "OMP_NUM_THREADS"
Advance = Callable[[int], None]
Errors = tuple[type[Exception], ...]


class JobError(RuntimeError):
    """A trial could not be carried out; what else there was to do is done.

    Attributes:
        status: What a command ends with, 2 standing for what was asked wrongly.
    """

    status = 1


class Ended(NamedTuple):
    """A job that is finished or has failed."""

    digest: str
    failure: str | None = None  # what the error said; None if there was none
    tolerated: bool = True  # whether a study may go on without it


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
        """Return what is left to do: epochs by their cost and requests, times members.

        An epoch that takes two gradients of a sample counts twice, so that the time
        left follows from the steps of any methods.

        Args:
            store: Where the rest is.

        Returns:
            The number of steps; 0 if the store has everything.
        """
        epochs = 0 if store.is_trained(self.trial) else cost_left(self.trial)
        missing = sum(not store.has(self.trial, request) for request in self.requests)
        return epochs + len(self.trial.seeds) * missing


def cost_left(trial: Trial, done: int = 0) -> int:
    """Return what members' epochs still cost, in epochs of one gradient a sample."""
    return round(sum(trial.training.costs(len(trial.seeds))[done:]))


def attempt(
    job: Job,
    store: Store,
    advance: Advance = lambda steps: None,
    tolerated: Errors = (),
) -> Ended:
    """Do what is left of a job, or give it up for an error that is tolerated."""
    left = job.steps_left(store)

    def count(steps: int) -> None:
        nonlocal left
        steps = min(steps, left)  # epochs before a lease was lost count once
        left -= steps
        advance(steps)

    try:
        while not _is_done(job, store, count):
            pass
    except tolerated as error:
        advance(left)
        return Ended(job.trial.digest, str(error))
    return Ended(job.trial.digest)


def _is_done(job: Job, store: Store, advance: Advance) -> bool:
    """Do a job; false if another process took it over, which then is to be waited for.

    That happens to a process that was suspended for longer than a lease lasts.
    """
    try:
        _do(job, store, advance)
    except LeaseLostError:
        return False
    return True


def _do(work: Job, store: Store, advance: Advance) -> None:
    members = len(work.trial.seeds)
    if not store.is_trained(work.trial):
        left = cost_left(work.trial)

        def count(record: EpochRecord) -> None:
            nonlocal left
            now = min(left, cost_left(work.trial, record.epoch + 1))
            advance(left - now)
            left = now

        store.run(work.trial, beginnings=work.beginnings, on_epoch=count)
        advance(left)
    for request in work.requests:
        if store.has(work.trial, request):
            continue
        if isinstance(request, SharpnessSpec):
            store.measured(work.trial, request)
        else:
            store.evaluation(work.trial, request)
        advance(members)


@contextmanager
def on_threads(store: Store, threads: int | None) -> Iterator[None]:
    """Compute on this many threads if on a CPU; None leaves torch's setting."""
    before = torch.get_num_threads()
    if store.device.type == "cpu" and threads is not None:
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def threads_set(threads: int) -> dict[str, str]:
    """Return what libraries read once, when they are loaded; oneDNN ignores changes.

    Threads that wait leave their processor to the other workers.
    """
    return {THREADS_VARIABLE: str(threads), "OMP_WAIT_POLICY": "PASSIVE"}


@contextmanager
def children_on_threads(threads: int) -> Iterator[None]:
    """Start processes inside with this many threads."""
    variables = threads_set(threads)
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
