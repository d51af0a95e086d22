"""Numbers in the cells of a table, a column at once."""

import math
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")


def numbers_in(cells: Sequence[str]) -> NDArray[np.float64]:
    """Return the numbers of a column, NaN where a cell holds no finite number.

    Example:
        >>> numbers_in(["1e3", "Bern", "inf", "1_0"])
        array([1000.,   nan,   nan,   nan])
    """
    try:
        numbers = np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        numbers = None
    if numbers is None or "_" in "".join(cells):  # which Python's numbers may hold
        known = {cell: number_in(cell) for cell in {*cells}}
        found = (known[cell] for cell in cells)
        either = (math.nan if number is None else number for number in found)
        return np.fromiter(either, np.float64, len(cells))
    numbers[~np.isfinite(numbers)] = np.nan
    return numbers


def number_in(cell: str) -> float | None:
    """Return the finite number that a cell holds; None if it holds none.

    Example:
        >>> number_in("1e3"), number_in("Bern"), number_in("inf"), number_in("1_0")
        (1000.0, None, None, None)
    """
    number = float_in(cell)
    return number if number is not None and math.isfinite(number) else None


def float_in(cell: str) -> float | None:
    """Return what a cell holds as a float, be it infinite; None if it is no number."""
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


def has_comma(cell: str) -> bool:
    """Return whether a cell is a number with a decimal comma."""
    return DECIMAL_COMMA.fullmatch(cell) is not None
