"""Work done by processes of this machine."""

import multiprocessing
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import NamedTuple

from tepui.core.lease import first_free
from tepui.studies.executors.base import POLL, Events, Retried, Started, Terms, died
from tepui.studies.job import Ended, children_on_threads
from tepui.studies.plan_file import Task


@dataclass(frozen=True)
class Processes:
    """Processes of this machine."""

    def run(self, tasks: Sequence[Task], terms: Terms) -> Events:
        """Carry out tasks, see :class:`~tepui.studies.executors.base.Executor`."""
        count = min(terms.workers or available_processors(), len(tasks))
        pool: list[_Worker] = []
        waiting, deaths = list(tasks), Counter[str]()
        busy: dict[Connection, tuple[_Worker, Task]] = {}
        try:
            pool.extend(_started(terms.threads) for _ in range(count))
            while waiting or busy:
                idle = [worker for worker in pool if worker.pipe not in busy]
                for worker in idle[: len(waiting)]:
                    task = waiting.pop(first_free(t.lease for t in waiting))
                    worker.give(task)
                    busy[worker.pipe] = worker, task
                    yield Started(task.digest)
                for pipe in wait([*busy], timeout=POLL):
                    assert isinstance(pipe, Connection)
                    worker, task = busy.pop(pipe)
                    answer = worker.answer()
                    if isinstance(answer, Ended):
                        yield answer
                        continue
                    pool[pool.index(worker)] = _started(terms.threads)
                    deaths[task.digest] += 1
                    if deaths[task.digest] > terms.retries:
                        yield died(task, terms.retries, answer)
                        continue
                    waiting.insert(0, task)
                    yield Retried(task.digest, f"worker {answer}")
                yield None
        finally:
            _end(pool)


class _Worker(NamedTuple):
    process: SpawnProcess
    pipe: Connection

    def give(self, task: Task) -> None:
        """Hand over a task; a worker that has died meanwhile says so when asked."""
        with suppress(OSError):
            self.pipe.send(task)

    def answer(self) -> Ended | str:
        """Return what came of its task, or how the worker ended."""
        try:
            answer: Ended = self.pipe.recv()
            return answer
        except (EOFError, OSError):
            self.process.join()
            return f"ended with exit code {self.process.exitcode}"


def available_processors() -> int:
    """Return how many processors this process may use, as far as the system says."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _started(threads: int) -> _Worker:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there,), daemon=True)
    with children_on_threads(threads):
        process.start()
    there.close()  # so that the worker's death closes the pipe
    return _Worker(process, here)


def _end(pool: Sequence[_Worker]) -> None:
    for worker in pool:
        worker.process.terminate()
    for worker in pool:
        worker.process.join()
        worker.pipe.close()


def _serve(pipe: Connection) -> None:
    """Do tasks until the pipe is closed; in a process of its own."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def check(_: int) -> None:
        if not parent.is_alive():
            raise SystemExit  # it was killed; what is finished is kept

    while True:
        try:
            task: Task = pipe.recv()
            pipe.send(task(check))
        except (EOFError, OSError):
            return
        except KeyboardInterrupt:
            raise SystemExit(130) from None
