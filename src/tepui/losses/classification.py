"""Cross-entropy of classes, of samples or of their pixels."""

from dataclasses import dataclass
from typing import Literal, final

import torch.nn.functional as F
from torch import Tensor

from tepui.core.checks import UNLABELED, require
from tepui.core.members import per_member, require_each
from tepui.core.types import check_fields
from tepui.losses.base import check_outputs, numbers_like

BALANCED = "balanced"
ClassWeights = tuple[float, ...] | Literal["balanced"]


def cross_entropy(
    outputs: Tensor,
    targets: Tensor,
    label_smoothing: float = 0.0,
    class_weights: tuple[float, ...] | None = None,
) -> Tensor:
    """Per-sample softmax cross-entropy.

    Args:
        outputs: Logits of shape ``(samples, classes)``, or ``(samples, classes,
            height, width)`` where every pixel has a class.
        targets: Class indices ``(samples,)`` or probabilities ``(samples, classes)``;
            for pixels ``(samples, height, width)``, of which those that are -100 have
            no label and do not count.
        label_smoothing: Share of the target spread evenly over all classes.
        class_weights: A factor for every class on what its share of the target adds to
            the loss; not divided out again.

    Returns:
        Losses of shape ``(samples,)``, over pixels their mean.

    Example:
        >>> import torch
        >>> cross_entropy(torch.zeros(1, 4), torch.tensor([2]))
        tensor([1.3863])
        >>> cross_entropy(torch.zeros(1, 2), torch.tensor([1]), class_weights=(1, 3))
        tensor([2.0794])
        >>> cross_entropy(torch.zeros(2, 4, 3, 3), torch.zeros(2, 3, 3).long())
        tensor([1.3863, 1.3863])
    """
    require(
        0 <= label_smoothing <= 1, "label_smoothing", "lie in [0, 1]", label_smoothing
    )
    check_outputs(outputs)
    floats = targets.is_floating_point()
    wanted = outputs.shape if floats else outputs.shape[:1] + outputs.shape[2:]
    if targets.shape != wanted and outputs.ndim > 1:
        rule = "hold a class for each row of outputs, or probabilities of their shape"
        got = f"{targets.dtype} of shape {tuple(targets.shape)}"
        raise ValueError(f"targets must {rule} {tuple(outputs.shape)}, got {got}")
    if not floats:
        targets = targets.long()
    weights = None
    if class_weights is not None:
        classes = outputs.shape[min(1, outputs.ndim - 1)]
        rule = f"hold one number for each of {classes} classes"
        fits = len(class_weights) == classes
        require(fits, "class_weights", rule, class_weights)
        weights = numbers_like(class_weights, outputs)
    try:
        losses = F.cross_entropy(
            outputs, targets, weights, reduction="none", label_smoothing=label_smoothing
        )
    except IndexError as error:
        raise ValueError(f"targets must be classes of the outputs: {error}") from error
    if outputs.ndim == 2:
        return losses
    if targets.is_floating_point():
        return losses.flatten(1).mean(1)
    labeled = (targets != UNLABELED).flatten(1).sum(1)
    return losses.flatten(1).sum(1) / labeled.clamp(min=1)


@final
@dataclass(frozen=True)
class CrossEntropy:
    """Cross-entropy as a value, with label smoothing that may differ by member.

    Attributes:
        label_smoothing: Share of the target spread evenly over all classes; one value,
            or one per member.
        class_weights: A factor on the loss of every class; none by default.
            ``"balanced"`` lets ``fit`` take :func:`balanced_weights` of what members
            learn from.
        consistency: Factor on the :func:`jensen_shannon` divergence between a sample
            and two more views of it, 12 in AugMix. The last augmentation makes the
            views, each anew, and not the sample that has the label. Only ``fit`` does
            so, for three times the price.
    """

    label_smoothing: float | tuple[float, ...] = per_member(0.0)
    class_weights: ClassWeights | None = None
    consistency: float = 0.0

    def __post_init__(self) -> None:
        check_fields(self)
        factor = self.consistency
        require(factor >= 0, "consistency", "be non-negative", factor)
        smoothing, rule = self.label_smoothing, "lie in [0, 1]"
        require_each(lambda s: 0 <= s <= 1, "label_smoothing", rule, smoothing)
        if self.class_weights not in (None, BALANCED):
            weights = tuple(map(float, self.class_weights))
            rule = "be numbers that are not negative, some of them positive"
            fits = min(weights, default=-1.0) >= 0 and max(weights) > 0
            require(fits, "class_weights", rule, weights)
            object.__setattr__(self, "class_weights", weights)

    def __call__(self, outputs: Tensor, targets: Tensor, /) -> Tensor:
        """Return one loss per sample."""
        assert isinstance(self.label_smoothing, float | int), "resolve with for_member"
        return cross_entropy(outputs, targets, self.label_smoothing, self.factors)

    @property
    def factors(self) -> tuple[float, ...] | None:
        """The factor of every class, None where there are none.

        Raises:
            ValueError: If they are to be balanced, which only ``fit`` does.
        """
        if isinstance(self.class_weights, str):
            rule = "be numbers where no data say what balances classes, as in fit"
            raise ValueError(f"class_weights must {rule}, got {self.class_weights!r}")
        return self.class_weights
