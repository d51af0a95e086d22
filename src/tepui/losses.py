"""Losses that return one value per sample, and say what outputs mean.

Every loss here has a ``task`` (:class:`tepui.core.Task`), and so may one of your own:
an ensemble remembers it from ``fit``, and what it predicts follows from it. Outputs are
``(samples, outputs, …)``; axes after the second are pixels, whose losses are averaged
like those of several outputs, so that a sample has one loss.
"""

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, Protocol, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tepui.core.checks import UNLABELED, have_values, require
from tepui.core.per_member import per_member, require_each
from tepui.core.task import (
    CLASSIFICATION,
    GAUSSIAN,
    MULTI_LABEL,
    REGRESSION,
    UNKNOWN,
    Task,
)
from tepui.core.types import NEWER, check_fields, check_types

__all__ = [
    "MSE",
    "BinaryCrossEntropy",
    "CrossEntropy",
    "GaussianNLL",
    "Loss",
    "Quantiles",
    "balanced_weights",
    "binary_cross_entropy",
    "cross_entropy",
    "gaussian_nll",
    "gaussian_parameters",
    "pinball",
    "squared_error",
    "task_of",
]

# Standard deviations below a thousandth of the targets' unit are not told apart.
SMALLEST_LOG_VARIANCE = math.log(1e-6)


class Loss(Protocol):
    """A callable ``(outputs, targets) -> (samples,)`` of per-sample losses."""

    def __call__(self, outputs: Tensor, targets: Tensor, /) -> Tensor:
        """Return one loss per sample."""


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
    _check_outputs(outputs)
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
        # What is traced into a graph has no values, and must not be kept.
        tensor_of = _on if have_values() else _on.__wrapped__
        weights = tensor_of(tuple(class_weights), outputs.dtype, outputs.device)
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
        class_weights: A factor on the loss of every class, such as
            :func:`balanced_weights` of the training labels; none by default.
    """

    label_smoothing: float | tuple[float, ...] = per_member(0.0)
    class_weights: tuple[float, ...] | None = field(default=None, metadata=NEWER)
    task: ClassVar[Task] = CLASSIFICATION

    def __post_init__(self) -> None:
        check_fields(self)
        smoothing, rule = self.label_smoothing, "lie in [0, 1]"
        require_each(lambda s: 0 <= s <= 1, "label_smoothing", rule, smoothing)
        if self.class_weights is not None:
            weights = tuple(map(float, self.class_weights))
            rule = "be numbers that are not negative, some of them positive"
            fits = min(weights, default=-1.0) >= 0 and max(weights) > 0
            require(fits, "class_weights", rule, weights)
            object.__setattr__(self, "class_weights", weights)

    def __call__(self, outputs: Tensor, targets: Tensor, /) -> Tensor:
        """Return one loss per sample."""
        assert isinstance(self.label_smoothing, float | int), "resolve with for_member"
        smoothing, weights = self.label_smoothing, self.class_weights
        return cross_entropy(outputs, targets, smoothing, weights)


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
    require(whole and bool((labels >= 0).all()), "targets", rule, targets.dtype)
    require(len(labels) > 0, "targets", "hold a label", targets)
    rule = "be positive"
    require(classes is None or classes > 0, "classes", rule, classes)
    counts = torch.bincount(labels.long().cpu().flatten(), minlength=classes or 0)
    present = int((counts > 0).sum())
    weights = (len(labels) / (present * counts.double())).where(counts > 0, 0.0)
    return tuple(weights.tolist())


def binary_cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Per-sample cross-entropy of labels that hold or not, each on its own.

    Args:
        outputs: Logits of shape ``(samples, labels, …)``; one label is a yes or no.
        targets: 1 where a label holds and 0 where it does not, or probabilities, of
            the same shape; for one label ``(samples,)`` will do.

    Returns:
        Losses of shape ``(samples,)``, over labels their mean.

    Example:
        >>> import torch
        >>> binary_cross_entropy(torch.zeros(2, 3), torch.ones(2, 3))
        tensor([0.6931, 0.6931])
    """
    wanted = like_outputs(targets, outputs)
    losses = F.binary_cross_entropy_with_logits(outputs, wanted, reduction="none")
    return _of_samples(losses)


@final
@dataclass(frozen=True)
class BinaryCrossEntropy:
    """Cross-entropy of labels that hold or not, or of a yes or no in one output."""

    task: ClassVar[Task] = MULTI_LABEL

    def __call__(self, outputs: Tensor, targets: Tensor, /) -> Tensor:
        """Return one loss per sample."""
        return binary_cross_entropy(outputs, targets)


def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """Per-sample squared error.

    Args:
        outputs: Numbers of shape ``(samples, numbers, …)`` or ``(samples,)``.
        targets: The same shape; for one number ``(samples,)`` will do.

    Returns:
        Losses of shape ``(samples,)``, over several numbers their mean.

    Example:
        >>> import torch
        >>> squared_error(torch.tensor([[1.0], [3.0]]), torch.tensor([1.0, 1.0]))
        tensor([0., 4.])
    """
    return _of_samples((outputs - like_outputs(targets, outputs)).square())


@final
@dataclass(frozen=True)
class MSE:
    """Squared error: outputs are numbers."""

    task: ClassVar[Task] = REGRESSION

    def __call__(self, outputs: Tensor, targets: Tensor, /) -> Tensor:
        """Return one loss per sample."""
        return squared_error(outputs, targets)


