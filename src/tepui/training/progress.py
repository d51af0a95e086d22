"""Showing how a run goes: a bar on a terminal, plain lines elsewhere.

Epochs differ: a method may begin to perturb weights halfway, or score all samples. What
is left follows from what was measured, in proportion to what epochs should cost.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import fmean
from typing import Literal

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as RichProgress

from tepui.training.history import EpochRecord

Clock = Callable[[], float]
Style = Literal["auto", "bar", "lines", "none"]


def seconds_left(
    costs: Sequence[float], begin: float, place: float, seconds: float
) -> float | None:
    """Return how long the rest of some work takes, given how long a part of it took.

    Args:
        costs: What each piece costs, in any unit.
        begin: How many pieces were done when the clock began; a fraction is a part.
        place: How many are done now.
        seconds: How long it took from there to here.

    Returns:
        Seconds; None as long as nothing was measured.

    Example:
        >>> seconds_left([1, 1, 2, 2], 0, 1, 3.0)
        15.0
    """

    def work(place: float) -> float:
        whole = int(place)
        return sum(costs[:whole]) + (place - whole) * sum(costs[whole : whole + 1])

    done = work(place) - work(begin)
    return (sum(costs) - work(place)) * seconds / done if done else None


def in_words(seconds: float) -> str:
    """Return a time as a person says it.

    Example:
        >>> in_words(42.3), in_words(600), in_words(9000)
        ('42 s', '10 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class Progress:
    """Tells a person how far a run is; this one says nothing."""

    def advance(self, steps: int = 1) -> None:
        """Note that a member made a step, or several; first, where the run begins."""

    def epoch_ended(self, record: EpochRecord) -> None:
        """Note the end of an epoch."""


class Shown(Progress):
    """A live bar with the last epoch's figures and the time left, or a line per epoch.

    Args:
        title: What is trained.
        costs: What each epoch costs, in any unit.
        steps: How many steps an epoch has.
        bar: The bar, if there is one.
        clock: What tells the time.
    """

    def __init__(
        self,
        title: str,
        costs: Sequence[float],
        steps: float,
        bar: RichProgress | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self._title, self._costs, self._steps = title, costs, steps
        self._bar, self._clock = bar, clock
        self._done, self._begin = 0, (0, clock())
        self._begun = False
        if bar is not None:
            total = steps * len(costs)
            self._task = bar.add_task(title, total=total, figures="", left="")

    @property
    def seconds(self) -> float | None:
        """The seconds that are left; None as long as nothing is known."""
        begin, since = self._begin
        passed = self._clock() - since
        places = begin / self._steps, self._done / self._steps
        return seconds_left(self._costs, *places, passed)

    def advance(self, steps: int = 1) -> None:
        """Note the steps."""
        self._done += steps
        if not self._begun:
            self._begun, self._begin = True, (self._done, self._clock())
        if self._bar is not None:
            self._bar.update(self._task, advance=steps, left=self._left)

    def epoch_ended(self, record: EpochRecord) -> None:
        """Show the epoch's figures."""
        if self._bar is not None:
            self._bar.update(self._task, figures=summary(record), left=self._left)
            return
        epoch = f"epoch {record.epoch + 1}/{len(self._costs)}"
        said = f"{self._title}: {epoch}  {summary(record)}  {self._left}"
        sys.stderr.write(f"{said.rstrip()}\n")
        sys.stderr.flush()

    @property
    def _left(self) -> str:
        left = self.seconds
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
    live, done = style == "bar" or _is_live(style), 0
    bar = RichProgress(console=Console(stderr=True)) if live else None

    def advance(more: int) -> None:
        nonlocal done
        before, done = 10 * done // total, done + more
        if bar is None:
            if (tenths := 10 * done // total) != before:
                remark(style, f"{title}: {10 * tenths} %")
            return
        if not bar.tasks:
            bar.start()
            bar.add_task(title, total=total)
        bar.update(bar.task_ids[0], completed=done)

    try:
        yield advance
    finally:
        if bar is not None and bar.tasks:
            bar.stop()


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
    if style == "lines" or (style == "auto" and not _is_live(style)):
        yield Shown(title, costs, steps / len(costs), clock=clock)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[left]}", markup=False),
        TextColumn("{task.fields[figures]}", markup=False),
    )
    with RichProgress(*columns, console=Console(stderr=True)) as bar:
        yield Shown(title, costs, steps / len(costs), bar, clock)


def _is_live(style: Style) -> bool:
    return style == "auto" and sys.stderr.isatty()
