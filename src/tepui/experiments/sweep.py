"""Choosing hyperparameters on data that are held out of the training part.

A search gives some trials every combination of the values in a grid, trains each on
the training data less what is held out, and scores it on what is held out. Test data
are not read, nor anything that was made from them. :mod:`tepui.experiments.varying`
says what can be in a grid.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import chain, product
from math import inf
from statistics import fmean
from typing import Any, Literal, final

from torch.utils.data import Dataset

from tepui.checks import one_of, require
from tepui.data import split
from tepui.experiments.store import Store
from tepui.experiments.trials import (
    Exam,
    Shelf,
    Source,
    Trial,
    digest,
    samples_in,
)
from tepui.experiments.varying import Values, hyperparameters, varied
from tepui.experiments.work import Advance, Work, carry_out

Grid = Mapping[str, Sequence[Any]]


@final
@dataclass(frozen=True)
class Portion(Source):
    """A part of training data: what is kept for training, or what is held out.

    Attributes:
        source: The training data.
        part: Which part.
        share: Share of the samples that is held out.
        seed: Same seed, same samples.
    """

    source: Source
    part: Literal["kept", "held_out"]
    share: float
    seed: int = 0

    def __post_init__(self) -> None:
        require(0 < self.share < 1, "share", "lie in (0, 1)", self.share)
        _require_training_data(self.source)

    def load(self, store: Shelf) -> Dataset[Any]:
        """Return the samples of the part."""
        kept, held_out = split(store.dataset(self.source), self.share, seed=self.seed)
        return kept if self.part == "kept" else held_out


@dataclass(frozen=True)
class Cell:
    """One combination of values.

    Attributes:
        values: A value for each hyperparameter of the grid.
        trials: One ensemble per repetition.
    """

    values: Values
    trials: tuple[Trial, ...]


@dataclass(frozen=True)
class Search:
    """One method on one data set, at every combination of a grid.

    Attributes:
        base: The trial that is varied.
        cells: All combinations, in the order of the grid.
        exam: The samples held out.
    """

    base: Trial
    cells: tuple[Cell, ...]
    exam: Exam

    @property
    def work(self) -> list[Work]:
        """What to train and to score."""
        return [
            Work(trial, (self.exam,)) for cell in self.cells for trial in cell.trials
        ]

    @property
    def label(self) -> str:
        """Data, model and method, with the fields that are not searched."""
        searched = {*self.cells[0].values}
        method = self.base.method
        fixed = ", ".join(
            f"{item.name}={getattr(method, item.name)!r}"
            for item in fields(method)
            if item.name not in searched and getattr(method, item.name) != item.default
        )
        samples = next(samples_in(self.base.data), None)
        data = type(self.base.data) if samples is None else samples.dataset
        words = (_name(data), _name(self.base.model), type(method).__name__)
        return f"{' '.join(words)}({fixed})"


@dataclass(frozen=True)
class Row:
    """How one combination did on the samples held out; one value per repetition.

    Attributes:
        values: The combination.
        accuracy: Of the ensemble.
        nll: Negative log likelihood of the ensemble.
        individual_accuracy: Of its members, on average.
    """

    values: Values
    accuracy: tuple[float, ...]
    nll: tuple[float, ...]
    individual_accuracy: tuple[float, ...]


@dataclass(frozen=True)
class Outcome:
    """What a search found.

    Attributes:
        rows: One per combination.
        chosen: The row with the highest mean accuracy; among equals the one with the
            lowest mean log likelihood loss, then the earlier one.
    """

    rows: tuple[Row, ...]
    chosen: Row


def searches(
    trials: Sequence[Trial], grid: Grid, *, held_out: float = 0.1, ensembles: int = 1
) -> list[Search]:
    """Return the searches over a grid that some trials allow.

    Trials that lack a hyperparameter of the grid are left out. Those that differ only
    in hyperparameters of the grid or in seeds belong to one search.

    Args:
        trials: Of a study.
        grid: Values of hyperparameters, by name.
        held_out: Share of the training data to score on.
        ensembles: At most so many repetitions of each combination.

    Returns:
        One search per data set, model and method.

    Raises:
        ValueError: If a name is no hyperparameter, if no trial has all of them, or if
            a value does not suit its field, its method or the length of the run.

    Example:
        >>> from tepui.data import Digits
        >>> from tepui.experiments.trials import Samples
        >>> from tepui.methods import SAM
        >>> from tepui.models import ConvNet
        >>> trial = Trial(Samples(Digits), ConvNet, SAM(), seeds=(0, 1), epochs=2)
        >>> found, = searches([trial], {"rho": [0.1, 0.2]})
        >>> [dict(cell.values) for cell in found.cells]
        [{'rho': 0.1}, {'rho': 0.2}]
    """
    require(ensembles > 0, "ensembles", "be positive", ensembles)
    _check_names(trials, grid)
    groups: dict[str, list[Trial]] = {}
    for trial in trials:
        if {*grid} <= {*hyperparameters(trial)}:
            if trial.unlabeled is not None:
                _require_training_data(trial.unlabeled)
            common = varied(trial, _first(grid))
            common = replace(common, seeds=(0,) * len(common.seeds))
            groups.setdefault(digest(common), []).append(trial)
    return [_search(group, grid, held_out, ensembles) for group in groups.values()]


def search(found: Search, store: Store) -> Outcome:
    """Return how every combination did, and which is the best.

    Args:
        found: The search; what the store lacks of it is made.
        store: Trained ensembles.

    Returns:
        A row per combination and the chosen one.
    """
    rows = tuple(_row(cell, found.exam, store) for cell in found.cells)
    best = max(rows, key=lambda row: (fmean(row.accuracy), -fmean(row.nll)))
    return Outcome(rows, best)


def sweep(
    planned: Sequence[Search],
    store: Store,
    *,
    workers: int = 1,
    advance: Advance = lambda steps: None,
) -> list[Outcome]:
    """Carry out searches, several trials at a time.

    Args:
        planned: The searches.
        store: Where trained ensembles are; what it has is not trained again.
        workers: Trials at a time.
        advance: Told how many steps were done.

    Returns:
        One outcome per search.
    """
    work = chain.from_iterable(each.work for each in planned)
    carry_out(work, store, workers=workers, advance=advance)
    return [search(each, store) for each in planned]


def _search(
    group: Sequence[Trial], grid: Grid, held_out: float, ensembles: int
) -> Search:
    by_seeds = {varied(trial, _first(grid)).seeds: trial for trial in reversed(group)}
    chosen = [*reversed(by_seeds.values())][:ensembles]
    base = chosen[0]
    cells = []
    for combination in product(*grid.values()):
        values = dict(zip(grid, combination, strict=True))
        kept = Portion(base.data, "kept", held_out)
        own = (replace(varied(trial, values), data=kept) for trial in chosen)
        cells.append(Cell(values, tuple(own)))
    return Search(base, tuple(cells), Exam(Portion(base.data, "held_out", held_out)))


def _first(grid: Grid) -> Values:
    return {name: values[0] for name, values in grid.items()}


def _row(cell: Cell, exam: Exam, store: Store) -> Row:
    scores = [store.evaluation(trial, exam)["clean"] for trial in cell.trials]
    losses = [score["nll"] for score in scores]
    return Row(
        cell.values,
        tuple(score["accuracy"] for score in scores),
        tuple(inf if loss is None else loss for loss in losses),
        tuple(score["individual_accuracy"] for score in scores),
    )


def _check_names(trials: Sequence[Trial], grid: Grid) -> None:
    require(len(grid) > 0, "grid", "name at least one hyperparameter", dict(grid))
    known = [(type(trial.method).__name__, hyperparameters(trial)) for trial in trials]
    names = dict.fromkeys(name for _, places in known for name in sorted(places))
    for name, values in grid.items():
        one_of("grid", name, names)
        require(len(values) > 0, f"grid {name}", "list at least one value", values)
        different = len({repr(value) for value in values}) == len(values)
        require(different, f"grid {name}", "list each value once", list(values))
    owners = {
        name: sorted({method for method, places in known if name in places})
        for name in grid
    }
    together = any(set(grid) <= {*places} for _, places in known)
    require(together, "grid", "name hyperparameters of one method", owners)


def _require_training_data(source: Source) -> None:
    for samples in samples_in(source):
        rule = "be made from training data to choose on"
        require(samples.part != "test", "data", rule, samples)


def _name(made_by: Callable[..., Any]) -> str:
    inner = made_by.func if isinstance(made_by, partial) else made_by
    return str(getattr(inner, "__name__", type(inner).__name__))
