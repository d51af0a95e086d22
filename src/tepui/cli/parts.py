"""The training and the test part of a data set named on the command line."""

from collections.abc import Callable
from typing import Any, cast

from torch.utils.data import Dataset

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
