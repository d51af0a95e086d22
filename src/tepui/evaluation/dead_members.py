"""Members that did not learn, which a mean over members would hide."""

from collections.abc import Sequence
from statistics import median

from tepui.core.warning import warn
from tepui.tasks.base import Losses

# A member's loss is suspicious from this many times the median of its peers' on, and
# from this share of the loss of guessing on: small losses differ by chance.
TIMES_THE_PEERS = 3.0
SHARE_OF_GUESSING = 0.5
# A member has learned nothing from this share of the loss of guessing on, where its
# peers are below the other.
NOTHING = 0.98
SOMETHING = 0.5


def dead_members(losses: Losses) -> list[int]:
    """Return the members whose loss is far above that of the others.

    Example:
        >>> dead_members(Losses([0.3, 2.3, 0.4], guessing=2.303))
        [1]
        >>> dead_members(Losses([2.1, 4.6, 2.2], guessing=4.605))  # a hundred classes
        [1]
        >>> dead_members(Losses([2.3, 2.2, 2.3], guessing=2.303))  # none has learned
        []
    """
    members, guessing = losses
    if len(members) < 2:
        return []

    def suspicious(member: int) -> bool:
        loss, peers = members[member], _median_of_others(members, member)
        far = loss >= SHARE_OF_GUESSING * guessing and loss >= TIMES_THE_PEERS * peers
        idle = loss >= NOTHING * guessing and peers <= SOMETHING * guessing
        return far or idle

    return [member for member in range(len(members)) if suspicious(member)]


def warn_of_dead_members(losses: Losses, data: str) -> None:
    """Warn of each member whose loss is far above that of the others."""
    for member in dead_members(losses):
        warn(
            f"member {member} may not have learned: its loss on {data} is "
            f"{losses.members[member]:.3g}, the median of the other members' is "
            f"{_median_of_others(losses.members, member):.3g}, and guessing without "
            f"looking at the inputs gives {losses.guessing:.3g}",
        )


def _median_of_others(losses: Sequence[float], member: int) -> float:
    return median([*losses[:member], *losses[member + 1 :]])
