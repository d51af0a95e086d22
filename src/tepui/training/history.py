"""What happened in a run: records of epochs, who is told of them, and when it ends."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from math import inf
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal, Self, final, get_args

import numpy as np

from tepui.core.checks import require
from tepui.core.types import check_fields
from tepui.tasks import Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# What a run does: prepare members and data; restore a checkpoint; score data for each
# other, and the rest of an exchange; capture, which is all that precedes the replay of
# steps; step; validate; save checkpoints; finish, the method's last word and the
# ensemble's file; others, such as callbacks and records.
Activity = Literal[
    "preparing",
    "restoring",
    "scoring",
    "exchanging",
    "capturing",
    "stepping",
    "validating",
    "saving",
    "finishing",
    "other",
]
ACTIVITIES: tuple[Activity, ...] = get_args(Activity)
Timeline = Mapping[Activity, float]  # the seconds of each activity that took place


@final
class Clock:
    """Attributes the time that passes to activities; begins with preparing.

    It is always busy with one, so that the seconds of all activities add up to those
    that passed. It reads the host's time and waits for nothing: work queued on a GPU
    counts where the host next waits for it, which is in the same activity for steps,
    scores, validation and checkpoints.
    """

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._now = now
        self._spent: dict[Activity, float] = dict.fromkeys(ACTIVITIES, 0.0)
        self._current: Activity = "preparing"
        self._since = now()

    @contextmanager
    def during(self, activity: Activity) -> Iterator[None]:
        """Attribute the block to an activity, but for blocks inside it."""
        outer = self._current
        self._switch(activity)
        try:
            yield
        finally:
            self._switch(outer)

    def seconds(self, *activities: Activity) -> float:
        """Return how long some activities have taken so far."""
        self._switch(self._current)
        return sum(self._spent[activity] for activity in activities)

    @property
    def timeline(self) -> Timeline:
        """All that is known so far, in the order of a run."""
        self._switch(self._current)
        return {activity: spent for activity, spent in self._spent.items() if spent}

    def go_on_from(self, timeline: Timeline) -> None:
        """Add what was spent before."""
        for activity, seconds in timeline.items():
            self._spent[activity] += seconds

    def _switch(self, activity: Activity) -> None:
        now = self._now()
        self._spent[self._current] += now - self._since
        self._current, self._since = activity, now


@dataclass(frozen=True)
class EpochRecord:
    """What is known of an epoch when it ends; tuples have one entry per member.

    A member that has yet to begin has the figures of the one it will go on from, one
    that has ended its last ones.

    Attributes:
        epoch: Which epoch, from 0.
        loss: Mean training loss; None for a coupled member that sat out the epoch.
        learning_rate: Learning rate of the last step.
        validation_loss: Mean validation loss, empty without validation data.
        validation_accuracy: Share of the validation data's classes or labels told
            right; empty where outputs are something else.
        validation_rmse: Root mean squared error on the validation data, where outputs
            are numbers.
        seconds: How long its steps took, all members together. Compiling and capturing
            them, validation and checkpoints are in the run's timeline.
        samples_per_second: Training samples of all members per second of steps.
        exchange_seconds: How long members took before the epoch to tell each other
            something, such as SharpBalance's scores; not part of ``seconds``.
        peak_memory: Most bytes allocated on a GPU since the run began or was resumed;
            None elsewhere.
        joint_loss: Mean of the loss that coupled members descended together; None where
            members train independently.
    """

    epoch: int
    loss: tuple[float | None, ...]
    learning_rate: tuple[float, ...]
    validation_loss: tuple[float, ...]
    seconds: float
    samples_per_second: float
    exchange_seconds: float = 0.0
    peak_memory: int | None = None
    joint_loss: float | None = None
    validation_accuracy: tuple[float, ...] = ()
    validation_rmse: tuple[float, ...] = ()

    @property
    def trained(self) -> tuple[float, ...]:
        """The losses of the members that took part in the epoch."""
        return tuple(loss for loss in self.loss if loss is not None)

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """Rebuild a record from its JSON form."""
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in row.items()
        }
        return cls(**fields)


class History(tuple[EpochRecord, ...]):
    """The records of all epochs, in their order."""

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for every epoch and member, as ``pandas.DataFrame`` takes them.

        Example:
            >>> records = [EpochRecord(0, (0.5, 0.4), (0.1, 0.1), (), 1.0, 64.0)]
            >>> History(records).rows()[1]["member"], History(records).rows()[1]["loss"]
            (1, 0.4)
        """
        return [
            {
                name: value[member] if isinstance(value, tuple) else value
                for name, value in {"member": member, **asdict(record)}.items()
                if value != ()
            }
            for record in self
            for member in range(len(record.loss))
        ]

    def plot(self) -> "Figure":
        """Return a figure of every member's losses over the epochs."""
        from matplotlib.figure import Figure

        figure = Figure(layout="constrained")
        axes = figure.subplots()
        rows = self.rows()
        for member in dict.fromkeys(row["member"] for row in rows):
            own = [row for row in rows if row["member"] == member]
            for name, style in (("loss", "-"), ("validation_loss", "--")):
                seen = [(r["epoch"], r[name]) for r in own if r.get(name) is not None]
                if seen:
                    label = f"{name.replace('_', ' ')} {member}"
                    axes.plot(*zip(*seen, strict=True), style, label=label)
        axes.set(xlabel="epoch", ylabel="loss")
        axes.legend()
        return figure


