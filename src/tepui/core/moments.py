"""When in a run something happens: at an epoch, or after a share of the run."""

import math

from tepui.core.checks import require


def count_of(share: float, total: int) -> int:
    """Return how many of a total are a share of it, rounded down.

    Example:
        >>> count_of(0.29, 100), int(0.29 * 100), count_of(0.5, 5)
        (29, 28, 2)
    """
    return math.floor(round(share * total, 9))


def check_moment(name: str, at: int | float) -> None:
    """Require an epoch or a share of the run."""
    rule = "be a non-negative epoch (an int) or a share of the run in [0, 1] (a float)"
    epoch = isinstance(at, int) and not isinstance(at, bool) and at >= 0
    require(epoch or (isinstance(at, float) and 0 <= at <= 1), name, rule, at)


def epoch_of(name: str, at: int | float, epochs: int) -> int:
    """Return the epoch before which something happens, within a run.

    Example:
        >>> epoch_of("start_at", 0.5, epochs=30), epoch_of("start_at", 7, epochs=30)
        (15, 7)
    """
    epoch = round(at * epochs) if isinstance(at, float) else at
    require(epoch <= epochs, name, f"lie within the run ({epochs} epochs)", at)
    return epoch
