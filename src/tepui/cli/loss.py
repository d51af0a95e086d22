"""The loss that options of the command line describe."""

from typing import Any, Literal

from torch.utils.data import Dataset

from tepui.cli.known import KnownLoss
from tepui.core.checks import require
from tepui.data.loading import targets_of
from tepui.losses import BinaryCrossEntropy, CrossEntropy


def loss_named(
    loss: KnownLoss | None,
    label_smoothing: float | tuple[float, ...],
    class_weights: list[float] | Literal["balanced"] | None,
) -> KnownLoss:
    """Return the loss that was named, or a cross-entropy with these options."""
    if loss is None:
        given = class_weights
        weights = tuple(given) if isinstance(given, list) else given
        return CrossEntropy(label_smoothing, weights)
    for option, value in (
        ("label-smoothing", label_smoothing or None),
        ("class-weights", class_weights),
    ):
        rule = f"be left out with --loss {type(loss).__name__}"
        if isinstance(loss, CrossEntropy):
            rule = f"be written --loss.{option} '{value}' beside --loss CrossEntropy"
        elif isinstance(loss, BinaryCrossEntropy) and option == "class-weights":
            rule += " (--loss.positive-weights has a factor for each label)"
        require(value is None, f"--{option}", rule, value)
    return loss


def check_loss_given(loss: KnownLoss | None, data: Dataset[Any]) -> None:
    """Raise if no loss was named though targets are no classes."""
    targets = targets_of(data)
    if loss is not None or targets is None:
        return
    kinds = {
        (1, True): (
            "numbers to predict: --loss MSE, --loss GaussianNLL, which learns their "
            "noise too, or --loss Quantiles"
        ),
        (2, False): "several labels of a sample: --loss BinaryCrossEntropy",
    }
    kind = (targets.ndim, targets.is_floating_point())
    require(kind not in kinds, "--loss", f"be given for {kinds.get(kind)}", None)
