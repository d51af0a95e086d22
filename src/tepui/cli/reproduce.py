"""``tepui reproduce``: figures and tables of the papers, by name."""

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple, get_args

import torch
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
)
from rich.table import Table
from rich.text import Text

from tepui.cli.console import console, table
from tepui.cli.executors import DEFAULT_RAY, DEFAULT_SLURM, executor_named
from tepui.cli.importing import find_in_this_folder
from tepui.cli.plan_table import plan_table
from tepui.cli.same_columns import narrowed
from tepui.core.replacing import check_writable
from tepui.evaluation.stored_logits import LogitType
from tepui.papers.recipe import (
    PAPERS,
    Diagram,
    Order,
    Recipe,
    Size,
    is_module,
    load,
    look_up,
    names,
)
from tepui.papers.reproduce import check_needs, make, rows
from tepui.studies.departures import Departure, departures
from tepui.studies.executors import RETRIES, ExecutorName, Ray, Slurm
from tepui.studies.executors.processes import available_processors
from tepui.studies.job import Advance, Job
from tepui.studies.jobs import carry_out, merged
from tepui.studies.real_data import real_data, stand_ins
from tepui.studies.results import FILE as RESULTS
from tepui.studies.results import Results, read_results
from tepui.studies.store import IN_SILENCE, Store
from tepui.training.time_left import in_words

SCREEN = 40  # lines of a table in the terminal; the files hold all of it
LONGEST = 60  # letters of a cell there
GPU_MEMORY = 2**32  # bytes for each worker; one was seen to use 3.2e9 at small size
BRIEF = ("small", "smoke")  # sizes whose epochs take seconds
CHECKPOINT_EVERY = 10  # epochs there; after each it took a twentieth of the time
EXAMPLE = "tepui reproduce sharpbalance/figure7a"
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


def reproduce(
    items: list[str] | None = None,
    list: bool = False,
    size: Size = "small",
    epochs: int | None = None,
    ensembles: int | None = None,
    members: int | None = None,
    rho: float | None = None,
    methods: list[str] | None = None,
    out: Path = Path("results"),
    store: Path = Path("runs/store"),
    logits_in: LogitType = "float32",
    workers: int | None = None,
    executor: ExecutorName = "processes",
    retries: int = RETRIES,
    ray: Ray = DEFAULT_RAY,
    slurm: Slurm = DEFAULT_SLURM,
    dry_run: bool = False,
    overwrite: bool = False,
    device: str | None = None,
) -> None:
    """Make figures and tables of the papers, our numbers beside theirs.

    Args:
        items: Names such as sharpbalance/figure7, sharpbalance/figure7a for one panel,
            sharpbalance for a whole paper, all for the three papers, ours for studies
            of our own; mypackage.figure1 for a module with a recipe of your own,
            figure1 for a file figure1.py in this folder.
        list: Only show all names.
        size: ``paper`` as published, ``medium`` on the paper's data in an hour of a GPU
            (not all items have it), ``small`` in minutes, ``smoke`` to see it run.
        epochs: Length of each run, if not the size's; recorded with the results, like
            the next four.
        ensembles: Repetitions of each method.
        members: Members of each ensemble.
        rho: Radius of SAM and SharpBalance.
        methods: Names of the methods to train, as the results have them.
        out: Folder of the results; one inside it for each size and item.
        store: Folder of trained ensembles: what is there is not trained again.
        logits_in: How logits are stored that no figure or table reads: float32, float16
            for half the space, or none. Scores do not depend on it.
        workers: Ensembles to train at once; by default one per available processor, on
            a GPU no more than its memory holds, and one at ``paper`` and ``medium``
            size; by ray and slurm as many as they have room for.
        executor: Who trains: ``processes`` of this machine, ``ray`` or ``slurm``, which
            the extras of these names install. The folder must then lie where all
            machines reach it.
        retries: How often an ensemble is taken up again after its worker died.
        ray: Of executor ray.
        slurm: Of executor slurm.
        dry_run: Only show what is left to do, what it costs and what differs from the
            paper.
        overwrite: Replace existing results; trained ensembles are kept.
        device: Where to train; a GPU if there is one.
    """
    if list:
        console().print(_catalog())
        return
    if not items:
        raise ValueError(
            f"the name of a figure or table must be given, such as {EXAMPLE}; tepui "
            "reproduce --list shows all"
        )
    named = None if methods is None else tuple(methods)
    order = Order(size, (), epochs, ensembles, members, rho, named)
    chosen = _chosen(items or [], order, out)
    execution = replace(
        IN_SILENCE, checkpoint_every=CHECKPOINT_EVERY if size in BRIEF else 1
    )
    shelf = Store(store, device=device, execution=execution, logits_in=logits_in)
    if dry_run:
        console().print(_plan(chosen, shelf))
        console().print(_differs(chosen))
        return
    for item in chosen:
        check_writable(item.folder)
    check_writable(store)
    waiting = deque(item for item in chosen if overwrite or not _is_made(item))
    whole = merged(chain.from_iterable(item.jobs for item in waiting))
    check_needs(whole, shelf)
    unfinished = deque(waiting[0].jobs if waiting else ())  # of the first that waits

    def make_what_is_ready() -> None:
        """Write figures and tables in order, each once everything it needs is done."""
        while waiting:
            while unfinished and not unfinished[0].steps_left(shelf):
                unfinished.popleft()  # what was finished once is not asked again
            if unfinished:
                return
            asked, name, recipe, order, folder, jobs = waiting.popleft()
            unfinished.extend(waiting[0].jobs if waiting else ())
            _say(make(name, recipe, order, jobs, shelf, folder), asked, folder)

    with progress_bar(sum(job.steps_left(shelf) for job in whole)) as advance:
        make_what_is_ready()
        carry_out(
            whole,
            shelf,
            workers=workers_for(workers, shelf, size, executor),
            retries=retries,
            executor=executor_named(executor, ray, slurm),
            advance=advance,
            ended=make_what_is_ready,
        )


