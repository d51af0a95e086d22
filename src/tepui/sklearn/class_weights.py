"""How much classes count in the loss, in the words of scikit-learn's estimators."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from tepui.core.checks import require
from tepui.losses import CrossEntropy, Loss, balanced_weights
from tepui.losses.classification import BALANCED

ClassWeight = Mapping[Any, float] | Literal["balanced"]


def weighted(
    loss: Loss,
    class_weight: ClassWeight | None,
    classes: NDArray[Any],
    numbers: NDArray[Any],
    weights: NDArray[Any] | None,
) -> Loss:
    """Return a loss in which classes count as told, and samples one on average.

    Args:
        loss: Without weights of classes.
        class_weight: ``"balanced"``, or numbers by class; None leaves all alike.
        classes: The classes.
        numbers: Which of them each sample has.
        weights: How much each sample counts beside that, if not all count alike.

    Raises:
        ValueError: If weights are none of these, or the loss cannot have them.

    Example:
        >>> classes, numbers = np.array(["no", "yes"]), np.array([0, 0, 0, 1])
        >>> weighted(CrossEntropy(), "balanced", classes, numbers, None).class_weights
        (0.6666666666666666, 2.0)
    """
    if class_weight is None:
        return loss
    rule = "be None beside a loss that has class weights, or is of your own"
    if not isinstance(loss, CrossEntropy) or loss.class_weights is not None:
        raise ValueError(f"class_weight must {rule}, got {class_weight!r}")
    if isinstance(class_weight, Mapping):
        unknown = [name for name in class_weight if name not in classes]
        rule = f"name classes of y ({', '.join(map(str, classes))})"
        require(not unknown, "class_weight", rule, unknown)
        factors = np.array([float(class_weight.get(name, 1.0)) for name in classes])
    else:
        rule = f'be "{BALANCED}", or numbers by class'
        require(class_weight == BALANCED, "class_weight", rule, class_weight)
        factors = np.array(balanced_weights(torch.from_numpy(numbers), len(classes)))
    mean = np.average(factors[numbers], weights=weights)
    return replace(loss, class_weights=tuple((factors / mean).tolist()))
