"""Where the wall-clock of a run goes, from the beginning of training to its end.

A clock is always busy with one activity, so that the seconds of all activities add up
to those that passed. It reads the host's time and waits for nothing: work queued on a
GPU counts where the host next waits for it, which is in the same activity for steps,
scores, validation and checkpoints.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Self, final, get_args

from tepui.core.checks import one_of

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


@dataclass(frozen=True)
class Span:
    """How long an activity took.

    Attributes:
        activity: ``"preparing"`` members and data; ``"restoring"`` a checkpoint;
            ``"scoring"``, members' part in an exchange; ``"exchanging"``, the rest of
            it; ``"capturing"``, all that precedes the replay of steps: compiling,
            tuning, warming up, capturing; ``"stepping"``, the steps; ``"validating"``;
            ``"saving"`` checkpoints; ``"finishing"``, the method's last word and the
            ensemble's file; ``"other"``, such as callbacks and records.
        epoch: The epoch that it belongs to, None for what belongs to the whole run.
        seconds: How long it took in all.
    """

    activity: Activity
    epoch: int | None
    seconds: float

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """Rebuild a span from its JSON form."""
        one_of("activity", row["activity"], ACTIVITIES)
        return cls(**row)


@final
class Clock:
    """Attributes the time that passes to activities; begins with preparing."""

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._now = now
        self._spent: dict[tuple[Activity, int | None], float] = {}
        self._current: tuple[Activity, int | None] = ("preparing", None)
        self._since = now()

    @contextmanager
    def during(self, activity: Activity, epoch: int | None = None) -> Iterator[None]:
        """Attribute the block to an activity, but for blocks inside it."""
        outer = self._current
        self._switch(activity, epoch)
        try:
            yield
        finally:
            self._switch(*outer)

    def seconds(self, activity: Activity, epoch: int | None = None) -> float:
        """Return how long an activity of an epoch has taken so far."""
        self._switch(*self._current)
        return self._spent.get((activity, epoch), 0.0)

    @property
    def timeline(self) -> tuple[Span, ...]:
        """All that is known so far, by beginning."""
        self._switch(*self._current)
        return tuple(Span(*key, seconds) for key, seconds in self._spent.items())

    def go_on_from(self, timeline: Iterable[Span]) -> None:
        """Put what was spent before in front of what was spent here."""
        here, self._spent = self.timeline, {}
        for span in (*timeline, *here):
            key = (span.activity, span.epoch)
            self._spent[key] = self._spent.get(key, 0.0) + span.seconds

    def _switch(self, activity: Activity, epoch: int | None) -> None:
        now = self._now()
        before = self._spent.get(self._current, 0.0)
        self._spent[self._current] = before + now - self._since
        self._current, self._since = (activity, epoch), now


def by_activity(timeline: Iterable[Span]) -> dict[Activity, float]:
    """Return the seconds of each activity that took place, in the order of a run.

    Example:
        >>> by_activity([Span("stepping", 0, 2.0), Span("stepping", 1, 1.0)])
        {'stepping': 3.0}
    """
    found: dict[Activity, float] = {}
    for span in timeline:
        found[span.activity] = found.get(span.activity, 0.0) + span.seconds
    return {name: found[name] for name in ACTIVITIES if name in found}


def in_words(timeline: Iterable[Span]) -> str:
    """Return in a line how long a run took, and on what; nothing below one percent.

    Example:
        >>> in_words([Span("preparing", None, 1.0), Span("stepping", 0, 3.0)])
        '4.0 s: stepping 75 %, preparing 25 %'
    """
    spent = by_activity(timeline)
    total = sum(spent.values())
    ordered = sorted(spent.items(), key=lambda item: -item[1])
    shares = [f"{name} {s / total:.0%}" for name, s in ordered if s >= 0.01 * total]
    return f"{total:.1f} s: {', '.join(shares)}".replace("%", " %")
