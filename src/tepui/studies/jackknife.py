"""Means over pairs of members, which share members and so depend."""

from collections.abc import Sequence
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
    size, whole = len(matrix), fmean(both.values())
    without = (
        fmean(value for pair, value in both.items() if member not in pair)
        for member in range(size)
    )
    return [size * whole - (size - 1) * rest for rest in without]


def _pairs(
    matrix: Sequence[Sequence[float]] | Tensor,
) -> dict[tuple[int, int], float]:
    """Return the value of each two members, averaged over both directions."""
    rows = [[float(value) for value in row] for row in matrix]
    size = len(rows)
    shape = (size, len(rows[0]) if rows else 0)
    square = size >= 2 and all(len(row) == size for row in rows)
    require(square, "matrix", "be square, with two rows or more", shape)
    return {
        (i, j): (rows[i][j] + rows[j][i]) / 2 for i, j in combinations(range(size), 2)
    }
