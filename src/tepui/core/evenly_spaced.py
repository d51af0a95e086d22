"""Rows of a part of many samples, evenly spaced from the first to the last."""

import torch
from torch import Tensor

# float32 holds every integer up to this one.
COUNTED = 2**24


def evenly_spaced(size: int, count: int) -> Tensor:
    """Return row numbers, ``count`` of ``size`` or all where there are fewer.

    Where float32 can count the rows it chooses them, since runs are known again by
    samples that it chose and an exact quotient may lie one row beside its rounding.

    Args:
        size: How many rows there are.
        count: How many of them to take.

    Returns:
        Rows in ascending order, none twice.

    Example:
        >>> evenly_spaced(9, 3), evenly_spaced(2, 3)
        (tensor([0, 4, 8]), tensor([0, 1]))
    """
    last, taken = size - 1, min(size, count)
    if last > COUNTED:
        return torch.arange(taken, device="cpu") * last // max(taken - 1, 1)
    places = torch.linspace(0, last, taken, dtype=torch.float32, device="cpu")
    rows: Tensor = places.long().unique()
    return rows
