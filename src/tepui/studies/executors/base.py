"""What carries out the tasks of a study, and what it tells while it does."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple, Protocol

import torch

from tepui.core.checks import require
from tepui.studies.job import Ended
from tepui.studies.plan_file import Task

POLL = 1.0  # seconds between two looks at workers
RETRIES = 2


class Started(NamedTuple):
    """A task that was handed to a worker."""

    digest: str


class Retried(NamedTuple):
    """A task whose worker died and that was handed to another."""

    digest: str
    reason: str


# None: time has passed, so that progress can be looked at.
Event = Started | Ended | Retried | None
Events = Generator[Event, None, None]


@dataclass(frozen=True)
class Terms:
    """What holds for all tasks of a study, whoever carries them out.

    Attributes:
        device: Where they compute.
        workers: How many at a time; None leaves it to the executor.
        retries: How often a task is taken up again after its worker died.
        threads: How many threads a worker has on a CPU.
    """

    device: torch.device
    workers: int | None = None
    retries: int = RETRIES
    threads: int = 1

    def __post_init__(self) -> None:
        fits = self.workers is None or self.workers > 0
        require(fits, "workers", "be positive", self.workers)
        require(self.retries >= 0, "retries", "not be negative", self.retries)
        require(self.threads > 0, "threads", "be positive", self.threads)


class Executor(Protocol):
    """Carries out tasks, several at a time, wherever there is room for them.

    A worker that dies, whatever killed it, is replaced, and its task goes on from the
    last checkpoint. What the tasks make does not depend on who carried them out.
    """

    def run(self, tasks: Sequence[Task], terms: Terms) -> Events:
        """Carry out tasks and tell what happens, at least every few seconds.

        Args:
            tasks: What to do.
            terms: Where, how many at a time, and how often after a death.

        Yields:
            Events, one :class:`Ended` for each task; it failed if it said so or if its
            worker died too often.
        """
        ...


def imported(name: str, extra: str) -> Any:
    """Import a library that an extra of tepui installs.

    Raises:
        ImportError: If it is missing; says how to install it.
    """
    try:
        return import_module(name)
    except ImportError:
        raise ImportError(
            f"executor {extra} must find the library {name}, which is not installed: "
            f"pip install 'tepui[{extra}]'"
        ) from None


def died(task: Task, retries: int, how: str) -> Ended:
    """Return the end of a task whose worker died once too often."""
    times = f"{retries + 1} times (retries: {retries}); run it again to continue"
    return Ended(task.digest, f"{task.name}: its worker {how}, {times}", False)
