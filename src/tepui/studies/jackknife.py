"""Means over pairs and groups of members, which share members and so depend."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import fmean
from typing import Literal

from torch import Tensor

from tepui.core.checks import one_of, require
from tepui.core.types import check_types
from tepui.studies.statistics import Estimate, estimate


def estimate_pairs(
    matrix: Sequence[Sequence[float]] | Tensor,
    over: Literal["members", "pairs"] = "members",
) -> Estimate:
    """Return the mean over pairs of members with its standard error.

    Pairs that share a member depend on each other, so that the error over pairs is too
    small. Over members it is that of the jackknife, which leaves out one member with
    all of its pairs at a time.

    Args:
        matrix: A value for each two members, such as ``pairwise_disagreement`` gives;
            the diagonal is not read.
        over: What counts as one value: a member or a pair.

    Returns:
        The estimate; the mean is the same either way. Two members are one pair, whose
        error is not known.

    Raises:
        ValueError: If the matrix is not square, has one row, or ``over`` is unknown.

    Example:
        >>> matrix = [[0.0, 0.1, 0.2], [0.1, 0.0, 0.6], [0.2, 0.6, 0.0]]
        >>> round(estimate_pairs(matrix).mean, 3)
        0.3
        >>> estimate_pairs(matrix, over="pairs").count
        3
    """
    check_types(estimate_pairs, locals())
    one_of("over", over, ("members", "pairs"))
    if over == "pairs":
        return estimate(_pairs(matrix).values())
    return estimate(pair_pseudo_values(matrix))


def pair_pseudo_values(
    matrix: Sequence[Sequence[float]] | Tensor,
) -> list[float | None]:
    r"""Return a value per member whose mean is the mean over pairs.

    The pseudo-values of the jackknife, :math:`n U - (n - 1) U_{-i}`, where :math:`U`
    is the mean over pairs of :math:`n` members and :math:`U_{-i}` the same without
    member :math:`i`. Their standard error is that of :math:`U`; the means of members
    over their pairs vary too little, since each member is in all of them.

    Args:
        matrix: A value for each two members; the diagonal is not read.

    Returns:
        One value per member; for two members their value and None.

    Raises:
        ValueError: If the matrix is not square or has one row.

    Example:
        >>> matrix = [[0.0, 0.1, 0.2], [0.1, 0.0, 0.6], [0.2, 0.6, 0.0]]
        >>> tuple(round(value, 3) for value in pair_pseudo_values(matrix))
        (-0.3, 0.5, 0.7)

    References:
        Arvesen (1969), Jackknifing U-statistics.
    """
    both = _pairs(matrix)
    if len(matrix) == 2:
        return [both[0, 1], None]
    return [*group_pseudo_values(both)]


def _pairs(
    matrix: Sequence[Sequence[float]] | Tensor,
) -> dict[tuple[int, ...], float]:
    """Return the value of each two members, averaged over both directions."""
    rows = [[float(value) for value in row] for row in matrix]
    size = len(rows)
    shape = (size, len(rows[0]) if rows else 0)
    square = size >= 2 and all(len(row) == size for row in rows)
    require(square, "matrix", "be square, with two rows or more", shape)
    return {
        (i, j): (rows[i][j] + rows[j][i]) / 2 for i, j in combinations(range(size), 2)
    }


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
