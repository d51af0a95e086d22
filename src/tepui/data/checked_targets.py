"""Which targets are looked at before anything is done with a data set."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, Subset

from tepui.data.loading import at_rows, length, targets_of

FEW = 2
# Where data sets of others have their targets, torchvision's among them.
ATTRIBUTES = ("targets", "labels")


def checked_targets(dataset: Dataset[Any]) -> Tensor:
    """Return all targets where they are held, and of other data those of few samples.

    These are the first two, and the ones of lowest and highest target as far as an
    attribute ``targets`` or ``labels`` tells. They are read like any other, since what
    the attribute says may change on the way (by ``target_transform``).

    Example:
        >>> class Birds(list):
        ...     labels = [1, 0, 2, 7, 3]
        >>> checked_targets(Birds((torch.zeros(4), label) for label in Birds.labels))
        tensor([1, 0, 7])
    """
    held = targets_of(dataset)
    if held is not None:
        return held
    first = range(min(FEW, length(dataset)))
    rows = torch.tensor([*dict.fromkeys([*first, *_extremes(dataset)])])
    return next(at_rows(dataset, [rows], device=torch.device("cpu"))).targets


def _extremes(dataset: Dataset[Any]) -> list[int]:
    """Return where a data set says that its lowest and highest target lie."""
    told = _told(dataset)
    if told is None or told.numel() == 0:
        return []
    values = told.reshape(len(told), -1)
    return [int(values.amin(1).argmin()), int(values.amax(1).argmax())]


def _told(dataset: Dataset[Any]) -> Tensor | None:
    """Return what a data set says of each target; None for what are no numbers."""
    if isinstance(dataset, Subset):
        told = _told(dataset.dataset)
        return None if told is None else told[torch.as_tensor(dataset.indices)]
    for name in ATTRIBUTES:
        given = getattr(dataset, name, None)
        if isinstance(given, Tensor | np.ndarray | list | tuple):
            try:
                told = torch.as_tensor(given, device="cpu")
            except (TypeError, ValueError, RuntimeError):  # words, or ragged rows
                return None
            # Some have the names of their classes there, or all labels once.
            return told if told.ndim and len(told) == length(dataset) else None
    return None
