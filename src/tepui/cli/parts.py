"""The training and the test part of a data set named on the command line."""

from collections.abc import Callable
from typing import Any, cast

from torch.utils.data import Dataset

from tepui.data import arrays_of, corrupted
from tepui.data.shifted import Corrupted

Data = Callable[[], Dataset[Any]]


def part(data: Data, *, train: bool) -> Dataset[Any]:
    """Return one part of a data set.

    Args:
        data: What the command line built: a data set's class with its options set.
        train: The training part if true, else the test part.

    Returns:
        The data set.
    """
    return cast(Callable[..., Dataset[Any]], data)(train=train)


def corrupted_images(test: Dataset[Any], strength: str, device: str) -> Corrupted:
    """Return the corrupted copies that ``--corruptions`` asks for.

    Args:
        test: The clean test part.
        strength: Whose parameters to take.
        device: Where to corrupt.

    Returns:
        A mapping from ``(name, severity)`` to data sets.

    Raises:
        ValueError: If the data are no images; the message says how to go without.
    """
    try:
        return corrupted(arrays_of(test).to(device), strength=strength)
    except ValueError as error:
        raise ValueError(
            f"{error}; pass --corruptions none to leave corrupted data out"
        ) from error
