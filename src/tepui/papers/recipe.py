"""What a recipe is: a figure or table of a paper, as a plan and what follows from it.

Every file ``recipes/<paper>/<figure or table>.py`` holds one, named ``RECIPE``; its
name on the command line is ``<paper>/<figure or table>``, with the letter of a panel
after it where there are panels.
"""

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tepui.studies.jobs import Job
from tepui.studies.results import Record, Results
from tepui.studies.store import Store

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Size = Literal["paper", "small", "smoke"]
PAPERS = {
    "sharpbalance": "Sharpness-diversity tradeoff: improving flat ensembles with "
    "SharpBalance (NeurIPS 2024)",
    "sed": "Scalable ensemble diversification for OOD generalization and detection",
    "rethinking": "Understanding deep learning requires rethinking sharpness",
}


class Order(NamedTuple):
    """What is asked of a recipe.

    Attributes:
        size: ``"paper"``, ``"small"`` or ``"smoke"``.
        panels: Letters of the panels; empty where a recipe has none.
    """

    size: Size
    panels: tuple[str, ...]


@dataclass(frozen=True)
class Recipe:
    """A figure or table.

    Attributes:
        title: What it shows.
        plan: Returns what to train, test and measure.
        records: Returns the numbers, from a store that has all of the plan.
        settings: Returns data, model and training in words and numbers, with what
            differs from the paper under ``"differs"``.
        draw: Returns the picture of results; None for a table.
        panels: Letters of its panels.
        diagrams: Letters of panels that explain and have no numbers.
    """

    title: str
    plan: Callable[[Order], Sequence[Job]]
    records: Callable[[Store, Order], Iterable[Record]]
    settings: Callable[[Order], Mapping[str, Any]]
    draw: "Callable[[Results], Figure] | None" = None
    panels: tuple[str, ...] = ()
    diagrams: tuple[str, ...] = ()


@dataclass(frozen=True)
class Diagram:
    """A figure that explains and has no numbers.

    Attributes:
        title: What it explains.
    """

    title: str


def names() -> list[str]:
    """Return the names of all recipes, paper by paper."""
    found = []
    for paper in PAPERS:
        package = importlib.import_module(f"tepui.papers.{paper}")
        modules = [module.name for module in pkgutil.iter_modules(package.__path__)]
        items = [name for name in modules if re.fullmatch(r"(figure|table)\w+", name)]
        found += [f"{paper}/{name}" for name in sorted(items, key=_numbered)]
    return found


def look_up(name: str) -> tuple[str, Recipe | Diagram, tuple[str, ...]]:
    """Find a recipe by its name."""
    known = names()
    if name in known:
        recipe = load(name)
        return name, recipe, recipe.panels if isinstance(recipe, Recipe) else ()
    item, letters = _split(name)
    if item in known and isinstance(recipe := load(item), Recipe):
        if letters in recipe.panels:
            return item, recipe, (letters,)
        if letters in recipe.diagrams:
            raise ValueError(
                f"{name} has no numbers to make: it is a diagram; the panels with "
                f"numbers: {', '.join(_panels(item))}"
            )
    raise ValueError(
        f"item must name a figure or table, got {name!r}; "
        f"near: {', '.join(_near(name, known))}"
    )


def load(name: str) -> Recipe | Diagram:
    """Return the recipe of a known name."""
    module = importlib.import_module(f"tepui.papers.{name.replace('/', '.')}")
    recipe: Recipe | Diagram = module.RECIPE
    return recipe


def _near(name: str, known: Sequence[str]) -> list[str]:
    """Return the names meant by one that is not known; else like ones; else all."""
    whole = name.lower()
    item, letters = _split(whole)
    same = [each for each in known if whole in _spellings(each)]
    if letters:
        of_item = [each for each in known if item in _spellings(each)]
        same += [panel for each in of_item for panel in _panels(each)]
    return same or get_close_matches(whole, known, n=5, cutoff=0.5) or [*known]


def _spellings(name: str) -> tuple[str, str]:
    """Return a name with and without its paper."""
    return name, name.partition("/")[2]


def _split(name: str) -> tuple[str, str]:
    """Return a name without its last letters, and these."""
    item = name.rstrip(ascii_lowercase)
    return item, name[len(item) :]


def _panels(name: str) -> list[str]:
    """Return the names of an item's panels; its own where it has none."""
    recipe = load(name)
    panels = recipe.panels if isinstance(recipe, Recipe) else ()
    return [f"{name}{panel}" for panel in panels] or [name]


def _numbered(name: str) -> tuple[str, int, str]:
    kind, number, panel = re.fullmatch(r"([a-z]+)(\d+)(\w*)", name).groups()  # type: ignore[union-attr]
    return kind, int(number), panel
