"""Showing how a run goes: a bar on a terminal, plain lines elsewhere.

Epochs differ: a method may begin to perturb weights halfway, or score all samples. What
is left follows from what epochs took and what they should cost: of those whose like was
seen the middle of what was measured counts; others take their time in proportion.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from statistics import fmean, median
from typing import Literal

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as RichProgress

from tepui.training.history import EpochRecord

Clock = Callable[[], float]
Style = Literal["auto", "bar", "lines", "none"]


def expected_seconds(
    costs: Sequence[float], measured: Mapping[int, float]
) -> list[float]:
    """Return how long each piece of some work takes, given how long some took.

    Args:
        costs: What each piece costs, in any unit.
        measured: Seconds of those that are done, at least of one.

    Returns:
        Seconds of every piece.

    Example:
        >>> expected_seconds([1, 1, 2, 2], {0: 3.0})
        [3.0, 3.0, 6.0, 6.0]
        >>> expected_seconds([1, 1, 2, 2], {0: 3.0, 1: 3.0, 2: 5.0})
        [3.0, 3.0, 5.0, 5.0]
    """
    alike: dict[float, list[float]] = {}
    for piece, seconds in measured.items():
        alike.setdefault(costs[piece], []).append(seconds)
    unit = median(seconds / costs[piece] for piece, seconds in measured.items())
    return [median(alike[cost]) if cost in alike else unit * cost for cost in costs]


def in_words(seconds: float) -> str:
    """Return a time as a person says it.

    Example:
        >>> in_words(42.3), in_words(600), in_words(9000)
        ('42 s', '10 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class TimeLeft:
    """Knows how long the epochs of a run took, and so how long the others will.

    Args:
        costs: What each epoch costs, in any unit.
        steps: How many steps an epoch has.
        clock: What tells the time.
    """

    def __init__(
        self, costs: Sequence[float], steps: float, clock: Clock = time.monotonic
    ) -> None:
        self._costs, self._steps, self._clock = costs, steps, clock
        self._done = 0
        # When epochs ended; the first entry, which may be a part, is the beginning.
        self._ends: dict[float, float] = {}

    def begin(self, steps: int) -> None:
        """Note that the run goes on from here, after so many steps."""
        self._done = steps
        self._ends = {steps / self._steps - 1: self._clock()}

    def advance(self, steps: int) -> None:
        """Note that steps were made; the first time, where the run begins."""
        if self._ends:
            self._done += steps
        else:
            self.begin(steps)

    def epoch_ended(self, epoch: int) -> None:
        """Note that an epoch is over."""
        self._done = round((epoch + 1) * self._steps)
        self._ends[epoch] = self._clock()

    def seconds(self) -> float | None:
        """Return the seconds that are left, None as long as nothing is known."""
        place = self._done / self._steps
        whole = int(place)
        measured = {
            int(later): (self._ends[later] - self._ends[earlier]) / (later - earlier)
            for earlier, later in pairwise(sorted(self._ends))
        }
        if not measured:
            last = max(self._ends, default=place - 1)
            if place <= last + 1:
                return None
            passed = self._clock() - self._ends[last]
            measured = {int(last + 1): passed / (place - last - 1)}
        expected = expected_seconds(self._costs, measured)
        left = sum(expected[whole + 1 :])
        if whole < len(expected):
            left += expected[whole] * (whole + 1 - place)
        return left


class Progress:
    """Tells a person how far a run is; this one says nothing."""

    def advance(self, steps: int = 1) -> None:
        """Note that a member made a step, or several."""

    def epoch_ended(self, record: EpochRecord) -> None:
        """Note the end of an epoch."""


class Lines(Progress):
    """One line per epoch."""

    def __init__(self, title: str, epochs: int, left: TimeLeft) -> None:
        self._title = title
        self._epochs = epochs
        self._left = left

    def advance(self, steps: int = 1) -> None:
        """Note the steps."""
        self._left.advance(steps)

    def epoch_ended(self, record: EpochRecord) -> None:
        """Print the epoch."""
        self._left.epoch_ended(record.epoch)
        left = self._left.seconds() or 0.0
        sys.stderr.write(
            f"{self._title}: epoch {record.epoch + 1}/{self._epochs}  "
            f"{summary(record)}  left {in_words(left)}\n"
        )
        sys.stderr.flush()


class Bar(Progress):
    """A live bar with loss, learning rate, images per second and time left."""

    def __init__(self, bar: RichProgress, task: TaskID, left: TimeLeft) -> None:
        self._bar = bar
        self._task = task
        self._left = left

    def advance(self, steps: int = 1) -> None:
        """Move the bar."""
        self._left.advance(steps)
        self._bar.update(self._task, advance=steps, left=self._in_words())

    def epoch_ended(self, record: EpochRecord) -> None:
        """Show the epoch's figures beside the bar."""
        self._left.epoch_ended(record.epoch)
        self._bar.update(self._task, figures=summary(record), left=self._in_words())

    def _in_words(self) -> str:
        left = self._left.seconds()
        return "" if left is None else f"left {in_words(left)}"


def summary(record: EpochRecord) -> str:
    """Return an epoch's figures, averaged over members, in one line."""
    parts = [f"loss {fmean(record.trained):.4f}"]
    if record.joint_loss is not None:
        parts.append(f"joint {record.joint_loss:.4f}")
    if record.validation_loss:
        parts.append(f"validation {fmean(record.validation_loss):.4f}")
    parts.append(f"lr {fmean(record.learning_rate):.3g}")
    parts.append(f"{record.samples_per_second:,.0f} samples/s")
    return "  ".join(parts)


def remark(style: Style, text: str) -> None:
    """Say something beside the progress, unless that is not shown."""
    if style != "none":
        sys.stderr.write(f"{text}\n")


@contextmanager
def counting(style: Style, title: str, total: int) -> Iterator[Callable[[int], None]]:
    """Yield what is told of work that was done; nothing is shown before the first."""
    if style == "none":
        yield lambda done: None
        return
    counter = Counter(title, total, bar=style == "bar" or _is_live(style))
    try:
        yield counter.advance
    finally:
        counter.stop()


class Counter:
    """Shows how much of some work is done: a bar, or a line for each tenth."""

    def __init__(self, title: str, total: int, *, bar: bool) -> None:
        self._title, self._total, self._done = title, total, 0
        self._bar = RichProgress(console=Console(stderr=True)) if bar else None
        self._task: TaskID | None = None

    def advance(self, done: int) -> None:
        """Note that so much more is done."""
        before, self._done = self._done, self._done + done
        if self._bar is None:
            tenths = [10 * count // self._total for count in (before, self._done)]
            if tenths[0] != tenths[1]:
                sys.stderr.write(f"{self._title}: {10 * tenths[1]} %\n")
            return
        if self._task is None:
            self._bar.start()
            self._task = self._bar.add_task(self._title, total=self._total)
        self._bar.advance(self._task, done)

    def stop(self) -> None:
        """Leave the bar as it is."""
        if self._task is not None and self._bar is not None:
            self._bar.stop()


@contextmanager
def showing(
    style: Style,
    title: str,
    *,
    costs: Sequence[float],
    steps: int,
    clock: Clock = time.monotonic,
) -> Iterator[Progress]:
    """Show progress inside the block, of epochs of these costs and all their steps."""
    if style == "none":
        yield Progress()
        return
    left = TimeLeft(costs, steps / len(costs), clock)
    if style == "lines" or (style == "auto" and not _is_live(style)):
        yield Lines(title, len(costs), left)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[left]}", markup=False),
        TextColumn("{task.fields[figures]}", markup=False),
    )
    with RichProgress(*columns, console=Console(stderr=True)) as bar:
        yield Bar(bar, bar.add_task(title, total=steps, figures="", left=""), left)


def _is_live(style: Style) -> bool:
    return style == "auto" and sys.stderr.isatty()
