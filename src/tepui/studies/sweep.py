"""Choosing hyperparameters on data that are held out of the training part.

A search gives a trial every combination of the values in a grid, trains each on
the training data less what is held out, and scores it on what is held out. Test data
are not read, nor anything that was made from them.

A grid names fields of the trial's method, optimizer or loss, ``sparsity``, arguments of
its model such as ``width``, or ``members``, ``epochs`` or ``batch_size``; where two
have the same name, the first in this list is meant. What data decide, such as the
number of classes, cannot be varied.
"""

import inspect
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from itertools import product
from typing import Any, Literal, final, get_args, get_type_hints

import torch
from torch.utils.data import Dataset

from tepui.core.checks import one_of, require
from tepui.core.members import for_member, lists_of
from tepui.core.spec import written
from tepui.core.types import check_types
from tepui.data import split
from tepui.losses import Loss
from tepui.methods import CoupledMethod, ExchangingMethod
from tepui.modules.pruning import Prune
from tepui.studies.job import Job
from tepui.studies.jobs import carry_out
from tepui.studies.results import FIELDS, Record, averaged
from tepui.studies.specifications import (
    DataSource,
    DataStore,
    EvaluationSpec,
    Samples,
    Trial,
    samples_in,
    seeds,
)
from tepui.studies.store import Store
from tepui.tasks import task_of
from tepui.tasks.base import Leading
from tepui.training import TrainingDiverged, TrainingSpec