@dataclass(frozen=True)
class Outcome:
    """What came of a run.

    Attributes:
        history: One record per epoch.
        best_epochs: Epoch of each member's best weights, empty if none were kept.
        summary: What the method reports of the run, such as SharpBalance's sets.
        timeline: The seconds of each activity, also before the run was resumed or
            branched; but not what passed between a kill and the checkpoint before it.
        stopped_by: Who ended the run before all epochs were done, ``"EarlyStopping"``
            or a callback's name; None if nobody did.
    """

    history: History = field(default_factory=History)
    best_epochs: tuple[int, ...] = ()
    summary: Mapping[str, Any] = field(default_factory=dict)
    timeline: Timeline = field(default_factory=dict)
    stopped_by: str | None = None

    @property
    def kept(self) -> tuple[int, ...]:
        """After how many epochs each member had the weights that were kept.

        Empty if all members kept their last.
        """
        epochs = len(self.history)
        return tuple(epochs if best < 0 else best + 1 for best in self.best_epochs)


Monitored = Literal["validation_loss", "validation_accuracy", "validation_rmse", "loss"]


def epochs_since_best(values: Iterable[float], min_delta: float = 0.0) -> int:
    """Return how many values came since the last that was a gain; lower is better.

    Example:
        >>> epochs_since_best([3.0, 2.0, 2.5, 1.9])
        0
        >>> epochs_since_best([3.0, 2.0, 2.5, 1.9], min_delta=0.2)
        2
    """
    best, since = inf, 0
    for value in values:
        if value < best - min_delta:
            best, since = value, 0
        else:
            since += 1
    return since


