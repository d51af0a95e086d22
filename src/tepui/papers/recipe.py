"""What a recipe is: a figure or table of a paper, as numbers and what they rest on.

Every file ``papers/<paper>/<figure or table>.py`` holds one, named ``RECIPE``; its
name on the command line is ``<paper>/<figure or table>``, with the letter of a panel
after it where there are panels. A recipe of one's own is named by the dotted path of
its module.
"""

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from tepui.core.checks import one_of, require
from tepui.studies import Job, Record, Results, Store
from tepui.studies.jobs import merged

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T = TypeVar("T")
Size = Literal["paper", "small", "smoke"]
PAPERS = {
    "sharpbalance": "Sharpness-diversity tradeoff: improving flat ensembles with "
    "SharpBalance (NeurIPS 2024)",
    "sed": "Scalable ensemble diversification for OOD generalization and detection",
    "rethinking": "Understanding deep learning requires rethinking sharpness",
    "ours": "Studies of our own",
}


class Order(NamedTuple):
    """What is asked of a recipe; None leaves a length or number as the size has it.

    Attributes:
        size: ``"paper"``, ``"small"`` or ``"smoke"``.
        panels: Letters of the panels; empty where a recipe has none.
        epochs: Length of each run.
        ensembles: Repetitions of each method.
        members: Of each ensemble.
        methods: Names of the methods to train.
    """

    size: Size
    panels: tuple[str, ...] = ()
    epochs: int | None = None
    ensembles: int | None = None
    members: int | None = None
    methods: tuple[str, ...] | None = None

    @property
    def overrides(self) -> dict[str, Any]:
        """What is not as the size has it."""
        given = {name: getattr(self, name) for name in OVERRIDES}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def label(self) -> str:
        """The size with its overrides: what results are filed under.

        Example:
            >>> Order("paper", epochs=80, methods=("sam", "eoa")).label
            'paper+epochs=80+methods=sam,eoa'
        """
        return "+".join([self.size, *self.words])

    @property
    def words(self) -> list[str]:
        """The overrides as they are written, such as ``epochs=80``."""
        shown = {**self.overrides}
        if self.methods is not None:
            shown["methods"] = ",".join(self.methods)
        return [f"{name}={value}" for name, value in shown.items()]

    @property
    def lengths(self) -> dict[str, Any]:
        """The overrides that are numbers."""
        return {n: value for n, value in self.overrides.items() if n != "methods"}

    def choose(
        self, usual: Mapping[str, T], optional: Mapping[str, T] | None = None
    ) -> dict[str, T]:
        """Return the methods to train: all usual ones, or those that are named.

        Args:
            usual: Methods by name.
            optional: Further methods, trained only where they are named.

        Returns:
            The chosen methods, by name.

        Raises:
            ValueError: If a name is unknown.
        """
        if self.methods is None:
            return {**usual}
        every = {**usual, **(optional or {})}
        for name in self.methods:
            one_of("methods", name, every)
        return {name: every[name] for name in self.methods}


OVERRIDES = Order._fields[2:]


class Numbers(NamedTuple):
    """Some numbers of a figure or table.

    Attributes:
        jobs: What must be trained, tested and measured first.
        records: Returns the numbers, from a store that has all of it.
    """

    jobs: Sequence[Job]
    records: Callable[[Store], Iterable[Record]]


