"""How far the work of a study has come, read from the run folders.

Workers, wherever they are, report to nobody: a driver that was away knows as much as
one that was there from the beginning.
"""

from collections.abc import Sequence

from tepui.studies.executors.base import Event, Started
from tepui.studies.job import Advance, Ended, Job, cost_left
from tepui.studies.store import Store


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
