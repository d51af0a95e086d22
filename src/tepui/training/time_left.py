"""How long a run still takes, from what its epochs took and what they should cost.

Epochs differ: a method may begin to perturb weights halfway, or score all samples. Of
those whose like was seen the middle of what was measured counts; others take their time
in proportion to their cost.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from statistics import median

Clock = Callable[[], float]


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
