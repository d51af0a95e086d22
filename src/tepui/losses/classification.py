"""Cross-entropy of classes and of labels, balanced weights, and consistent views."""

from dataclasses import dataclass
from typing import Literal, final

import torch
import torch.nn.functional as F
from torch import Tensor

from tepui.core.checks import UNLABELED, require
from tepui.core.members import per_member, require_each
from tepui.core.types import check_fields, check_types
from tepui.losses.base import check_outputs, like_outputs, mean_per_sample, numbers_like

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


@final
@dataclass(frozen=True)
class SoftCrossEntropy:
    """Cross-entropy at a temperature, whose square keeps gradients of one size.

    Attributes:
        temperature: What logits are divided by.
    """

    temperature: float = 1.0

    def __post_init__(self) -> None:
        check_fields(self)
        positive = self.temperature > 0
        require(positive, "temperature", "be positive", self.temperature)

    def __call__(self, outputs: Tensor, targets: Tensor, /) -> Tensor:
        """Return one loss per sample."""
        losses = cross_entropy(outputs / self.temperature, targets)
        return self.temperature**2 * losses


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


def binary_cross_entropy(
    outputs: Tensor,
    targets: Tensor,
    positive_weights: tuple[float, ...] | None = None,
) -> Tensor:
    """Per-sample cross-entropy of labels that hold or not, each on its own.

    Args:
        outputs: Logits of shape ``(samples, labels, …)``; one label is a yes or no,
            for which ``(samples,)`` will do.
        targets: 1 where a label holds and 0 where it does not, or probabilities, of
            the same shape; for one label ``(samples,)`` will do.
        positive_weights: A factor for every label on the loss where it holds.

    Returns:
        Losses of shape ``(samples,)``, over labels their mean.

    Example:
        >>> import torch
        >>> binary_cross_entropy(torch.zeros(2, 3), torch.ones(2, 3))
        tensor([0.6931, 0.6931])
    """
    wanted = like_outputs(targets, outputs)
    factors = None
    if positive_weights is not None:
        labels = outputs.shape[1] if outputs.ndim > 1 else 1
        rule = f"hold one number for each label of the outputs ({labels})"
        fits = len(positive_weights) == labels
        require(fits, "positive_weights", rule, positive_weights)
        factors = numbers_like(positive_weights, outputs)
        factors = factors.view(-1, *[1] * (outputs.ndim - 2))
    losses = F.binary_cross_entropy_with_logits(
        outputs, wanted, pos_weight=factors, reduction="none"
    )
    return mean_per_sample(losses)


@final
@dataclass(frozen=True)
class BinaryCrossEntropy:
    """Cross-entropy of labels that hold or not, or of a yes or no in one output.

    Attributes:
        positive_weights: A factor for every label on the loss where it holds, above 1
            for rare ones; none by default.
    """

    positive_weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.positive_weights is not None:
            weights = tuple(map(float, self.positive_weights))
            rule = "be positive numbers, one for each label"
            fits = min(weights, default=0.0) > 0
            require(fits, "positive_weights", rule, weights)
            object.__setattr__(self, "positive_weights", weights)

    def __call__(self, outputs: Tensor, targets: Tensor, /) -> Tensor:
        """Return one loss per sample."""
        return binary_cross_entropy(outputs, targets, self.positive_weights)


SMALLEST = 1e-7


def jensen_shannon(views: Tensor) -> Tensor:
    r"""Return the Jensen–Shannon divergence between views, for each sample.

    With :math:`\bar p` the mean of the views' probabilities, not below
    :math:`10^{-7}`,

    .. math:: \mathrm{JS} = \frac{1}{V} \sum_v \mathrm{KL}(p_v \Vert \bar p),

    as AugMix's released code takes it of a clean and two augmented views.

    Args:
        views: Logits of shape ``(views, samples, classes, …)``.

    Returns:
        Divergences of shape ``(samples,)``, over pixels their mean.

    References:
        Hendrycks et al., AugMix: A Simple Data Processing Method to Improve Robustness
        and Uncertainty, ICLR 2020.

    Example:
        >>> import torch
        >>> logits = torch.tensor([[[50.0, 0.0]], [[0.0, 50.0]]])
        >>> jensen_shannon(logits).exp()
        tensor([2.])
    """
    log_probs = views.log_softmax(2)
    probs = log_probs.exp()
    middle = probs.mean(0).clamp(min=SMALLEST).log()
    return mean_per_sample((probs * (log_probs - middle)).sum(2).mean(0))
