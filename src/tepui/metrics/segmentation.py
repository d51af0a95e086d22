"""Outputs that have an answer for every pixel.

:func:`pixels` makes of them what every metric takes: each pixel a sample. Accuracy and
calibration error of pixels are then :func:`accuracy` and :func:`ece`; their streaming
forms take in one batch of images after the other.
"""

from typing import final

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.metrics.chunks import Chunk, Rule, wide
from tepui.metrics.streaming import LogitsStreaming, State, WithRule


def pixels(
    outputs: Tensor, labels: Tensor, *, ignored: int | None = None
) -> tuple[Tensor, Tensor]:
    """Return every pixel as a sample, as metrics take them.

    Args:
        outputs: Logits of shape ``(members, samples, classes, …)``, the axes of an
            image last.
        labels: Class indices of shape ``(samples, …)``.
        ignored: The label of pixels that are left out, if there is one.

    Returns:
        Logits of shape ``(members, pixels, classes)`` and labels ``(pixels,)``.

    Raises:
        ValueError: If the shapes do not fit, or no pixel is left.

    Example:
        >>> outputs, labels = torch.zeros(2, 5, 3, 8, 8), torch.zeros(5, 8, 8).long()
        >>> logits, answers = pixels(outputs, labels)
        >>> logits.shape, answers.shape
        (torch.Size([2, 320, 3]), torch.Size([320]))
    """
    shape = tuple(outputs.shape)
    rule = "have shape (members, samples, classes, …)"
    require(outputs.ndim >= 3, "outputs", rule, shape)
    wanted = (shape[1], *shape[3:])
    rule = f"have shape {wanted} to match the outputs"
    require(tuple(labels.shape) == wanted, "labels", rule, tuple(labels.shape))
    logits, answers = outputs.movedim(2, -1).flatten(1, -2), labels.flatten()
    if ignored is not None:
        kept = answers != ignored
        logits, answers = logits[:, kept], answers[kept]
        rule = f"hold a pixel that is not ignored, {ignored}"
        require(len(answers) > 0, "labels", rule, "none")
    return logits, answers


def mean_iou(logits: Tensor, labels: Tensor, *, rule: Rule = "probability") -> Tensor:
    """Mean over classes of intersection over union (mIoU).

    For each class, the pixels that have it and are predicted to, over those of which
    either is true. Higher is better; range [0, 1]. Classes that neither occur nor are
    predicted are left out.

    Args:
        logits: Logits of shape ``(members, samples, classes)``; :func:`pixels` makes
            them of images.
        labels: Class indices of shape ``(samples,)``.
        rule: How members are combined.

    Returns:
        A scalar.

    Example:
        >>> logits = torch.tensor([[[2.0, 0.0], [0.0, 1.0], [0.0, 3.0]]])
        >>> mean_iou(logits, torch.tensor([0, 0, 1]))
        tensor(0.5000)
    """
    return MeanIoU(rule=rule).once(logits, labels)


@final
class MeanIoU(WithRule, LogitsStreaming[Tensor]):
    """Streaming :func:`mean_iou`, with its ``rule``."""

    num_states = 2

    def statistics(self, chunk: Chunk) -> State:
        """Return pixels in the intersection and in the union of each class."""
        predicted, classes = chunk.ensemble_top(self.rule)[1], chunk.logits.shape[2]
        right = predicted == chunk.labels
        both = torch.bincount(predicted[right], minlength=classes)
        either = torch.bincount(predicted, minlength=classes)
        either += torch.bincount(chunk.labels, minlength=classes) - both
        return both, either

    def value(self, *state: Tensor) -> Tensor:
        """Return the mean over classes that occur or are predicted."""
        both, either = state
        return (wide(both) / either)[either > 0].mean()
