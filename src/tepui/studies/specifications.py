"""What a study trains and tests, as values: equal descriptions, equal results.

A :class:`Trial` holds all that an ensemble's weights depend on, an
:class:`EvaluationSpec` or :class:`SharpnessSpec` all that its scores depend on besides.
Each has a digest, by which a :class:`~tepui.studies.store.Store` knows what it has.
"""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol, Self, cast, final, get_args

import torch
from torch import nn
from torch.utils.data import Dataset

from tepui.core import spec
from tepui.core.checks import one_of, require
from tepui.core.seeding import generator
from tepui.core.types import check_fields, check_types
from tepui.data import Arrays, split
from tepui.data.identity import data_digest
from tepui.evaluation.stored_logits import LogitType
from tepui.metrics import Rule
from tepui.training import Run, TrainingSpec

SamplesPart = Literal["train", "held_out", "test"]
# Raised when the same description begins to mean something else.
GENERATION = 1


def digest(value: object) -> str:
    """Return a short name for a description, the same on every machine."""
    return spec.digest([GENERATION, value])[:12]


def contents_of(dataset: Dataset[Any]) -> str:
    """Return a short name for what a data set holds."""
    return data_digest(dataset)[:12]


class Named:
    """What has a name in a store."""

    @functools.cached_property
    def digest(self) -> str:
        """Its name."""
        return digest(self)


class Described(Named):
    """What a store can name, and know again."""

    @property
    def about(self) -> Mapping[str, Any]:
        """All fields, ready for JSON."""
        return dict(spec.document(self))

    @property
    def logits_read(self) -> bool:
        """Whether more than scores is asked for."""
        return False

    def is_answered_by(self, document: Mapping[str, Any]) -> bool:
        """Return whether a document holds the answer to this."""
        return bool(document.get("about") == self.about)


class DataStore(Protocol):
    """What a data source may ask of the store that loads it."""

    path: Path
    device: torch.device
    stale_after: float

    def dataset(self, source: "DataSource") -> Dataset[Any]:
        """Return the data of another source."""

    def run(self, trial: "Trial") -> Run:
        """Return a trained trial."""


class DataSource(Named, ABC):
    """Where data come from; subclasses are frozen dataclasses."""

    @abstractmethod
    def load(self, store: DataStore) -> Dataset[Any]:
        """Return the data."""


@final
@dataclass(frozen=True)
class Samples(DataSource):
    """Samples of a data set.

    Attributes:
        dataset: Its class, such as ``tepui.data.Digits``.
        part: The training part, what is held out of it, or the test part.
        held_out: Share of the training part that is held out.
        count: How many samples to draw before; None takes all.
        seed: Same seed, same samples.
        contents: What :func:`contents_of` says of the training part, for data that may
            change, such as one's own files; None for those that do not.
    """

    dataset: Callable[..., Any]
    part: SamplesPart = "train"
    held_out: float = 0.0
    count: int | None = None
    seed: int = 0
    contents: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        require(0 <= self.held_out < 1, "held_out", "lie in [0, 1)", self.held_out)
        require(
            self.part != "held_out" or self.held_out > 0,
            "held_out",
            "be positive for the part that is held out",
            self.held_out,
        )

    def load(self, store: DataStore) -> Arrays:
        """Return the samples, in the order of the data set."""
        samples = self._whole(store)
        if self.count is not None:
            rule = f"be at most {len(samples)}, the samples there are"
            require(0 < self.count <= len(samples), "count", rule, self.count)
            stream = generator(self.seed, "drawn", self.part == "test")
            rows = torch.randperm(len(samples), generator=stream)[: self.count]
            samples = samples.subset(rows.sort().values)
        if self.part == "test" or not self.held_out:
            return samples
        kept, held_out = split(samples, self.held_out, seed=self.seed)
        return held_out if self.part == "held_out" else kept

    def _whole(self, store: DataStore) -> Arrays:
        """Return the part of the data set that is drawn from, read once per store."""
        part: SamplesPart = "test" if self.part == "test" else "train"
        whole = Samples(self.dataset, part, contents=self.contents)
        if whole != self:
            return cast(Arrays, store.dataset(whole))
        samples: Arrays = self.dataset(train=part == "train")
        if self.contents is not None and part == "train":
            found, rule = contents_of(samples), "hold what it did when it was described"
            require(found == self.contents, "data", rule, "other data")
        return samples


