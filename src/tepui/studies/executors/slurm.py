"""Work done by a Slurm cluster, submitted as an array of jobs."""

import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import Any, Literal, get_args

from tepui.core.checks import one_of, require
from tepui.core.types import check_fields
from tepui.studies.executors.base import Events, Retried, Started, Terms, died, imported
from tepui.studies.job import Ended, JobError, children_on_threads
from tepui.studies.plan_file import Task

REQUEUES = 100  # of a job that runs out of time, each from its last checkpoint
Cluster = Literal["slurm", "local"]
POLL = {"slurm": 5.0, "local": 0.5}  # seconds; Slurm's accounting is asked every minute


@dataclass(frozen=True)
class Slurm:
    """One element of a job array per ensemble; all nodes must reach the store.

    Jobs that are preempted or run out of time are requeued, by Slurm and without the
    driver, and go on from their last checkpoint.

    Attributes:
        partition: Where to submit; Slurm's default if None.
        minutes: Limit of each job.
        gpus: GPUs of each job; by default one where ensembles are trained on GPUs.
        memory: Gigabytes of memory of each job; the partition's default if None.
        cluster: ``slurm``, or ``local`` to do as Slurm would in processes of this
            machine.
    """

    partition: str | None = None
    minutes: int = 24 * 60
    gpus: int | None = None
    memory: float | None = None
    cluster: Cluster = "slurm"

    def __post_init__(self) -> None:
        one_of("slurm.cluster", self.cluster, get_args(Cluster))
        check_fields(self)
        require(self.minutes > 0, "slurm.minutes", "be positive", self.minutes)
        # It stands in a script for the shell, where a line break begins a command.
        named = self.partition is None or re.fullmatch(r"[\w.,-]+", self.partition)
        rule = "hold only letters, digits and _ . , -"
        require(bool(named), "slurm.partition", rule, self.partition)

    def run(self, tasks: Sequence[Task], terms: Terms) -> Events:
        """Carry out tasks, see :class:`~tepui.studies.executors.base.Executor`."""
        submitit = imported("submitit", "slurm")
        folder = tasks[0].plan.with_suffix("")  # of what jobs say
        rule = "have a path without control characters, for Slurm's scripts"
        require(str(folder).isprintable(), "store", rule, str(folder))
        queue = self._queue(submitit, folder, terms)
        local = self.cluster == "local"  # which has no queue of its own
        limit = terms.workers if local and terms.workers else len(tasks)
        waiting, deaths = list(tasks), Counter[str]()
        running: list[tuple[Any, Task]] = []
        try:
            while waiting or running:
                room = limit - len(running)
                submitted, waiting = waiting[:room], waiting[room:]
                jobs = self._submitted(queue, submitted, terms.threads)
                running += zip(jobs, submitted, strict=True)
                yield from (Started(task.digest) for task in submitted)
                for job, task in [pair for pair in running if pair[0].done()]:
                    running.remove((job, task))
                    answer = _answer(submitit, job)
                    if isinstance(answer, Ended):
                        yield answer
                        continue
                    deaths[task.digest] += 1
                    if deaths[task.digest] > terms.retries:
                        yield died(task, terms.retries, answer)
                        continue
                    waiting.append(task)
                    yield Retried(task.digest, answer)
                yield None
                time.sleep(POLL[self.cluster])
            if max(deaths.values(), default=0) <= terms.retries:
                rmtree(folder)  # of a death the message names the log
        finally:
            for job, _ in running:
                job.cancel()

    def _queue(self, submitit: Any, folder: Path, terms: Terms) -> Any:
        try:
            queue = submitit.AutoExecutor(
                folder, cluster=self.cluster, slurm_max_num_timeout=REQUEUES
            )
        except RuntimeError as error:
            raise JobError(f"Slurm was not found: {error}") from error
        on_gpu = terms.device.type == "cuda"
        queue.update_parameters(
            name="tepui",
            timeout_min=self.minutes,
            gpus_per_node=int(on_gpu) if self.gpus is None else self.gpus,
            cpus_per_task=terms.threads,
            mem_gb=self.memory,
        )
        if self.cluster == "slurm":
            queue.update_parameters(
                slurm_array_parallelism=terms.workers or 1000,
                slurm_additional_parameters={"requeue": True},
                **({"slurm_partition": self.partition} if self.partition else {}),
            )
        return queue

    def _submitted(self, queue: Any, tasks: Sequence[Task], threads: int) -> list[Any]:
        """Submit tasks as one array."""
        if not tasks:
            return []
        jobs = []
        try:
            with children_on_threads(threads), queue.batch():
                jobs += [queue.submit(_Requeued(task)) for task in tasks]
        except imported("submitit", "slurm").core.utils.FailedJobError as error:
            said = " ".join(str(error).split())
            raise JobError(f"Slurm refused the jobs: {said}") from error
        return jobs


@dataclass(frozen=True)
class _Requeued:
    """A task that goes on in another job when Slurm ends its own."""

    task: Task

    def __call__(self) -> Ended:
        """Carry out the task."""
        return self.task()

    def checkpoint(self) -> Any:
        """Return what to submit instead; called by submitit before the end."""
        helpers = imported("submitit.helpers", "slurm")
        return helpers.DelayedSubmission(self)


def _answer(submitit: Any, job: Any) -> Ended | str:
    """Return what came of a job, or how its worker died."""
    try:
        answer: Ended = job.result()
    except (
        submitit.core.utils.UncompletedJobError,
        submitit.core.utils.FailedJobError,
    ):
        return f"died (state {job.state}, see {job.paths.stderr})"
    return answer
