"""Weights under which rare classes count as much as frequent ones."""

import torch
from torch import Tensor

from tepui.core.checks import UNLABELED, require
from tepui.core.types import check_types


def balanced_weights(targets: Tensor, classes: int | None = None) -> tuple[float, ...]:
    """Return class weights under which every class counts the same in all.

    Args:
        targets: Labels, such as those of the training data; pixels without a label
            (-100) do not count.
        classes: How many classes there are; by default as many as the labels show.

    Returns:
        For every class ``n / (present * n_class)``, of ``n`` labels and as many classes
        as are present; 0 for one that no label has. Over the labels their mean is 1.

    Raises:
        ValueError: If there are no labels, or they are no classes.

    Example:
        >>> import torch
        >>> balanced_weights(torch.tensor([0, 0, 0, 2]), classes=3)
        (0.6666666666666666, 0.0, 2.0)
    """
    check_types(balanced_weights, locals())
    labels = targets[targets != UNLABELED]
    whole = not (targets.is_floating_point() or targets.is_complex())
    rule = "hold classes, integers from 0 on"
    require(whole, "targets", rule, targets.dtype)
    require(len(labels) > 0, "targets", "hold a label", targets)
    lowest = int(labels.min())
    require(lowest >= 0, "targets", rule, lowest)
    rule = "be positive"
    require(classes is None or classes > 0, "classes", rule, classes)
    rule = f"hold classes below {classes}, of which there are so many"
    known = classes is None or int(labels.max()) < classes
    require(known, "targets", rule, int(labels.max()))
    counts = torch.bincount(labels.long().cpu().flatten(), minlength=classes or 0)
    present = int((counts > 0).sum())
    weights = (len(labels) / (present * counts.double())).where(counts > 0, 0.0)
    return tuple(weights.tolist())