Values = Mapping[str, Any]
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
_PARTS = ("method", "optimizer", "loss")  # of a trial's training, with fields to vary
# Arguments of models that data or the repetition decide.
_GIVEN = (
    *("num_classes", "in_channels", "in_features", "image_size", "patch_size"),
    *("vocabulary", "length", "start"),
)


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
        base: The first trial that is varied.
        combinations: All of them, in the order of the grid.
    """

    base: Trial
    combinations: tuple[Combination, ...]

    @property
    def label(self) -> str:
        """Data, model and method, with the fields that are not searched."""
        samples = next(samples_in(self.base.data), None)
        data = type(self.base.data) if samples is None else samples.dataset
        names = [written(each).partition("(")[0] for each in (data, self.base.model)]
        method = written(self.base.training.method, self.combinations[0].values)
        return " ".join([*(name.rpartition(".")[2] for name in names), method])

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


def search(trials: Sequence[Trial], grid: Grid, *, held_out: float = 0.1) -> Search:
    """Return the search over a grid.

    Args:
        trials: What is varied: repetitions, which differ in their seeds.
        grid: For each hyperparameter its values.
        held_out: Share of the training data to score on.

    Raises:
        ValueError: If trials lack a hyperparameter of the grid or see test data, or if
            a loss does not say what outputs mean.

    Example:
        >>> from tepui.data import Digits
        >>> from tepui.studies import Samples, Trial
        >>> from tepui.methods import SAM
        >>> from tepui.training import TrainingSpec
        >>> from tepui.models import ConvNet
        >>> how = TrainingSpec(method=SAM(), epochs=2)
        >>> trial = Trial(Samples(Digits), ConvNet, how, seeds=(0, 1))
        >>> found = search([trial], {"rho": [0.1, 0.2]})
        >>> found.label, tuple(each.values["rho"] for each in found.combinations)
        ('Digits ConvNet SAM()', (0.1, 0.2))
    """
    require(len(trials) > 0, "ensembles", "be positive", len(trials))
    require(len(grid) > 0, "grid", "name at least one hyperparameter", dict(grid))
    for trial in trials:
        places = sorted(hyperparameters(trial))
        for name, values in grid.items():
            one_of("grid", name, places)
            require(len(values) > 0, f"grid {name}", "list at least one value", values)
        unlabeled = trial.unlabeled and _test_data(trial.unlabeled)
        require(not unlabeled, "unlabeled data", _TRAINING, unlabeled)
        criterion_of(trial.training.loss)
    combinations = []
    for chosen in product(*grid.values()):
        named = dict(zip(grid, chosen, strict=True))
        work = (_without(trial, named, held_out) for trial in trials)
        combinations.append(Combination(named, tuple(work)))
    different = len({each.trials[0].digest for each in combinations})
    rule = "list each value once"
    require(different == len(combinations), "grid", rule, dict(grid))
    return Search(trials[0], tuple(combinations))


def hyperparameters(trial: Trial) -> dict[str, str]:
    """Return what can be varied, each with the part of the trial that holds it.

    Example:
        >>> from tepui.data import Digits
        >>> from tepui.methods import SAM
        >>> from tepui.models import ConvNet
        >>> how = TrainingSpec(method=SAM(), epochs=2)
        >>> known = hyperparameters(Trial(Samples(Digits), ConvNet, how, seeds=(0, 1)))
        >>> [known[name] for name in ("rho", "lr", "label_smoothing", "width")]
        ['method', 'optimizer', 'loss', 'model']
    """
    parts = _parts(trial)
    owners = [(each.name, name) for name in parts for each in fields(parts[name])]
    owners.append(("sparsity", "prune"))
    arguments = inspect.signature(_made_by(trial)).parameters
    owners += [(name, "model") for name in arguments if name not in _GIVEN]
    if not any(map(lists_of, parts.values())):
        owners.append(("members", "members"))
    owners += [("epochs", "training"), ("batch_size", "training")]
    return dict(reversed(owners))


def override(trial: Trial, values: Values) -> Trial:
    """Return a trial with other hyperparameters, if its parts allow them."""
    owners, training = hyperparameters(trial), trial.training
    given: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        given.setdefault(owners[name], {})[name] = value
    if members := given.pop("members", {}):
        check_types(seeds, members)
        count, first = members["members"], trial.seeds[0]
        require(count > 0, "members", "be positive", count)
        trial = replace(trial, seeds=tuple(range(first, first + count)))
    if "model" in given:
        arguments = _typed(_made_by(trial), given.pop("model"))
        trial = replace(trial, model=partial(trial.model, **arguments))
        with torch.device("meta"):
            trial.model()  # refuses what the model refuses
    changes = _typed(TrainingSpec, given.pop("training", {}))
    for owner, own in given.items():
        part = getattr(training, owner) or Prune()
        changes[owner] = replace(part, **_typed(type(part), own))
    if "prune" in changes and changes["prune"].sparsity == 0:
        changes["prune"] = None  # what is dense has one description
    changed = trial.trained_with(**changes)
    count, method = len(changed.seeds), changed.training.method
    for part in _parts(changed).values():
        for_member(part, 0, count)
    if isinstance(method, ExchangingMethod):
        method.exchanges_before(0, changed.training.epochs)
    if isinstance(method, CoupledMethod):
        method.check_members(count)
    return changed


def _parts(trial: Trial) -> dict[str, Any]:
    parts = {name: getattr(trial.training, name) for name in _PARTS}
    return {name: part for name, part in parts.items() if is_dataclass(part)}


def _made_by(trial: Trial) -> Any:
    return trial.model.func if isinstance(trial.model, partial) else trial.model


def _typed(owner: Any, values: Values) -> dict[str, Any]:
    """Return values as their owner declares them; 1 may stand for 1.0."""
    plain = isinstance(owner, type) and not is_dataclass(owner)
    signed = owner.__init__ if plain else owner
    check_types(signed, values)
    hints, typed = get_type_hints(signed), dict(values)
    for name, value in values.items():
        kinds = {hints.get(name), *get_args(hints.get(name))}
        if type(value) is int and float in kinds and int not in kinds:
            typed[name] = float(value)
    return typed


def outcome_of(planned: Search, store: Store, diverged: Container[str] = ()) -> Outcome:
    """Return how every combination did, and which is the best."""
    criterion = planned.criterion
    rows = tuple(
        _row(combination, criterion.shown, store, diverged)
        for combination in planned.combinations
    )
    sound = [row for row in rows if not row.diverged]
    best = max(sound, key=lambda row: criterion.merit(row.scores), default=None)
    return Outcome(rows, best)


def sweep(planned: Search, store: Store, **how: Any) -> Outcome:
    """Carry out a search, several trials at a time.

    A combination at which training diverges is not chosen; the others go on.

    Args:
        planned: The search.
        store: Where trained ensembles are; what it has is not trained again.
        how: Further arguments of :func:`carry_out`, such as ``workers``.

    Raises:
        TrainingDiverged: If nothing could be trained.
    """
    failed = carry_out(planned.work, store, tolerated=(TrainingDiverged,), **how)
    outcome = outcome_of(planned, store, failed)
    if outcome.chosen is None:
        reason = next(iter(failed.values()))
        raise TrainingDiverged(f"training diverged at all values of the grid: {reason}")
    return outcome


def records_of(planned: Search, outcome: Outcome) -> Iterator[Record]:
    """Yield the scores of every combination, with what was chosen or diverged noted.

    Their coordinates are the values of the grid; members are called ``num_members``.
    """
    model = type(planned.base.model()).__qualname__
    names = {"item": "sweep", "dataset": "held out", "architecture": model}
    for combination, row in zip(planned.combinations, outcome.rows, strict=True):
        note = "chosen" if row is outcome.chosen else ""
        values = dict(row.values)
        at = {"num_members" if n in FIELDS else n: v for n, v in values.items()}
        for metric in planned.criterion.shown:
            yield averaged(
                row.scores.get(metric, [None] * len(combination.trials)),
                combination.trials,
                **names,
                method=planned.label,
                metric=metric,
                unit="none",
                at=at,
                note="diverged" if row.diverged else note,
            )


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


def _test_data(source: DataSource) -> list[Samples]:
    return [samples for samples in samples_in(source) if samples.part == "test"]
