"""Figures and tables of the papers as they are asked for: found, and shown."""

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, get_args

from rich.table import Table

from tepui.cli.console import console, table
from tepui.cli.values import Size
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
from tepui.studies.departures import Departure, departures
from tepui.studies.job import Job
from tepui.studies.real_data import real_data, stand_ins
from tepui.studies.results import FILE as RESULTS
from tepui.studies.results import Results, read_results

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


def admit_modules(names: Sequence[str]) -> None:
    """Find recipes of one's own in this folder, as ``python -m`` does."""
    here = str(Path.cwd())
    if any(map(is_module, names)) and here not in sys.path:
        sys.path.insert(0, here)


def items_named(items: Sequence[str], order: Order, out: Path) -> list[Item]:
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


def is_made(item: Item) -> bool:
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


def differing(chosen: Sequence[Item]) -> Table:
    """Return what is not as published, each once, with the items it is of."""
    items: dict[Departure, dict[str, None]] = {}
    for item in chosen:
        for departure in departures(item.recipe.described(item.order)):
            items.setdefault(departure, {})[item.asked] = None
    shown = [
        (what, why, "all" if len(of) == len(chosen) else ", ".join(of))
        for (what, why), of in items.items()
    ]
    return table("what differs from the paper", ("what", "why", "in"), shown)


def show(results: Results, asked: str, folder: Path) -> None:
    """Print results that were made, as far as they fit on a screen."""
    shown, same = _table(results)
    console().print(shown)
    if same:
        told = ", ".join(f"{name}: {cell or 'none'}" for name, cell in same)
        console().print(f"in every row above: {told}")
    if any(record.sem is not None for record in results.records):
        console().print("±: standard error of the mean; n: how many it is the mean of")
    if (more := len(results.records) - SCREEN) > 0:
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


def _table(results: Results) -> tuple[Table, list[tuple[str, ...]]]:
    """Return the first rows of a table, and what is the same in all of them."""
    headings, *numbers = rows(results)
    used = [real_data(results.settings, record.dataset) for record in results.records]
    if any(used):
        place = headings.index("dataset") + 1
        for row, data in zip([headings, *numbers], ["data", *used], strict=True):
            row.insert(place, data)
    title = f"{results.name} ({results.size}): {results.title}"
    columns = [*zip(headings, *numbers[:SCREEN], strict=True)][1:]
    kept = [each for each in columns if each[0] == "ours" or len({*each[1:]}) > 1]
    same = [each[:2] for each in columns if each not in kept]
    names, *lines = zip(*kept, strict=True)
    shown = table(title, names, lines, numbers=("paper", "ours", "n"))
    shown.caption = NO_NUMBERS if results.size.startswith("smoke") else None
    return shown, same
