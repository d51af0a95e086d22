"""Members that did not learn, which a mean over members would hide."""

import math
import warnings
from collections.abc import Sequence
from statistics import median

# A member's loss is suspicious from this many times the median of its peers' on, and
# from this share of the loss of guessing on: small losses differ by chance.
TIMES_THE_PEERS = 3.0
SHARE_OF_GUESSING = 0.5


def dead_members(losses: Sequence[float], classes: int) -> list[int]:
    """Return the members whose loss is far above that of the others.

    Example:
        >>> dead_members([0.3, 2.3, 0.4], classes=10)
        [1]
        >>> dead_members([2.3, 2.2, 2.3], classes=10)  # none has learned
        []
    """
    guessing = math.log(classes)
    return [
        member
        for member, loss in enumerate(losses)
        if len(losses) > 1
        and loss >= SHARE_OF_GUESSING * guessing
        and loss >= TIMES_THE_PEERS * _median_of_others(losses, member)
    ]


def warn_of_dead_members(
    losses: Sequence[float], classes: int, *, stacklevel: int
) -> None:
    """Warn of each member whose loss is far above that of the others."""
    for member in dead_members(losses, classes):
        warnings.warn(
            f"member {member} may not have learned: its loss on the test data is "
            f"{losses[member]:.3g}, the median of the other members' is "
            f"{_median_of_others(losses, member):.3g}, and guessing between {classes} "
            f"classes gives {math.log(classes):.3g}",
            stacklevel=stacklevel + 1,
        )


def _median_of_others(losses: Sequence[float], member: int) -> float:
    return median([*losses[:member], *losses[member + 1 :]])
