"""Labels of one data set by the numbers that classes have in another."""

from copy import copy
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.data.arrays import Arrays
from tepui.data.stored import StoredData

T = TypeVar("T", bound=Dataset[Any])


def numbered_as(dataset: T, names: tuple[str, ...]) -> T:
    """Return a data set that holds some of several classes, by their numbers there.

    Args:
        dataset: ``Arrays`` or data in files, with one named class per label. Any other
            set is returned as it is, and so is one with classes that are not ``names``,
            or with labels beyond its own classes.
        names: All classes, in their order.

    Returns:
        The same samples, with ``names`` as classes; the same object where nothing has
        to change.

    Example:
        >>> drawn = Arrays(torch.ones(2, 3), torch.tensor([0, 1]), None, ("bee", "cow"))
        >>> numbered_as(drawn, ("ant", "bee", "cow")).targets
        tensor([1, 2])
    """
    if not isinstance(dataset, Arrays | StoredData):
        return dataset
    own, labels = dataset.classes, dataset.targets
    if own == names or not own or not {*own} <= {*names}:
        return dataset
    if not _are_classes(labels, len(own)):
        return dataset
    places = torch.tensor([names.index(name) for name in own], device=labels.device)
    found = places[labels.long().clamp(min=0)].where(labels >= 0, labels.long())
    other = copy(dataset)
    vars(other).pop("held", None)  # of image files, which know their labels
    object.__setattr__(other, "targets", found.to(labels.dtype))
    object.__setattr__(other, "classes", names)
    return other


def _are_classes(labels: Tensor, classes: int) -> bool:
    """Return whether labels are numbers of so many classes, one per sample."""
    whole = labels.ndim == 1 and not labels.is_floating_point()
    return whole and bool((labels < classes).all())
