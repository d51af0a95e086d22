"""Losses that return one value per sample."""

from dataclasses import dataclass
from typing import Protocol, final

import torch.nn.functional as F
from torch import Tensor

from tepui.core.checks import require
from tepui.core.per_member import per_member, require_each
from tepui.core.types import check_fields

__all__ = ["CrossEntropy", "Loss", "cross_entropy"]


class Loss(Protocol):
    """A callable ``(outputs, targets) -> (samples,)`` of per-sample losses."""

    def __call__(self, outputs: Tensor, targets: Tensor, /) -> Tensor:
        """Return one loss per sample."""


def cross_entropy(
    outputs: Tensor, targets: Tensor, label_smoothing: float = 0.0
) -> Tensor:
    """Per-sample softmax cross-entropy.

    Args:
        outputs: Logits of shape ``(samples, classes)``.
        targets: Class indices ``(samples,)`` or probabilities ``(samples, classes)``.
        label_smoothing: Share of the target spread evenly over all classes.

    Returns:
        Losses of shape ``(samples,)``.

    Example:
        >>> import torch
        >>> cross_entropy(torch.zeros(1, 4), torch.tensor([2]))
        tensor([1.3863])
    """
    require(
        0 <= label_smoothing <= 1, "label_smoothing", "lie in [0, 1]", label_smoothing
    )
    floats = targets.is_floating_point()
    wanted = outputs.shape if floats else outputs.shape[:1] + outputs.shape[2:]
    if targets.shape != wanted and outputs.ndim > 1:
        rule = "hold a class for each row of outputs, or probabilities of their shape"
        got = f"{targets.dtype} of shape {tuple(targets.shape)}"
        raise ValueError(f"targets must {rule} {tuple(outputs.shape)}, got {got}")
    if not floats:
        targets = targets.long()
    try:
        return F.cross_entropy(
            outputs, targets, reduction="none", label_smoothing=label_smoothing
        )
    except IndexError as error:
        raise ValueError(f"targets must be classes of the outputs: {error}") from error


@final
@dataclass(frozen=True)
class CrossEntropy:
    """Cross-entropy as a value, with label smoothing that may differ by member.

    Attributes:
        label_smoothing: Share of the target spread evenly over all classes; one value,
            or one per member.
    """

    label_smoothing: float | tuple[float, ...] = per_member(0.0)

    def __post_init__(self) -> None:
        check_fields(self)
        smoothing, rule = self.label_smoothing, "lie in [0, 1]"
        require_each(lambda s: 0 <= s <= 1, "label_smoothing", rule, smoothing)

    def __call__(self, outputs: Tensor, targets: Tensor, /) -> Tensor:
        """Return one loss per sample."""
        assert isinstance(self.label_smoothing, float | int), "resolve with for_member"
        return cross_entropy(outputs, targets, self.label_smoothing)
