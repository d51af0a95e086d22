"""Many faults in one message: the first of them, and how many more there are."""

from collections.abc import Sequence

MOST = 10


def listed(faults: Sequence[str]) -> str:
    r"""Return faults to follow a colon, each in a line of its own.

    Example:
        >>> listed(["a is bad", "b is bad"])
        '\n  a is bad\n  b is bad'
        >>> listed([f"{n} is bad" for n in range(12)]).splitlines()[-2:]
        ['  9 is bad', '  and 2 more']
    """
    more = len(faults) - MOST
    lines = [*faults[:MOST], *([f"and {more} more"] if more > 0 else [])]
    return "".join(f"\n  {line}" for line in lines)
