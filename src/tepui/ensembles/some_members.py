"""Whether an ensemble still has the members that it was made of."""

from collections.abc import Sequence

from tepui.core.checks import require


def check_chosen(members: Sequence[int], count: int) -> None:
    """Refuse numbers that are not some of the members, each once.

    Example:
        >>> check_chosen([0, 3], 3)
        Traceback (most recent call last):
        ValueError: members must be different numbers from 0 to 2, got [0, 3]
    """
    known = all(0 <= number < count for number in members)
    rule = f"be different numbers from 0 to {count - 1}"
    require(known and len({*members}) == len(members) > 0, "members", rule, members)


def check_seeds(seeds: Sequence[int], members: int) -> None:
    """Refuse an ensemble whose members were removed or added in place."""
    rule = f"be as many as the members ({members}); ensemble.subset keeps both together"
    require(len(seeds) == members, "seeds", rule, len(seeds))


def check_fitted_for(what: str, fitted_for: int, members: int) -> None:
    """Refuse what held-out data made of another number of members, 0 for unknown."""
    rule = f"be fitted for an ensemble of {members} members (None drops it)"
    require(fitted_for in (0, members), what, rule, fitted_for)