def gaussian_parameters(outputs: Tensor, axis: int = 1) -> tuple[Tensor, Tensor]:
    """Return means and log-variances of outputs that hold both.

    Args:
        outputs: Shape ``(samples, 2 * numbers, …)``: all means, and after them as many
            logarithms of variances.
        axis: Where these lie.

    Returns:
        Means and log-variances, each of shape ``(samples, numbers, …)``; variances
        are at least 1e-6.

    Raises:
        ValueError: If there is an odd number of outputs, they are not floating point,
            or have no such axis.

    Example:
        >>> import torch
        >>> mean, log_variance = gaussian_parameters(torch.tensor([[5.0, -1.0]]))
        >>> mean, log_variance
        (tensor([[5.]]), tensor([[-1.]]))
    """
    check_types(gaussian_parameters, locals())
    require(axis >= 0, "axis", "be at least 0", axis)
    _check_outputs(outputs)
    even = outputs.ndim > axis and outputs.shape[axis] % 2 == 0
    rule = "be a mean and a log-variance for each number, 2 * numbers in all"
    require(even, "outputs", rule, f"shape {tuple(outputs.shape)}")
    mean, log_variance = outputs.chunk(2, axis)
    return mean, log_variance.clamp(min=SMALLEST_LOG_VARIANCE)


def gaussian_nll(outputs: Tensor, targets: Tensor) -> Tensor:
    """Per-sample negative log-likelihood of normal distributions.

    Args:
        outputs: Means and log-variances, see :func:`gaussian_parameters`.
        targets: Numbers of shape ``(samples, numbers, …)``; for one number
            ``(samples,)`` will do.

    Returns:
        Losses of shape ``(samples,)``, over several numbers their mean.

    Example:
        >>> import torch
        >>> gaussian_nll(torch.zeros(1, 2), torch.zeros(1)).exp()  # sqrt(2 pi)
        tensor([2.5066])
    """
    mean, log_variance = gaussian_parameters(outputs)
    error = (mean - like_outputs(targets, mean)).square()
    spread = log_variance + math.log(2 * math.pi)
    return _of_samples((spread + error * (-log_variance).exp()) / 2)


@final
@dataclass(frozen=True)
class GaussianNLL:
    """Likelihood of normal distributions, whose means and variances are outputs.

    A model has two outputs for each number: all means, and after them as many
    logarithms of variances, so that a last layer with twice as many outputs will do.
    """

    task: ClassVar[Task] = GAUSSIAN

    def __call__(self, outputs: Tensor, targets: Tensor, /) -> Tensor:
        """Return one loss per sample."""
        return gaussian_nll(outputs, targets)


def pinball(outputs: Tensor, targets: Tensor, levels: tuple[float, ...]) -> Tensor:
    """Per-sample pinball loss, which quantiles minimize.

    Args:
        outputs: Shape ``(samples, levels * numbers, …)``: the first level of all
            numbers, then the second, and so on.
        targets: Numbers of shape ``(samples, numbers, …)``; for one number
            ``(samples,)`` will do.
        levels: The levels of the quantiles, within (0, 1).

    Returns:
        Losses of shape ``(samples,)``, over levels and numbers their mean.

    Raises:
        ValueError: If outputs are not a multiple of the levels.

    Example:
        >>> import torch
        >>> pinball(torch.zeros(2, 1), torch.tensor([1.0, -1.0]), (0.9,))
        tensor([0.9000, 0.1000])
    """
    inside = len(levels) > 0 and all(0 < level < 1 for level in levels)
    require(inside, "levels", "lie in (0, 1), at least one", tuple(levels))
    fits = outputs.ndim > 1 and outputs.shape[1] % len(levels) == 0
    rule = f"be one for each of {len(levels)} levels and each number"
    require(fits, "outputs", rule, f"shape {tuple(outputs.shape)}")
    by_level = outputs.chunk(len(levels), 1)
    wanted = like_outputs(targets, by_level[0])
    losses = [
        torch.maximum(level * (wanted - output), (level - 1) * (wanted - output))
        for level, output in zip(levels, by_level, strict=True)
    ]
    return _of_samples(torch.stack(losses, 1))


@final
@dataclass(frozen=True)
class Quantiles:
    """Pinball loss: outputs are quantiles of the numbers.

    Attributes:
        levels: Which quantiles, rising within (0, 1). A model has one output for each
            level and number: the first level of all numbers, then the second.
    """

    levels: tuple[float, ...] = (0.05, 0.5, 0.95)

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", self.task.levels)

    @property
    def task(self) -> Task:
        """What the outputs mean."""
        return Task("quantiles", tuple(self.levels))

    def __call__(self, outputs: Tensor, targets: Tensor, /) -> Tensor:
        """Return one loss per sample."""
        return pinball(outputs, targets, self.levels)


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


def like_outputs(targets: Tensor, outputs: Tensor) -> Tensor:
    """Return targets in the shape and type of outputs, refusing any other shape."""
    _check_outputs(outputs)
    if targets.ndim == outputs.ndim - 1 and outputs.shape[1] == 1:
        targets = targets.unsqueeze(1)
    rule = f"have the shape of the outputs, {tuple(outputs.shape)}"
    require(targets.shape == outputs.shape, "targets", rule, tuple(targets.shape))
    return targets.to(outputs.dtype)


@lru_cache(maxsize=32)
def _on(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return numbers as a tensor, cached because copying to a GPU blocks."""
    return torch.tensor(values, dtype=dtype, device=device)


def _check_outputs(outputs: Tensor) -> None:
    floats = outputs.is_floating_point()
    require(floats, "outputs", "be floating point", outputs.dtype)


def _of_samples(losses: Tensor) -> Tensor:
    """Return the mean loss of each sample."""
    return losses if losses.ndim == 1 else losses.flatten(1).mean(1)
