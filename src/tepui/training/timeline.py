"""Where the wall-clock of a run goes, from the beginning of training to its end.

A clock is always busy with one activity, so that the seconds of all activities add up
to those that passed. It reads the host's time and waits for nothing: work queued on a
GPU counts where the host next waits for it, which is in the same activity for steps,
scores, validation and checkpoints.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Literal, final, get_args

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
    """Attributes the time that passes to activities; begins with preparing."""

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


def in_words(timeline: Timeline) -> str:
    """Return in a line how long a run took, and on what; nothing below one percent.

    Example:
        >>> in_words({"preparing": 1.0, "stepping": 3.0})
        '4.0 s: stepping 75 %, preparing 25 %'
    """
    total = sum(timeline.values())
    ordered = sorted(timeline.items(), key=lambda item: -item[1])
    shares = [f"{name} {s / total:.0%}" for name, s in ordered if s >= 0.01 * total]
    return f"{total:.1f} s: {', '.join(shares)}".replace("%", " %")
