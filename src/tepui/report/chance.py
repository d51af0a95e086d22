"""How many differences chance sets apart, and which stay so when it is counted."""

from collections.abc import Sequence

from tepui.report.wording import word
from tepui.studies import Difference
from tepui.studies.significance import holm

CHANCE = 0.05  # of comparisons that are apart without a reason
FEW = 3  # pairs of ensembles, from which a difference is a hint at most


def count_apart(found: Sequence[Difference]) -> str:
    """Return how many intervals leave out zero, beside what chance would bring."""
    apart = sum(each.apart for each in found)
    leave = "leaves" if apart == 1 else "leave"
    return (
        f"Of {len(found)} intervals {word(apart) if apart else 'none'} {leave} out "
        f"zero; chance alone would bring {by_chance(len(found))}."
    )


def by_chance(comparisons: int) -> str:
    """Return how many comparisons are apart without a reason, in words.

    Example:
        >>> by_chance(6), by_chance(10), by_chance(40)
        ('less than one', 'about 1', 'about 2')
    """
    expected = CHANCE * comparisons
    return f"about {max(1, round(expected))}" if expected >= 0.5 else "less than one"


def still_apart(found: Sequence[Difference]) -> list[bool]:
    """Return which differences are apart by tests corrected for all of them."""
    return [p <= CHANCE for p in holm([each.p for each in found])]


def firm(found: Sequence[Difference]) -> list[bool]:
    """Return which differences are more than a hint."""
    both = zip(found, still_apart(found), strict=True)
    return [sure and each.count > FEW for each, sure in both]
