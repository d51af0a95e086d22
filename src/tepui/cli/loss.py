"""The loss that options of the command line describe."""

from collections.abc import Sequence

from tepui.losses import CrossEntropy


def loss_named(
    label_smoothing: float | tuple[float, ...], class_weights: Sequence[float] | None
) -> CrossEntropy:
    """Return a cross-entropy with these options."""
    weights = None if class_weights is None else tuple(class_weights)
    return CrossEntropy(label_smoothing, weights)
