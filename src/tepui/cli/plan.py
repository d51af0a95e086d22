"""A plan of a study: what is left of it, who works on it, and how far it has come."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from tepui.cli.console import console, table
from tepui.cli.values import Size
from tepui.papers.reproduce import cost
from tepui.studies.executors import Executor, Processes
from tepui.studies.executors.processes import available_processors
from tepui.studies.job import Advance, Job
from tepui.studies.store import Store

COUNTS = ("ensembles", "trained", "member-epochs left")
GPU_MEMORY = 2**32  # bytes for each worker; one was seen to use 3.2e9 at small size


def plan_table(heading: str, plans: Mapping[str, Sequence[Job]], store: Store) -> Table:
    """Return a table with a row for each plan, merged; what is stored costs nothing."""
    rows = []
    for name, jobs in plans.items():
        left = cost(jobs, store)
        counts = left.trials, left.trained, left.member_epochs
        rows.append((name, *map(str, counts)))
    shown = table("what there is to do", (heading, *COUNTS), rows, numbers=COUNTS)
    shown.columns[0].no_wrap = True
    return shown


def workers_for(
    asked: int | None, store: Store, size: Size, executor: Executor
) -> int | None:
    """Return how many trials to train at a time; None leaves it to the executor."""
    if asked is not None or not isinstance(executor, Processes):
        return asked
    if store.device.type == "cpu":
        return available_processors()
    if store.device.type == "cuda" and size not in ("paper", "medium"):
        free, _ = torch.cuda.mem_get_info(store.device)
        return max(1, min(available_processors(), free // GPU_MEMORY))
    return 1


@contextmanager
def progress_bar(steps: int) -> Iterator[Advance]:
    """Show one bar for a whole plan, with the time left; none for an empty one."""
    if steps == 0:
        yield lambda done: None
        return
    done = BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    columns = TextColumn("{task.description}"), *done
    # Trials differ in their speed, so that all of the past says most of the future.
    with Progress(*columns, console=console(), speed_estimate_period=86400) as bar:
        task = bar.add_task("epochs by their cost, and tests", total=steps)
        yield lambda done: bar.advance(task, done)
