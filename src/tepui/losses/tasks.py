"""What outputs mean that a loss was computed of."""

from typing import Any

import torch.nn.functional as F
from torch import nn

from tepui.core.task import (
    CLASSIFICATION,
    GAUSSIAN,
    MULTI_LABEL,
    REGRESSION,
    UNKNOWN,
    Task,
)
from tepui.losses.base import Loss
from tepui.losses.classification import cross_entropy
from tepui.losses.gaussian import gaussian_nll
from tepui.losses.multi_label import binary_cross_entropy
from tepui.losses.regression import squared_error

_TASKS: dict[Any, Task] = {
    cross_entropy: CLASSIFICATION,
    binary_cross_entropy: MULTI_LABEL,
    squared_error: REGRESSION,
    gaussian_nll: GAUSSIAN,
    F.cross_entropy: CLASSIFICATION,
    F.binary_cross_entropy_with_logits: MULTI_LABEL,
    F.mse_loss: REGRESSION,
    nn.CrossEntropyLoss: CLASSIFICATION,
    nn.BCEWithLogitsLoss: MULTI_LABEL,
    nn.MSELoss: REGRESSION,
}


def task_of(loss: Loss) -> Task:
    """Return what outputs mean that a loss was computed of.

    Args:
        loss: One of these losses or functions, torch's of the same kinds, a partial
            of one, or any callable with a ``task``.

    Returns:
        The task; ``Task("unknown")`` for any other callable.

    Example:
        >>> from tepui.losses import MSE
        >>> task_of(MSE()).name, task_of(lambda outputs, targets: outputs[:, 0]).name
        ('regression', 'unknown')
    """
    named = getattr(loss, "task", None)
    if isinstance(named, Task):
        return named
    inner: Any = getattr(loss, "func", loss)
    if inner is not loss:
        return task_of(inner)
    kind = type(loss) if isinstance(loss, nn.Module) else loss
    try:
        return _TASKS.get(kind, UNKNOWN)
    except TypeError:  # a callable without a hash
        return UNKNOWN
