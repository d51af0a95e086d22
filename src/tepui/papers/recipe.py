"""What a recipe is: a figure or table of a paper, as numbers and what they rest on.

A file ``papers/<paper>/<figure or table>.py`` holds one, named ``RECIPE``; a file about
several has them in ``RECIPES``, by their names. On the command line a recipe is
``<paper>/<figure or table>``, with the letter of a panel after it if it has panels. A
recipe of one's own is named by the dotted path of its module, or by the name of a file
in the current folder.
"""

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from string import ascii_lowercase, digits
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from tepui.core.checks import one_of, require
from tepui.core.spec import document
from tepui.studies import Job, Record, Results, Store
from tepui.studies.jobs import merged
from tepui.studies.real_data import TRAINED_ON

if TYPE_CHECKING:
    from matplotlib.figure import Figure


T = TypeVar("T")
Size = Literal["paper", "medium", "small", "smoke"]
# Why a size does less than its paper.
REASONS: Mapping[Size, str] = {
    "paper": "as published",
    "medium": "medium size is for an hour of one GPU",
    "small": "small size is for two processors, in minutes",
    "smoke": "smoke size only shows that the code runs",
}
BY_COMMAND = "the command says so"
DIFFERS = "differs"  # of settings: sentences on what is not as published
PAPERS = {
    "sharpbalance": "Sharpness-diversity tradeoff: improving flat ensembles with "
    "SharpBalance (NeurIPS 2024)",
    "sed": "Scalable ensemble diversification for OOD generalization and detection",
    "rethinking": "Understanding deep learning requires rethinking sharpness",
}


class Order(NamedTuple):
    """What is asked of a recipe; None leaves a length or number as the size has it.

    Attributes:
        size: ``"paper"``, ``"medium"``, ``"small"`` or ``"smoke"``.
        panels: Letters of the panels; empty where a recipe has none.
        epochs: Length of each run.
        ensembles: Repetitions of each method.
        members: Of each ensemble.
        rho: Radius of the sharpness-aware methods.
        methods: Names of the methods to train.
    """

    size: Size
    panels: tuple[str, ...] = ()
    epochs: int | None = None
    ensembles: int | None = None
    members: int | None = None
    rho: float | None = None
    methods: tuple[str, ...] | None = None

    @property
    def overrides(self) -> dict[str, Any]:
        """What is not as the size has it."""
        asked = zip(OVERRIDES, self[2:], strict=True)
        return {name: value for name, value in asked if value is not None}

    @property
    def label(self) -> str:
        """The size with its overrides: what results are filed under.

        Example:
            >>> Order("paper", epochs=80, methods=("sam", "eoa")).label
            'paper+epochs=80+methods=sam,eoa'
        """
        shown = {**self.overrides}
        if self.methods is not None:
            shown["methods"] = ",".join(self.methods)
        return "+".join([self.size, *(f"{n}={value}" for n, value in shown.items())])

    @property
    def lengths(self) -> dict[str, Any]:
        """The overrides that are numbers."""
        return {n: value for n, value in self.overrides.items() if n != "methods"}

    def choose(self, usual: Mapping[str, T]) -> dict[str, T]:
        """Return the methods to train: all of them, or those that are named.

        Args:
            usual: Methods by name.

        Returns:
            The chosen methods, by name.

        Raises:
            ValueError: If a name is unknown.
        """
        if self.methods is None:
            return {**usual}
        for name in self.methods:
            one_of("methods", name, usual)
        return {name: usual[name] for name in self.methods}


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
        settings: Returns data, model and training in words and numbers, with sentences
            on what differs from the paper under ``"differs"``.
        draw: Returns the picture of results; None for a table.
        panels: Letters of its panels.
        overrides: Which lengths and numbers of an order it takes.
        sizes: Those it can be made at.
        without: Letters of panels that a size does not have.
    """

    title: str
    numbers: Callable[[Order], Iterable[Numbers]]
    settings: Callable[[Order], Mapping[str, Any]]
    draw: "Callable[[Results], Figure] | None" = None
    panels: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    sizes: tuple[Size, ...] = ("paper", "small", "smoke")
    without: Mapping[Size, tuple[str, ...]] = field(default_factory=dict)

    def panels_at(self, size: Size, asked: Iterable[str]) -> tuple[str, ...]:
        """Return those panels of some that a size has.

        Args:
            size: The size.
            asked: Letters of panels; none for a recipe that has none.

        Returns:
            Their letters.

        Raises:
            ValueError: If the recipe has no such size, or the size none of the panels.
        """
        one_of("size", size, self.sizes)
        asked, missing = tuple(asked), self.without.get(size, ())
        kept = tuple(letter for letter in asked if letter not in missing)
        rule = f"be among those that {size} size has"
        require(bool(kept) or not asked, "panels", rule, ", ".join(asked))
        return kept

    def plan(self, order: Order) -> list[Job]:
        """Return what to train, evaluate and measure, each once.

        Args:
            order: The size, the panels and what to override.

        Returns:
            One job per trial.

        Raises:
            ValueError: If the recipe does not take an override, or has no such size.
        """
        one_of("size", order.size, self.sizes)
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
        found = {"panels": list(order.panels), **self.settings(order)}
        if order.overrides:
            found["overrides"] = order.overrides
        said = *found.get(DIFFERS, ()), *self._differences(order)
        return {**found, DIFFERS: [*dict.fromkeys(said)]}

    def _differences(self, order: Order) -> Iterator[str]:
        """Yield what settings have for the paper's, those of a data set together."""
        plain = Order(order.size, order.panels)
        size: Size = "paper" if "paper" in self.sizes else order.size
        paper = self.settings(plain._replace(size=size))
        by_size = dict(_changes(self.settings(plain), paper))
        told: dict[tuple[tuple[str, ...], str], list[str]] = {}
        for path, words in _changes(self.settings(order), paper):
            usual = by_size.get(path) == words
            why = REASONS[order.size] if usual else BY_COMMAND
            told.setdefault((path[:-1], why), []).append(words)
        if order.methods is not None:
            told[("methods",), BY_COMMAND] = [*order.methods]
        for (place, why), several in told.items():
            what = f"{' '.join(place)}: " if place else ""
            yield f"{what}{', '.join(several)} ({why})"


