"""Whether a loss can be taken of targets; if not, which could."""

from typing import Any

from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.checks import require, values_in
from tepui.data.labels import checked_targets
from tepui.losses import (
    MSE,
    BinaryCrossEntropy,
    CrossEntropy,
    GaussianNLL,
    Loss,
    Quantiles,
    binary_cross_entropy,
    cross_entropy,
)


def classifies(loss: Loss) -> bool:
    """Return whether a loss is a cross-entropy of classes."""
    inner = getattr(loss, "func", loss)
    return isinstance(loss, CrossEntropy) or inner is cross_entropy


def check_loss(outputs: Tensor, targets: Tensor, loss: Loss) -> None:
    """Let the loss refuse outputs or targets of a shape that it cannot take."""
    if classifies(loss):
        _check_targets(targets, outputs.ndim > 2)
    elif isinstance(loss, BinaryCrossEntropy | MSE | GaussianNLL | Quantiles):
        loss(outputs, targets)


def check_yes_or_no(
    argument: str, dataset: Dataset[Any], loss: Loss, *, scored: bool = False
) -> None:
    """Refuse labels outside [0, 1] for a loss of labels that hold or not.

    Labels to be scored must be 0 or 1.
    """
    inner = getattr(loss, "func", loss)
    if not isinstance(loss, BinaryCrossEntropy) and inner is not binary_cross_entropy:
        return
    targets = checked_targets(dataset)
    if scored:
        fits, rule = (targets == 0) | (targets == 1), "be 0 or 1, to be scored"
    else:
        fits = (targets >= 0) & (targets <= 1)
        rule = "be 0 or 1, or probabilities between them, for BinaryCrossEntropy"
    require(bool(fits.all()), f"labels of {argument}", rule, values_in(targets))


def _check_targets(targets: Tensor, pixels: bool) -> None:
    """Refuse targets from which a cross-entropy cannot be taken, and say what could."""
    floats = targets.is_floating_point()
    fits = targets.ndim > 2 if pixels else targets.ndim == (2 if floats else 1)
    got = f"{targets.dtype} of shape {tuple(targets.shape)}"
    if fits and floats:
        sums = targets.sum(1)
        fits = bool((targets >= 0).all() and ((sums - 1).abs() < 1e-3).all())
        if not pixels:
            got = f"rows that sum to {float(sums.min()):g} to {float(sums.max()):g}"
    rule = (
        "be integers of shape (samples, height, width) for a cross-entropy of pixels"
        if pixels
        else "be integers of shape (samples,) or probabilities of shape (samples, "
        f"classes) for a cross-entropy ({_remedy(targets)})"
    )
    require(fits, "labels", rule, got)


def _remedy(targets: Tensor) -> str:
    """Return which loss fits targets that a cross-entropy does not."""
    if targets.ndim == 2 and targets.shape[1] > 1:
        if bool(((targets == 0) | (targets == 1)).all()):
            return "tepui.losses.BinaryCrossEntropy fits several labels of each sample"
        return "tepui.losses.MSE fits numbers to predict"
    if not targets.is_floating_point():
        return "one class per sample, such as targets[:, 0]"
    numbers = "tepui.losses.MSE, GaussianNLL or Quantiles fit numbers to predict"
    if bool((targets == targets.round()).all()):
        return f"classes are integers, such as targets.long(); {numbers}"
    return numbers