@final
@dataclass(frozen=True)
class Trial(Described):
    """One ensemble to train.

    Attributes:
        data: What it learns from.
        model: Returns a new member: a class, or ``functools.partial`` of one.
        training: How it is trained, as :func:`tepui.fit` takes it.
        seeds: One per member.
        unlabeled: Data without labels, for methods that need them.
    """

    data: DataSource
    model: Callable[[], nn.Module]
    training: TrainingSpec
    seeds: tuple[int, ...]
    unlabeled: DataSource | None = None

    def __post_init__(self) -> None:
        require(len(self.seeds) > 0, "seeds", "hold one per member", self.seeds)

    def trained_with(self, **changes: Any) -> Self:
        """Return the same with other values of its training."""
        return replace(self, training=replace(self.training, **changes))


@final
@dataclass(frozen=True)
class EvaluationSpec(Described):
    """What a trained ensemble is asked.

    Attributes:
        test: Clean test data.
        types: Corruptions of it.
        severities: Of each.
        strength: Whose parameters the corruptions take, see :func:`tepui.data.corrupt`.
        ood: Unfamiliar data with their names.
        rule: How members are combined.
        released: The class of the corrupted copies as their authors released them, such
            as ``tepui.data.CIFAR10C``; None makes them.
        logits_in: The type of the logits, where they are read.
        logits_read: Whether they are, beside the scores; else a store keeps them as it
            is told.
    """

    test: DataSource
    types: tuple[str, ...] = ()
    severities: tuple[int, ...] = (1, 2, 3, 4, 5)
    strength: str = "cifar"
    ood: tuple[tuple[str, DataSource], ...] = ()
    rule: Rule = "probability"
    released: Callable[..., Any] | None = None
    logits_in: LogitType = "float32"
    logits_read: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        one_of("rule", self.rule, get_args(Rule))
        one_of("logits_in", self.logits_in, get_args(LogitType))
        rule = "name a type where logits are read"
        read = self.logits_read and self.logits_in == "none"
        require(not read, "logits_in", rule, self.logits_in)


@final
@dataclass(frozen=True)
class SharpnessSpec(Described):
    """A sharpness measure of all members.

    Attributes:
        function: One of :mod:`tepui.sharpness`, or ``functools.partial`` of
            it.
        data: What to measure on; None is the trial's training data.
    """

    function: Callable[..., Any]
    data: DataSource | None = None


def made_from(source: DataSource) -> list[DataSource]:
    """Return the sources that another is directly made from."""
    sources: list[DataSource] = []
    for value in vars(source).values():
        held = (value.data, value.unlabeled) if isinstance(value, Trial) else (value,)
        sources += [inner for inner in held if isinstance(inner, DataSource)]
    return sources


def any_draw(source: DataSource) -> DataSource:
    """Return a source with samples of another draw, which need and cost the same.

    Seeds of :class:`Samples` and of members that made it are set to one choice; what a
    seed means elsewhere only its source knows.

    Example:
        >>> from tepui.data import Digits
        >>> any_draw(Samples(Digits, count=9, seed=4)).seed
        0
    """
    if isinstance(source, Samples):
        return replace(source, seed=0)
    drawn: dict[str, Any] = {}
    for name, value in vars(source).items():
        if isinstance(value, DataSource):
            drawn[name] = any_draw(value)
        elif isinstance(value, Trial):
            drawn[name] = replace(
                value,
                data=any_draw(value.data),
                seeds=tuple(range(len(value.seeds))),
                unlabeled=value.unlabeled and any_draw(value.unlabeled),
            )
    values: Any = source  # of a data class, which its base is not
    return cast(DataSource, replace(values, **drawn)) if drawn else source


def sources_in(source: DataSource) -> Iterator[DataSource]:
    """Yield a source and all that it is made from, at any depth."""
    yield source
    for inner in made_from(source):
        yield from sources_in(inner)


def samples_in(source: DataSource) -> Iterator[Samples]:
    """Yield the samples that a source is made from, itself if it is that."""
    return (inner for inner in sources_in(source) if isinstance(inner, Samples))


def seeds(repetition: int, members: int) -> tuple[int, ...]:
    """Return the members' seeds in one of several ensembles.

    Args:
        repetition: Which ensemble, from 0.
        members: How many.

    Returns:
        One seed per member, the first ones the same for any number of them.

    Example:
        >>> seeds(1, 3)
        (1000, 1001, 1002)
    """
    check_types(seeds, locals())
    require(0 < members <= 1000, "members", "lie in 1 to 1000", members)
    return tuple(1000 * repetition + member for member in range(members))
