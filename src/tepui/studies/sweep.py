"""Choosing hyperparameters on data that are held out of the training part.

A search gives some trials every combination of the values in a grid, trains each on
the training data less what is held out, and scores it on what is held out. Test data
are not read, nor anything that was made from them. :mod:`tepui.studies.override`
says what can be in a grid.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, product
from typing import Any, Literal, final, get_args

from torch.utils.data import Dataset

from tepui.core.checks import one_of, require
from tepui.data import split
from tepui.losses import Loss
from tepui.studies.describe import describe, labels
from tepui.studies.executors import RETRIES, Executor
from tepui.studies.job import Advance, Job
from tepui.studies.jobs import IN_PROCESSES, carry_out
from tepui.studies.override import Values, hyperparameters, override
from tepui.studies.specifications import (
    DataSource,
    DataStore,
    EvaluationSpec,
    Samples,
    Trial,
    samples_in,
)
from tepui.studies.store import Store
from tepui.tasks import task_of
from tepui.tasks.base import Leading
from tepui.training import TrainingDiverged

Scores = Mapping[str, Sequence[float | None]]
"""For each score one value per repetition; None where it is infinite."""


def criterion_of(loss: Loss) -> Leading:
    """Return what decides between ensembles that minimize a loss.

    Example:
        >>> from tepui.losses import CrossEntropy
        >>> print(criterion_of(CrossEntropy()))
        highest mean accuracy on the held-out samples, then lowest nll
    """
    task = task_of(loss)
    rule = "say what outputs mean, for their scores (see tepui.losses)"
    require(task.leading is not None, "loss", rule, f"one of the task {task}")
    assert task.leading is not None
    return task.leading


Grid = Mapping[str, Sequence[Any]]
HoldOutPart = Literal["kept", "held_out"]
_TRAINING = "be made from training data to choose on"


@final
@dataclass(frozen=True)
class HoldOut(DataSource):
    """A part of training data: what is kept for training, or what is held out."""

    source: DataSource
    part: HoldOutPart
    share: float  # share of the samples that is held out
    seed: int = 0  # same seed, same samples

    def __post_init__(self) -> None:
        require(0 < self.share < 1, "share", "lie in (0, 1)", self.share)
        require(not (test := _test_data(self.source)), "data", _TRAINING, test)

    def load(self, store: DataStore) -> Dataset[Any]:
        """Return the samples of the part."""
        kept, held_out = split(store.dataset(self.source), self.share, seed=self.seed)
        return kept if self.part == "kept" else held_out


@dataclass(frozen=True)
class Combination:
    """One combination of values."""

    values: Values  # A value for each hyperparameter of the grid
    # one ensemble per repetition, with the samples held out as its test
    work: tuple[Job, ...]

    @property
    def trials(self) -> tuple[Trial, ...]:
        """The ensembles."""
        return tuple(job.trial for job in self.work)


@dataclass(frozen=True)
class Search:
    """One method on one data set, at every combination of a grid.

    Attributes:
        base: The trial that is varied.
        combinations: All of them, in the order of the grid.
        label: Data, model and method, with the fields that are not searched and with
            whatever else tells it from the other searches.
    """

    base: Trial
    combinations: tuple[Combination, ...]
    label: str

    @property
    def criterion(self) -> Leading:
        """By which scores it chooses, which follow from the loss."""
        return criterion_of(self.base.training.loss)

    @property
    def work(self) -> list[Job]:
        """What to train and to score."""
        return [work for combination in self.combinations for work in combination.work]


@dataclass(frozen=True)
class Row:
    """How one combination did on the samples held out; one value per repetition."""

    values: Values
    scores: Scores = field(default_factory=dict)

    @property
    def diverged(self) -> bool:
        """Whether the training of an ensemble diverged; there are no scores then."""
        return not self.scores


@dataclass(frozen=True)
class Outcome:
    """What a search found.

    Attributes:
        rows: How each combination did on the samples held out.
        chosen: The best row by the search's criterion; of classes the one with the
            highest mean accuracy, among equals the one with the lowest mean negative
            log likelihood, then the earlier one; None if all diverged.
    """

    rows: tuple[Row, ...]
    chosen: Row | None


def searches(
    trials: Sequence[Trial], grid: Grid, *, held_out: float = 0.1, ensembles: int = 1
) -> list[Search]:
    """Return the searches over a grid that some trials allow.

    Left out are trials that lack a hyperparameter of the grid, that see test data
    without labels (:func:`peeking`), or that only add members to another one. Those
    that differ only in hyperparameters of the grid or in seeds belong to one search, in
    which no two ensembles share a seed.

    Args:
        trials: What may be varied.
        grid: For each hyperparameter its values.
        held_out: Share of the training data to score on.
        ensembles: Repetitions of each combination, at most as many as there are trials
            that differ in their seeds.

    Returns:
        One search per method, data set and whatever else the trials differ in.

    Raises:
        ValueError: If no trial has all hyperparameters of the grid, if all that have
            them see test data, or if a loss does not say what outputs mean.

    Example:
        >>> from tepui.data import Digits
        >>> from tepui.studies import Samples, Trial
        >>> from tepui.methods import SAM
        >>> from tepui.training import TrainingSpec
        >>> from tepui.models import ConvNet
        >>> how = TrainingSpec(method=SAM(), epochs=2)
        >>> trial = Trial(Samples(Digits), ConvNet, how, seeds=(0, 1))
        >>> search, = searches([trial], {"rho": [0.1, 0.2]})
        >>> tuple(dict(chosen.values)["rho"] for chosen in search.combinations)
        (0.1, 0.2)
    """
    require(ensembles > 0, "ensembles", "be positive", ensembles)
    _check_names(trials, grid)
    first = {name: values[0] for name, values in grid.items()}
    groups: dict[tuple[tuple[str, str], ...], list[Trial]] = {}
    for trial in _candidates(trials, grid):
        if not _peeks(trial):
            words = describe(override(trial, first), hidden=grid)
            groups.setdefault(tuple(sorted(words.items())), []).append(trial)
    methods = ", ".join(peeking(trials, grid))
    require(len(groups) > 0, f"unlabeled data of {methods}", _TRAINING, "test data")
    names = labels([dict(words) for words in groups])
    return [
        _search(group, grid, held_out, ensembles, name)
        for name, group in zip(names, groups.values(), strict=True)
    ]


def peeking(trials: Sequence[Trial], grid: Grid) -> list[str]:
    """Return the methods that are not searched since they see test data unlabeled."""
    candidates = filter(_peeks, _candidates(trials, grid))
    return [
        *dict.fromkeys(type(trial.training.method).__name__ for trial in candidates)
    ]


def search(planned: Search, store: Store, diverged: Container[str] = ()) -> Outcome:
    """Return how every combination did, and which is the best."""
    criterion = planned.criterion
    rows = tuple(
        _row(combination, criterion.shown, store, diverged)
        for combination in planned.combinations
    )
    sound = [row for row in rows if not row.diverged]
    best = max(sound, key=lambda row: criterion.merit(row.scores), default=None)
    return Outcome(rows, best)


def sweep(
    planned: Sequence[Search],
    store: Store,
    *,
    workers: int | None = 1,
    retries: int = RETRIES,
    executor: Executor = IN_PROCESSES,
    advance: Advance = lambda steps: None,
) -> list[Outcome]:
    """Carry out searches, several trials at a time.

    A combination at which training diverges is not chosen; the others go on.

    Args:
        planned: The searches.
        store: Where trained ensembles are; what it has is not trained again.
        workers: Trials at a time; None for as many as the executor has room for.
        retries: How often a trial is taken up again after its worker died.
        executor: Who carries them out.
        advance: Told how many steps were done.

    Returns:
        One outcome per search.

    Raises:
        TrainingDiverged: If nothing could be trained.
    """
    diverged = carry_out(
        chain.from_iterable(search_of_one.work for search_of_one in planned),
        store,
        workers=workers,
        retries=retries,
        executor=executor,
        advance=advance,
        tolerated=(TrainingDiverged,),
    )
    outcomes = [search(outcome, store, diverged) for outcome in planned]
    if diverged and all(outcome.chosen is None for outcome in outcomes):
        reason = next(iter(diverged.values()))
        raise TrainingDiverged(f"training diverged at all values of the grid: {reason}")
    return outcomes


def _candidates(trials: Sequence[Trial], grid: Grid) -> list[Trial]:
    return [
        trial
        for trial in trials
        if {*grid} <= {*hyperparameters(trial)}
        and not any(_goes_on(trial, other) for other in trials)
    ]


def _peeks(trial: Trial) -> bool:
    return trial.unlabeled is not None and bool(_test_data(trial.unlabeled))


def _goes_on(trial: Trial, other: Trial) -> bool:
    """Return whether a trial only adds members to another one."""
    return (
        trial.seeds[0] == other.seeds[-1] + 1
        and len(trial.seeds) != len(other.seeds)  # otherwise it is a repetition
        and trial.digest == replace(other, seeds=trial.seeds).digest
    )


def _search(
    group: Sequence[Trial], grid: Grid, held_out: float, ensembles: int, label: str
) -> Search:
    combinations = [
        dict(zip(grid, values, strict=True)) for values in product(*grid.values())
    ]
    chosen = _repetitions(group, combinations)[:ensembles]
    tried = tuple(
        Combination(
            values, tuple(_without(trial, values, held_out) for trial in chosen)
        )
        for values in combinations
    )
    different = len({combination.trials[0].digest for combination in tried}) == len(
        tried
    )
    require(different, "grid", "list each value once", dict(grid))
    criterion_of(chosen[0].training.loss)
    return Search(chosen[0], tried, label)


def _repetitions(group: Sequence[Trial], combinations: Sequence[Values]) -> list[Trial]:
    """Return trials of which no two share a seed, whatever the number of members."""
    repetitions: list[Trial] = []
    taken: set[int] = set()
    for trial in group:
        seeds = {
            seed for values in combinations for seed in override(trial, values).seeds
        }
        if taken.isdisjoint(seeds):
            repetitions.append(trial)
            taken |= seeds
    return repetitions


def _without(trial: Trial, values: Values, held_out: float) -> Job:
    """Return a trial with other values that is tested on what it does not learn."""
    kept, test = (HoldOut(trial.data, part, held_out) for part in get_args(HoldOutPart))
    return Job(replace(override(trial, values), data=kept), (EvaluationSpec(test),))


def _row(
    tried: Combination, shown: Sequence[str], store: Store, diverged: Container[str]
) -> Row:
    if any(trial.digest in diverged for trial in tried.trials):
        return Row(tried.values)
    found = [
        store.evaluation(job.trial, spec)["clean"]
        for job in tried.work
        for spec in job.evaluations
    ]
    scores = {name: tuple(clean[name] for clean in found) for name in shown}
    return Row(tried.values, scores)


def _check_names(trials: Sequence[Trial], grid: Grid) -> None:
    require(len(grid) > 0, "grid", "name at least one hyperparameter", dict(grid))
    searchable = [
        (type(trial.training.method).__name__, hyperparameters(trial))
        for trial in trials
    ]
    names = dict.fromkeys(name for _, places in searchable for name in sorted(places))
    for name, values in grid.items():
        one_of("grid", name, names)
        require(len(values) > 0, f"grid {name}", "list at least one value", values)
    owners = {
        name: sorted({method for method, places in searchable if name in places})
        for name in grid
    }
    together = any(set(grid) <= {*places} for _, places in searchable)
    require(together, "grid", "name hyperparameters of one method", owners)


def _test_data(source: DataSource) -> list[Samples]:
    return [samples for samples in samples_in(source) if samples.part == "test"]