@dataclass(frozen=True)
class Recipe:
    """A figure or table.

    Attributes:
        title: What it shows.
        numbers: Returns its numbers, each with what it rests on.
        settings: Returns data, model and training in words and numbers, with what
            differs from the paper under ``"differs"``.
        draw: Returns the picture of results; None for a table.
        panels: Letters of its panels.
        diagrams: Letters of panels that explain and have no numbers.
        overrides: Which lengths and numbers of an order it takes.
    """

    title: str
    numbers: Callable[[Order], Iterable[Numbers]]
    settings: Callable[[Order], Mapping[str, Any]]
    draw: "Callable[[Results], Figure] | None" = None
    panels: tuple[str, ...] = ()
    diagrams: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()

    def plan(self, order: Order) -> list[Job]:
        """Return what to train, evaluate and measure, each once.

        Args:
            order: The size, the panels and what to override.

        Returns:
            One job per trial.

        Raises:
            ValueError: If the recipe does not take an override.
        """
        for name, value in order.overrides.items():
            require(
                name in self.overrides,
                name,
                "be left out, since this item does not support it",
                value,
            )
            some = len(value) if name == "methods" else value
            require(some > 0, name, "be positive, or name at least one", value)
        return merged(job for part in self.numbers(order) for job in part.jobs)

    def records(self, store: Store, order: Order) -> Iterator[Record]:
        """Yield the numbers, from a store that has everything in the plan.

        Args:
            store: Where trained ensembles are.
            order: The size, the panels and what to override.

        Yields:
            One record per number.
        """
        for part in self.numbers(order):
            yield from part.records(store)

    def described(self, order: Order) -> dict[str, Any]:
        """Return the settings that results record.

        Args:
            order: The size, the panels and what to override.

        Returns:
            The settings, with overrides and what differs from the paper.
        """
        document = {"panels": list(order.panels), **self.settings(order)}
        if order.overrides:
            overridden = f"overridden: {', '.join(order.words)}"
            differs = [document.get("differs", ""), overridden]
            document["differs"] = "; ".join(filter(None, differs))
            document["overrides"] = order.overrides
        return document


@dataclass(frozen=True)
class Diagram:
    """A figure that explains and has no numbers."""

    title: str


def names() -> list[str]:
    """Return the names of all recipes, paper by paper."""
    items_by_paper = []
    for paper in PAPERS:
        package = importlib.import_module(f"tepui.papers.{paper}")
        modules = [module.name for module in pkgutil.iter_modules(package.__path__)]
        items = [n for n in modules if paper == "ours" or _numbered(n) is not None]
        items_by_paper += [
            f"{paper}/{n}" for n in sorted(items, key=lambda n: _numbered(n) or ())
        ]
    return items_by_paper


def look_up(name: str) -> tuple[str, Recipe | Diagram, tuple[str, ...]]:
    """Find a recipe by its name, or by the path of its module."""
    listed = names()
    if name in listed or _is_path(name):
        recipe = load(name)
        return name, recipe, recipe.panels if isinstance(recipe, Recipe) else ()
    item, letters = _split(name)
    if item in listed and isinstance(recipe := load(item), Recipe):
        if letters in recipe.panels:
            return item, recipe, (letters,)
        if letters in recipe.diagrams:
            raise ValueError(
                f"{name} has no numbers to make: it is a diagram; the panels with "
                f"numbers: {', '.join(_panels(item))}"
            )
    raise ValueError(
        f"item must name a figure or table, got {name!r}; "
        f"near: {', '.join(_near(name, listed))}"
    )


def load(name: str) -> Recipe | Diagram:
    """Return the recipe of a known name, or of a module by its path."""
    path = name if _is_path(name) else f"tepui.papers.{name.replace('/', '.')}"
    recipe = getattr(importlib.import_module(path), "RECIPE", None)
    if not isinstance(recipe, Recipe | Diagram):
        raise ValueError(f"{path} must hold a Recipe named RECIPE, got {recipe!r}")
    return recipe


def _is_path(name: str) -> bool:
    """Return whether a name is the dotted path of a module."""
    return "." in name and all(part.isidentifier() for part in name.split("."))


def _near(name: str, listed: Sequence[str]) -> list[str]:
    """Return the names meant by one that is not known; else like ones; else all."""
    whole = name.lower()
    item, letters = _split(whole)
    same = [other for other in listed if whole in _spellings(other)]
    if letters:
        of_item = [other for other in listed if item in _spellings(other)]
        same += [panel for other in of_item for panel in _panels(other)]
    return same or get_close_matches(whole, listed, n=5, cutoff=0.5) or [*listed]


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


def _numbered(name: str) -> tuple[str, int] | None:
    """Return the kind and the number of a figure or table; None for other modules."""
    match = re.fullmatch(r"(figure|table)(\d+)", name)
    return None if match is None else (match[1], int(match[2]))
