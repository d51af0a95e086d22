"""The loss that the targets of some data ask for."""

from typing import Any

from torch.utils.data import Dataset

from tepui.cli.values import Text
from tepui.core.checks import require
from tepui.data.loading import targets_of
from tepui.losses import CrossEntropy, Loss


def loss_for(loss: Text | None, data: Dataset[Any]) -> Loss:
    """Return the loss that was named; a cross-entropy if targets are classes.

    Raises:
        ValueError: If no loss was named though targets are no classes.
    """
    if loss is not None:
        named: Loss = loss.read()
        return named
    targets = targets_of(data)
    kinds: dict[Any, str] = {
        (1, True): (
            "numbers to predict: --loss MSE, --loss GaussianNLL, which learns their "
            "noise too, or --loss Quantiles"
        ),
        (2, False): "several labels of a sample: --loss BinaryCrossEntropy",
    }
    kind = None if targets is None else (targets.ndim, targets.is_floating_point())
    require(kind not in kinds, "--loss", f"be given for {kinds.get(kind)}", None)
    return CrossEntropy()