def _say(results: Results, asked: str, folder: Path) -> None:
    shown = _on_a_screen(results)
    numbers, same = _table(results, shown)
    console().print(numbers)
    if same:
        told = ", ".join(f"{name}: {cell or 'none'}" for name, cell in same.items())
        console().print(f"in every row above: {told}")
    if any(record.sem is not None for record in results.records):
        console().print("±: standard error of the mean; n: how many it is the mean of")
    if len(results.records) > shown:
        more = len(results.records) - shown
        console().print(f"and {more} more in {folder / 'table.md'}")
    if replaced := stand_ins(results.settings, (r.dataset for r in results.records)):
        console().print(f"not the paper's data: {replaced}")
    console().print(f"written to {folder}")
    if results.size.startswith("smoke"):
        console().print(NO_NUMBERS)
        small = f"tepui reproduce {asked} --size small"
        console().print(f"next: {small} for numbers that mean something")
        return
    console().print(f"next: tepui report {folder} --open, or tepui claims")


def admit_modules(names: Sequence[str]) -> None:
    """Find recipes of one's own in this folder, as ``python -m`` does."""
    if any(map(is_module, names)):
        find_in_this_folder()


def _chosen(items: Sequence[str], order: Order, out: Path) -> list[Item]:
    """Return the recipes of some names, in order and each once."""
    admit_modules(items)
    wide: list[str] = []
    for item in items:
        papers = [*PAPERS] if item == "all" else [item]
        of_papers = [n for n in names() if n.split("/")[0] in papers]
        of_size = [n for n in of_papers if _has(load(n), order.size)]
        if of_papers:
            _check_size(item, order.size, map(load, of_papers))
        wide += of_size or [item]
    chosen = []
    for name in dict.fromkeys(wide):
        item, recipe, panels = look_up(name)
        if isinstance(recipe, Diagram):
            raise ValueError(f"{item} has no numbers to make: it is {recipe.title}")
        _check_size(item, order.size, [recipe])
        with_panels = order._replace(panels=recipe.panels_at(order.size, panels))
        folder, jobs = out / order.label / name, recipe.plan(with_panels)
        chosen.append(Item(name, item, recipe, with_panels, folder, jobs))
    return chosen


def _has(recipe: Recipe | Diagram, size: Size) -> bool:
    """Return whether an item has numbers at a size."""
    return isinstance(recipe, Recipe) and size in recipe.sizes


def _check_size(item: str, size: Size, recipes: Iterable[Recipe | Diagram]) -> None:
    """Raise if none of an item's recipes has a size, with the items that have it."""
    has = {s for each in recipes if isinstance(each, Recipe) for s in each.sizes}
    if size in has:
        return
    others = ", ".join(name for name in names() if _has(load(name), size))
    known = ", ".join(each for each in get_args(Size) if each in has)
    raise ValueError(
        f"--size must be one of {known} for {item}, got {size!r} (which {others} have)"
    )


