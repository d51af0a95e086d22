"""Quantities of groups of members, as a value per member."""

from collections.abc import Mapping
from statistics import fmean

from tepui.core.checks import require


def group_pseudo_values(values: Mapping[tuple[int, ...], float]) -> list[float]:
    r"""Return a value per member whose mean is the mean over all groups of members.

    The pseudo-values of the jackknife, :math:`n U - (n - 1) U_{-i}`, where :math:`U` is
    the mean over all groups of one size among :math:`n` members and :math:`U_{-i}` that
    over the groups without member :math:`i`. Their standard error is that of :math:`U`
    where members do not depend on each other; groups depend on each other, since they
    share members.

    Args:
        values: A value for every group of one size, by the numbers of its members;
            there must be more members than a group has.

    Returns:
        One value per member, in the order of their numbers.

    Raises:
        ValueError: If a member is in every group.

    Example:
        >>> pseudo = group_pseudo_values({(0, 1): 0.1, (0, 2): 0.2, (1, 2): 0.6})
        >>> [round(value, 3) for value in pseudo]
        [-0.3, 0.5, 0.7]

    References:
        Arvesen (1969), Jackknifing U-statistics.
    """
    members = sorted({member for group in values for member in group})
    size, whole = len(members), fmean(values.values())
    pseudo = []
    for member in members:
        rest = [value for group, value in values.items() if member not in group]
        require(bool(rest), "values", "hold groups without each member", member)
        pseudo.append(size * whole - (size - 1) * fmean(rest))
    return pseudo
