"""Showing how a run goes: a bar on a terminal, plain lines elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from statistics import fmean
from typing import Literal

from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from tepui.training.history import EpochRecord

Style = Literal["auto", "bar", "lines", "none"]


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
    """A live bar with the last epoch's figures, or a line per epoch.

    Args:
        title: What is trained.
        epochs: How long the run is.
        steps: How many steps it has.
        bar: The bar, if there is one.
    """

    def __init__(
        self, title: str, epochs: int, steps: int, bar: RichProgress | None = None
    ) -> None:
        self._title, self._epochs, self._bar = title, epochs, bar
        if bar is not None:
            self._task = bar.add_task(title, total=steps, figures="")

    def advance(self, steps: int = 1) -> None:
        """Note the steps."""
        if self._bar is not None:
            self._bar.advance(self._task, steps)

    def epoch_ended(self, record: EpochRecord) -> None:
        """Show the epoch's figures."""
        if self._bar is not None:
            self._bar.update(self._task, figures=summary(record))
            return
        epoch = f"epoch {record.epoch + 1}/{self._epochs}"
        sys.stderr.write(f"{self._title}: {epoch}  {summary(record)}\n")
        sys.stderr.flush()


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
    done, bar = 0, _bar(style)

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
def showing(style: Style, title: str, *, epochs: int, steps: int) -> Iterator[Progress]:
    """Show progress inside the block, of so many epochs and all their steps."""
    if style == "none":
        yield Progress()
        return
    bar = _bar(style, TextColumn("{task.fields[figures]}", markup=False))
    with nullcontext() if bar is None else bar:
        yield Shown(title, epochs, steps, bar)


def _bar(style: Style, *columns: TextColumn) -> RichProgress | None:
    """Return a bar where one is asked for, or can be drawn."""
    if style != "bar" and not (style == "auto" and sys.stderr.isatty()):
        return None
    name = TextColumn("{task.description}", markup=False)
    shared = name, BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    return RichProgress(*shared, *columns, console=Console(stderr=True))