def _is_made(item: Item) -> bool:
    """Return whether the results exist already, and say so if they do."""
    if not (item.folder / RESULTS).exists():
        return False
    made = read_results(item.folder).settings
    asked = json.loads(json.dumps(item.recipe.described(item.order)))
    others = [
        name
        for name in sorted(made.keys() | asked.keys())
        if made.get(name) != asked.get(name)
    ]
    if others:
        raise ValueError(
            f"{item.folder} was made with other settings ({', '.join(others)}); "
            "--overwrite makes it again"
        )
    console().print(f"{item.folder} is there; --overwrite makes it again")
    return True


def workers_for(
    asked: int | None,
    store: Store,
    size: Size,
    executor: ExecutorName = "processes",
) -> int | None:
    """Return how many trials to train at a time; None leaves it to the executor."""
    if asked is not None or executor != "processes":
        return asked
    if store.device.type == "cpu":
        return available_processors()
    if store.device.type == "cuda" and size not in ("paper", "medium"):
        free, _ = torch.cuda.mem_get_info(store.device)
        return max(1, min(available_processors(), free // GPU_MEMORY))
    return 1


class _Left(ProgressColumn):
    """How long the rest takes, once something of it was done."""

    def render(self, task: Task) -> Text:
        """Return the time in words."""
        seconds = task.time_remaining
        return Text("estimating…" if seconds is None else f"left {in_words(seconds)}")


@contextmanager
def progress_bar(steps: int) -> Iterator[Advance]:
    """Show one bar for a whole plan, with the time left; none for an empty one."""
    if steps == 0:
        yield lambda done: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Left(),
    )
    # Trials differ in their speed, so that all of the past says most of the future.
    with Progress(*columns, console=console(), speed_estimate_period=86400) as bar:
        task = bar.add_task("epochs by their cost, and tests", total=steps)
        yield lambda done: bar.advance(task, done)


def _plan(chosen: Sequence[Item], store: Store) -> Table:
    plans = {item.asked: item.jobs for item in chosen}
    if len(plans) > 1:
        whole = merged(chain.from_iterable(plans.values()))
        plans["all, each ensemble once"] = whole
    return plan_table("figure or table", plans, store)


def _differs(chosen: Sequence[Item]) -> Table:
    """Return what is not as published, each once, with the items it is of."""
    items: dict[Departure, dict[str, None]] = {}
    for item in chosen:
        for departure in departures(item.recipe.described(item.order)):
            items.setdefault(departure, {})[item.asked] = None
    rows = [
        (what, why, "all" if len(of) == len(chosen) else ", ".join(of))
        for (what, why), of in items.items()
    ]
    return table("what differs from the paper", ("what", "why", "in"), rows)


def _catalog() -> Table:
    rows = []
    for name in names():
        recipe = load(name)
        panels, sizes = "diagram", ""
        if isinstance(recipe, Recipe):
            panels, sizes = "".join(recipe.panels), " ".join(recipe.sizes)
        rows.append((name, panels, sizes, recipe.title))
    headings = ("name", "panels", "sizes", "what it shows")
    return table("figures and tables", headings, rows)


def _on_a_screen(results: Results) -> int:
    """Return how many rows of a table fit on a screen, at least one."""
    count = min(len(results.records), SCREEN)
    while count > 1 and len(console().render_lines(_table(results, count)[0])) > SCREEN:
        count -= 1
    return count


def _table(results: Results, count: int) -> tuple[Table, Mapping[str, str]]:
    """Return the first rows of a table, and what is the same in all of them."""
    headings, *numbers = rows(results)
    used = [real_data(results.settings, record.dataset) for record in results.records]
    if any(used):
        place = headings.index("dataset") + 1
        for row, data in zip([headings, *numbers], ["data", *used], strict=True):
            row.insert(place, data)
    title = f"{results.name} ({results.size}): {results.title}"
    cells = [[*map(_shortened, row[1:])] for row in numbers[:count]]
    names, lines, same = narrowed(headings[1:], cells, kept="ours")
    shown = table(title, names, lines, numbers=("paper", "ours", "n"))
    shown.caption = NO_NUMBERS if results.size.startswith("smoke") else None
    return shown, same


def _shortened(cell: str) -> str:
    return cell if len(cell) <= LONGEST else f"{cell[: LONGEST - 1]}…"