@dataclass(frozen=True)
class Diagram:
    """A figure that explains and has no numbers.

    Attributes:
        title: What it explains.
    """

    title: str


def installed(copies: Callable[..., T] | None) -> Callable[..., T] | None:
    """Return the class of the released corrupted copies, if they are here."""
    origin = getattr(copies, "origin", None)
    return None if origin is None or origin.find() is None else copies


def made_copies(copies: Callable[..., Any] | None, of: str = "") -> str:
    """Return that corrupted copies are made here, and why none were taken."""
    why = "nobody released copies of what stands in"
    if copies is not None:
        why = f"{copies.__name__} is not installed"
    return f"corrupted copies {of}are made by tepui ({why})"


def made_by(model: Callable[..., Any]) -> str:
    """Return the name of what a ``functools.partial`` calls."""
    return str(getattr(model, "func", model).__name__)


def described(study: Any) -> dict[str, Any]:
    """Return the fields of a study that trains on one data set, as settings."""
    fields = study._asdict()
    trained_on = made_by(fields.pop("dataset"))
    del fields["released_copies"]
    named = {
        name.replace("_", " "): "all" if value is None else document(value)
        for name, value in fields.items()
    }
    return {TRAINED_ON: trained_on, **named}


def differing(docstring: str | None) -> list[str]:
    r"""Return the points below "Differs from the paper:" in a docstring.

    Example:
        >>> differing("Figure 1.\n\nDiffers from the paper:\n\n- one\n  seed\n- two\n")
        ['one seed', 'two']
    """
    section = (docstring or "").partition("Differs from the paper:")[2].strip()
    points = section.partition("\n\n")[0].removeprefix("- ").split("\n- ")
    return [" ".join(point.split()) for point in points if point]


