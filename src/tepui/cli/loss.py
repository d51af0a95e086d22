"""The loss that options of the command line describe."""

from collections.abc import Sequence

from tepui.cli.parsing import KnownLoss
from tepui.core.checks import require
from tepui.losses import CrossEntropy


def loss_named(
    loss: KnownLoss | None,
    label_smoothing: float | tuple[float, ...],
    class_weights: Sequence[float] | None,
) -> KnownLoss:
    """Return the loss that was named, or a cross-entropy with these options."""
    if loss is None:
        weights = None if class_weights is None else tuple(class_weights)
        return CrossEntropy(label_smoothing, weights)
    rule = f"be left out with --loss {type(loss).__name__}"
    require(label_smoothing == 0.0, "--label-smoothing", rule, label_smoothing)
    require(class_weights is None, "--class-weights", rule, class_weights)
    return loss
