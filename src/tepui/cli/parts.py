"""Data sets named on the command line: their parts, and unfamiliar ones."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

from torch.utils.data import Dataset

from tepui.data import prepared_like
from tepui.data.prepared_like import image_shape

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


def unfamiliar(
    ood: Mapping[str, Data] | None, test: Dataset[Any]
) -> dict[str, Dataset[Any]] | None:
    """Return unfamiliar sets in the form of the test set.

    Args:
        ood: What the command line built, by name: the test part is taken of what has
            one, and noise gets the shape of the test images.
        test: The test set.

    Returns:
        The data sets by name; None where none was named.
    """
    if not ood:
        return None
    return {name: prepared_like(_built(data, test), test) for name, data in ood.items()}


def _built(data: Data, test: Dataset[Any]) -> Dataset[Any]:
    known = data.keywords if isinstance(data, partial) else {}
    options: dict[str, Any] = {"train": False} if "train" in known else {}
    if "shape" in known and (shape := image_shape(test)) is not None:
        options["shape"] = shape
    return cast(Callable[..., Dataset[Any]], data)(**options)