def names() -> list[str]:
    """Return the names of all recipes."""
    return [*_recipes()]


@cache
def _recipes() -> dict[str, "Recipe | Diagram"]:
    """Return all recipes of the papers, in the order of their numbers."""
    found: dict[str, Recipe | Diagram] = {}
    for paper in PAPERS:
        package = importlib.import_module(f"tepui.papers.{paper}")
        items: dict[str, Recipe | Diagram] = {}
        for name in (module.name for module in pkgutil.iter_modules(package.__path__)):
            module = importlib.import_module(f"tepui.papers.{paper}.{name}")
            items |= getattr(module, "RECIPES", {})
            if recipe := getattr(module, "RECIPE", None):
                items[name] = recipe
        found |= {f"{paper}/{n}": items[n] for n in sorted(items, key=_numbered)}
    return found


def look_up(name: str) -> tuple[str, Recipe | Diagram, tuple[str, ...]]:
    """Find a recipe by its name, or by the path of its module.

    Args:
        name: Such as ``sharpbalance/figure7``, ``sharpbalance/figure7a`` for one panel,
            or ``mypackage.figure1``.

    Returns:
        The name without a panel, the recipe, and the letters of the panels meant.

    Raises:
        ValueError: If there is no such recipe, or the panel has no numbers.
    """
    listed = names()
    if name in listed or is_module(name):
        recipe = load(name)
        return name, recipe, recipe.panels if isinstance(recipe, Recipe) else ()
    item = name.rstrip(ascii_lowercase)
    whole = load(item) if item in listed else None
    panels = whole.panels if isinstance(whole, Recipe) else ()
    if whole is not None and (letter := name.removeprefix(item)) in panels:
        return item, whole, (letter,)
    near = [f"{item}{panel}" for panel in panels] or get_close_matches(name, listed)
    way = f"near: {', '.join(near)}" if near else "see tepui reproduce --list"
    raise ValueError(f"item must name a figure or table, got {name!r}; {way}")


def load(name: str) -> Recipe | Diagram:
    """Return the recipe of a known name, or of a module by its path."""
    if name in _recipes():
        return _recipes()[name]
    try:
        recipe = getattr(importlib.import_module(name), "RECIPE", None)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module is there; something that it imports is not
        raise ValueError(
            f"item must name a module with a recipe, got {name!r} ({error})"
        ) from error
    if not isinstance(recipe, Recipe | Diagram):
        raise ValueError(f"{name} must hold a Recipe named RECIPE, got {recipe!r}")
    return recipe


def is_module(name: str) -> bool:
    """Return whether a name means a module: a dotted path, or a file that is here."""
    if not all(part.isidentifier() for part in name.split(".")):
        return False
    return "." in name or Path(f"{name}.py").is_file()


def _numbered(name: str) -> tuple[str, int]:
    """Return the kind and the number of a figure or table."""
    kind = name.rstrip(digits)
    return kind, int(name.removeprefix(kind))


def _changes(
    given: Mapping[str, Any], paper: Mapping[str, Any]
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the way to each setting that is not the paper's, and both in words."""
    for name, value in given.items():
        other = paper.get(name)
        if isinstance(value, Mapping) and isinstance(other, Mapping):
            inside = _changes(value, other)
            yield from (((name, *path), words) for path, words in inside)
        elif name != DIFFERS and name in paper and value != other:
            yield (name,), _instead(name, value, other)


def _instead(name: str, here: Any, there: Any) -> str:
    """Return a setting beside the paper's; of several, such as seeds, how many.

    Example:
        >>> _instead("epochs", 30, 200), _instead("radii", [0.1], [0.1, 0.2])
        ('epochs 30 for 200', 'radii 1 for 2')
    """
    shown = [len(each) if isinstance(each, list) else each for each in (here, there)]
    return (
        f"other {name}" if shown[0] == shown[1] else f"{name} {shown[0]} for {shown[1]}"
    )
