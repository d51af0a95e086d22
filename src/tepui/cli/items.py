"""Figures and tables of the papers as they are asked for: found, and shown."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from tepui.cli.console import console, table
from tepui.core.checks import require
from tepui.papers.recipe import (
    PAPERS,
    Diagram,
    Order,
    Recipe,
    is_module,
    load,
    look_up,
    names,
)
from tepui.papers.reproduce import rows
from tepui.studies.executors import Executor, Processes
from tepui.studies.job import Advance, Job
from tepui.studies.jobs import cost
from tepui.studies.real_data import stand_ins
from tepui.studies.results import FILE as RESULTS
from tepui.studies.results import Results
from tepui.studies.store import Store

SCREEN = 35  # rows of a table in the terminal; the files hold all of it
NO_NUMBERS = (
    "size smoke shows only that the recipe runs: its numbers mean nothing beside the "
    "paper's"
)


class Item(NamedTuple):
    """A figure or table as it was asked for."""

    asked: str  # its name, with the panel if one was asked for
    name: str
    recipe: Recipe
    order: Order  # size, panels and what is overridden
    folder: Path  # where it is written
    jobs: Sequence[Job]


def items_named(items: Sequence[str], order: Order, out: Path) -> list[Item]:
    """Return the recipes of some names, in order and each once.

    Recipes of one's own are found in this folder, as ``python -m`` does.
    """
    here = str(Path.cwd())
    if any(map(is_module, items)) and here not in sys.path:
        sys.path.insert(0, here)
    wide: list[str] = []
    for item in items:
        papers = [*PAPERS] if item == "all" else [item]
        of_papers = [n for n in names() if n.split("/")[0] in papers]
        of_size = [n for n in of_papers if order.size in getattr(load(n), "sizes", ())]
        rule = f"be one that {item} has"
        require(bool(of_size) or not of_papers, "size", rule, order.size)
        wide += of_size or [item]
    chosen = []
    for name in dict.fromkeys(wide):
        item, recipe, panels = look_up(name)
        if isinstance(recipe, Diagram):
            raise ValueError(f"{item} has no numbers to make: it is {recipe.title}")
        with_panels = order._replace(panels=recipe.panels_at(order.size, panels))
        folder, jobs = out / order.label / name, recipe.plan(with_panels)
        chosen.append(Item(name, item, recipe, with_panels, folder, jobs))
    return chosen


def is_made(item: Item) -> bool:
    """Return whether the results exist already, and say so if they do."""
    there = (item.folder / RESULTS).exists()
    if there:
        console().print(f"{item.folder} is there; --overwrite makes it again")
    return there


def catalog() -> Table:
    """Return a table of all figures and tables."""
    listed = []
    for name in names():
        recipe = load(name)
        panels, sizes = "diagram", ""
        if isinstance(recipe, Recipe):
            panels, sizes = "".join(recipe.panels), " ".join(recipe.sizes)
        listed.append((name, panels, sizes, recipe.title))
    headings = ("name", "panels", "sizes", "what it shows")
    return table("figures and tables", headings, listed)


def show(results: Results, folder: Path) -> None:
    """Print results that were made, as far as they fit on a screen."""
    console().print(_table(results))
    if (more := len(results.records) - SCREEN) > 0:
        console().print(f"and {more} more in {folder / 'table.md'}")
    if replaced := stand_ins(results.settings, (r.dataset for r in results.records)):
        console().print(f"not the paper's data: {replaced}")
    console().print(f"written to {folder}")
    smoke = results.size.startswith("smoke")
    then = f"next: tepui report {folder} --open, or tepui claims"
    console().print(NO_NUMBERS if smoke else then)


def _table(results: Results) -> Table:
    """Return the first rows of a table, without what is the same in all of them."""
    headings, *numbers = rows(results)
    columns = [*zip(headings, *numbers[:SCREEN], strict=True)][1:]
    kept = [each for each in columns if each[0] == "ours" or len({*each[1:]}) > 1]
    names, *lines = zip(*kept, strict=True)
    title = f"{results.name} ({results.size}): {results.title}"
    return table(title, names, lines, numbers=("paper", "ours", "n"))


COUNTS = ("ensembles", "trained", "member-epochs left", "passes left", "seconds left")


def plan_table(heading: str, plans: Mapping[str, Sequence[Job]], store: Store) -> Table:
    """Return a table with a row for each plan, merged; what is stored costs nothing."""
    rows = []
    for name, jobs in plans.items():
        left = cost(jobs, store)
        seconds = "" if left.seconds is None else f"{left.seconds:.0f}"
        counts = left.trials, left.trained, left.member_epochs, f"{left.passes:.0f}"
        rows.append((name, *map(str, counts), seconds))
    shown = table("what there is to do", (heading, *COUNTS), rows, numbers=COUNTS)
    shown.columns[0].no_wrap = True
    return shown


def workers_for(asked: int | None, store: Store, executor: Executor) -> int | None:
    """Return how many trials to train at a time; None leaves it to the executor.

    Processes beside each other on one GPU gain nothing.
    """
    one = store.device.type != "cpu" and isinstance(executor, Processes)
    return asked or (1 if one else None)


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