@final
@dataclass(frozen=True)
class EarlyStopping:
    """End the run of all members once their mean score has not improved for a while.

    Attributes:
        monitor: What to watch, averaged over members: a score of the validation data,
            or the training ``"loss"``.
        patience: Epochs in a row without a gain after which the run ends.
        min_delta: By how much a value must be better than the best before it to count
            as a gain.

    Raises:
        ValueError: If a value breaks its rule.

    Example:
        >>> EarlyStopping(patience=3)
        EarlyStopping(monitor='validation_loss', patience=3, min_delta=0.0)
    """

    monitor: Monitored = "validation_loss"
    patience: int = 5
    min_delta: float = 0.0

    def __post_init__(self) -> None:
        check_fields(self)
        require(self.patience > 0, "patience", "be positive", self.patience)
        require(self.min_delta >= 0, "min_delta", "be non-negative", self.min_delta)

    @property
    def validates(self) -> bool:
        """Whether validation data are watched."""
        return self.monitor != "loss"

    def check_task(self, task: Task | None) -> None:
        """Raise if records of a task do not have what is watched.

        Args:
            task: What the outputs mean, as far as is known.
        """
        scores = {"loss", "validation_loss"}
        if task is not None:
            scores.add(f"validation_{task.measure}")
        rule = f"be a score that outputs of this task ({task or 'unknown'}) have"
        require(self.monitor in scores, "monitor", rule, self.monitor)

    def stops(self, history: Sequence[EpochRecord]) -> bool:
        """Return whether a run with these records ends.

        Args:
            history: Those of all epochs done.

        Returns:
            Whether the last ``patience`` of them brought no gain.
        """
        return epochs_since_best(map(self._value, history), self.min_delta) >= (
            self.patience
        )

    def _value(self, record: EpochRecord) -> float:
        if self.monitor == "loss":
            return fmean(record.trained)
        mean = fmean(getattr(record, self.monitor))
        return -mean if self.monitor == "validation_accuracy" else mean


if TYPE_CHECKING:
    from tepui.training.run import Run


class Callback:
    """Is told how a run goes; derive from it and override what you need.

    Where only epochs matter, a function of a record will do in its place. Under
    torchrun callbacks live in the process that writes the run folder.
    """

    def on_start(self, config: Mapping[str, Any]) -> None:
        """Be told that training begins, or goes on after an interruption.

        Args:
            config: What was asked for, as ``run.json`` records it, and ``"out"``, the
                run folder (None without one). What looks like a secret is masked.
        """

    def on_epoch(self, record: EpochRecord) -> bool | None:
        """Be told of an epoch.

        Args:
            record: What is known of it.

        Returns:
            True to end the run here, in every process; False or None to go on.
        """

    def on_end(self, run: "Run") -> None:
        """Be told that training is over and all of it saved.

        Args:
            run: What :func:`tepui.fit` is about to return.
        """

    def on_error(self, error: BaseException) -> None:
        """Be told, in the place of the end, that an error or a signal ends the run.

        Args:
            error: What :func:`tepui.fit` is about to raise.
        """


Told = Callback | Callable[[EpochRecord], bool | None]


@final
class Callbacks:
    """All that were given to a run, told in order."""

    def __init__(self, given: Sequence[Told] = ()) -> None:
        self._given = tuple(given)
        self._begun: list[Callback] = []

    def __len__(self) -> int:
        return len(self._given)

    def start(self, config: Mapping[str, Any]) -> None:
        """Tell all that training begins."""
        for callback in self._given:
            if isinstance(callback, Callback):
                self._begun.append(callback)
                callback.on_start(config)

    def epoch(self, record: EpochRecord) -> str | None:
        """Tell all of an epoch; return the name of the first that ends the run."""
        names = [_name(each) for each in self._given if _stops(each, record)]
        return names[0] if names else None

    def end(self, run: "Run") -> None:
        """Tell all that training is over."""
        for callback in self._begun:
            callback.on_end(run)

    @contextmanager
    def told_of_errors(self) -> Iterator[None]:
        """Tell those that were told of a beginning if the block raises."""
        try:
            yield
        except BaseException as error:
            for callback in self._begun:
                try:
                    callback.on_error(error)
                except Exception as another:  # the first one is what went wrong
                    error.add_note(f"{_name(callback)} failed on this: {another!r}")
            raise


def _stops(callback: Told, record: EpochRecord) -> bool:
    told = callback.on_epoch if isinstance(callback, Callback) else callback
    answer = told(record)
    return isinstance(answer, bool | np.bool_) and bool(answer)


def _name(callback: Told) -> str:
    return str(getattr(callback, "__name__", type(callback).__name__))
