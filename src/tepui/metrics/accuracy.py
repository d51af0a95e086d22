"""How often members and ensemble are right: of all samples, of each class, of pixels.

Accuracy counts samples, so that a class of few samples hardly shows in it. Of single
classes there are recall, precision, and F1, and the balanced accuracy counts all
classes the same.

Outputs that have an answer for every pixel become samples by :func:`pixels`. Accuracy
and calibration error of pixels are then :func:`accuracy` and :func:`ece`; their
streaming forms take in one batch of images after the other.

For data that hold only some of the classes, such as ImageNet-A and -R, there are three
protocols, which give three numbers:

- ``restricted``, the usual one: members' logits are averaged, and the largest among the
  classes of the data set decides.
- ``unrestricted``: the largest averaged logit among all classes decides.
- ``subset_vote``, the rule of the code released with Scalable Ensemble Diversification:
  each member votes for its largest logit among *all* classes, votes for classes that
  are not in the data set are dropped, and the most votes decide. A vote outside costs
  nothing as long as one member votes inside, so the rule favors many members that
  differ; a single model that errs outside is simply wrong.

Differs from the released code: a sample without any vote counts as wrong. There it is
counted as the first class of the data set.
"""

from collections.abc import Mapping
from itertools import product
from typing import Literal, NamedTuple, final, get_args

import torch
from torch import Tensor

from tepui.core.checks import class_indices, class_mask, one_of, require
from tepui.metrics.chunks import Chunk, Rule, check_logits, dtype_of, predictions, wide
from tepui.metrics.streaming import LogitsStreaming, SampleMean, State, Value, WithRule


def individual_accuracy(logits: Tensor, labels: Tensor) -> Tensor:
    """Accuracy of each member, ``(1/N) Σ_n 1[argmax f_m(x_n) = y_n]``.

    Higher is better; range [0, 1].

    Args:
        logits: Logits of shape ``(members, samples, classes)``.
        labels: Class indices of shape ``(samples,)``.

    Returns:
        Accuracies of shape ``(members,)``.

    Example:
        >>> logits = torch.tensor([[[2.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 3.0]]])
        >>> individual_accuracy(logits, torch.tensor([0, 1]))
        tensor([1.0000, 0.5000])
    """
    return IndividualAccuracy().once(logits, labels)


@final
class IndividualAccuracy(SampleMean):
    """Streaming :func:`individual_accuracy`."""

    def per_sample(self, chunk: Chunk) -> Tensor:
        """Return whether each member is right, ``(members, samples)``."""
        return chunk.top[1] == chunk.labels


def accuracy(logits: Tensor, labels: Tensor, *, rule: Rule = "probability") -> Tensor:
    """Accuracy of the ensemble, ``(1/N) Σ_n 1[ensemble prediction of x_n = y_n]``.

    Higher is better; range [0, 1].

    Args:
        logits: Logits of shape ``(members, samples, classes)``.
        labels: Class indices of shape ``(samples,)``.
        rule: How members are combined; :func:`ensemble_predictions` says how ties end.

    Returns:
        A scalar.

    Example:
        >>> logits = torch.tensor([[[2.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 3.0]]])
        >>> accuracy(logits, torch.tensor([0, 1]))
        tensor(1.)
    """
    return Accuracy(rule=rule).once(logits, labels)


@final
class Accuracy(WithRule, SampleMean):
    """Streaming :func:`accuracy`, with its ``rule``."""

    def per_sample(self, chunk: Chunk) -> Tensor:
        """Return whether the ensemble is right."""
        return chunk.correct(self.rule)


def corruption_accuracy(accuracies: Mapping[tuple[str, int], float | Tensor]) -> Tensor:
    """Mean over corruption types of the mean accuracy over severities.

    ``(1/|T|) Σ_t (1/|S|) Σ_s accuracy(t, s)``. Higher is better; range and unit are
    those of the accuracies given, fractions or percent.

    Args:
        accuracies: One accuracy for each pair of corruption type and severity; every
            type must come at every severity.

    Returns:
        A scalar.

    Raises:
        ValueError: If there is no accuracy, one is not a scalar, or a cell is missing.

    Example:
        >>> corruption_accuracy({("fog", 1): 0.75, ("fog", 5): 0.25})
        tensor(0.5000)
    """
    require(len(accuracies) > 0, "accuracies", "hold at least one cell", accuracies)
    kinds, severities = ({k for k, _ in accuracies}, {s for _, s in accuracies})
    missing = sorted({*product(kinds, severities)} - {*accuracies})
    rule = "hold every corruption type at every severity"
    require(not missing, "accuracies", rule, f"none for {missing}")
    total = sum(_scalar(cell, value) for cell, value in accuracies.items())
    # In a complete grid the mean of means is the mean over all cells.
    mean = total / len(accuracies)
    return mean if isinstance(mean, Tensor) else torch.tensor(mean)


def _scalar(cell: tuple[str, int], value: float | Tensor) -> float | Tensor:
    if not isinstance(value, Tensor):
        return float(value)
    name, shape = f"accuracies[{cell!r}]", tuple(value.shape)
    require(value.ndim == 0, name, "be a scalar, not of a shape", shape)
    return value.detach().to(dtype_of(value))


class ClassRates(NamedTuple):
    """Scores of each class, ``(classes,)``; NaN where a share is one of nothing.

    Attributes:
        samples: Whole number of samples of the class.
        recall: The share of these that is predicted to be of it; NaN without samples.
        precision: The share of those predicted to be of the class that are; NaN where
            none is predicted.
        f1: Harmonic mean of both; NaN where the class neither occurs nor is predicted.
    """

    samples: Tensor
    recall: Tensor
    precision: Tensor
    f1: Tensor


def class_scores(
    logits: Tensor, labels: Tensor, *, rule: Rule = "probability"
) -> ClassRates:
    """Recall, precision and F1 of each class.

    With ``n_c`` samples of class c, ``p_c`` predictions of it and ``r_c`` that are
    right: ``r_c/n_c``, ``r_c/p_c`` and ``2 r_c/(n_c + p_c)``. Higher is better; range
    [0, 1].

    Args:
        logits: Logits of shape ``(members, samples, classes)``.
        labels: Class indices of shape ``(samples,)``.
        rule: How members are combined.

    Returns:
        These and the number of samples, each of shape ``(classes,)``.

    Example:
        >>> logits = torch.tensor([[[2.0, 0.0], [0.0, 1.0], [0.0, 3.0]]])
        >>> found = class_scores(logits, torch.tensor([0, 0, 1]))
        >>> found.samples, found.recall
        (tensor([2, 1]), tensor([0.5000, 1.0000]))
        >>> found.precision, found.f1
        (tensor([1.0000, 0.5000]), tensor([0.6667, 0.6667]))
    """
    return ClassScores(rule=rule).once(logits, labels)


class _ByClass(WithRule, LogitsStreaming[Value]):
    num_states = 3

    def statistics(self, chunk: Chunk) -> State:
        """Return samples, predictions and right predictions of each class."""
        predicted, classes = chunk.ensemble_top(self.rule)[1], chunk.logits.shape[2]
        right = predicted[predicted == chunk.labels]
        samples, chosen, both = (
            torch.bincount(each, minlength=classes)
            for each in (chunk.labels, predicted, right)
        )
        return samples, chosen, both


@final
class ClassScores(_ByClass[ClassRates]):
    """Streaming :func:`class_scores`, with its ``rule``."""

    def value(self, *state: Tensor) -> ClassRates:
        """Return the rates of these numbers."""
        return rates_of(*state)


def balanced_accuracy(
    logits: Tensor, labels: Tensor, *, rule: Rule = "probability"
) -> Tensor:
    """Mean recall of the classes that occur, each counted the same.

    Equal to the accuracy where all classes have as many samples. Higher is better;
    range [0, 1].

    Args:
        logits: Logits of shape ``(members, samples, classes)``.
        labels: Class indices of shape ``(samples,)``.
        rule: How members are combined.

    Returns:
        A scalar.

    Example:
        >>> logits = torch.tensor([[[2.0, 0.0], [0.0, 1.0], [0.0, 3.0]]])
        >>> balanced_accuracy(logits, torch.tensor([0, 0, 1]))
        tensor(0.7500)
    """
    return BalancedAccuracy(rule=rule).once(logits, labels)


@final
class BalancedAccuracy(_ByClass[Tensor]):
    """Streaming :func:`balanced_accuracy`, with its ``rule``."""

    def value(self, *state: Tensor) -> Tensor:
        """Return the mean over classes that occur."""
        return rates_of(*state).recall.nanmean()


def rates_of(samples: Tensor, predicted: Tensor, right: Tensor) -> ClassRates:
    """Return the rates of how often each class occurs, is predicted, and rightly so.

    Example:
        >>> counts = torch.tensor([4, 0]), torch.tensor([0, 2]), torch.tensor([0, 0])
        >>> rates_of(*counts).precision
        tensor([nan, 0.], dtype=torch.float64)
    """
    both = wide(right)
    return ClassRates(
        samples, both / samples, both / predicted, 2 * both / (samples + predicted)
    )


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
class MeanIoU(_ByClass[Tensor]):
    """Streaming :func:`mean_iou`, with its ``rule``."""

    def value(self, *state: Tensor) -> Tensor:
        """Return the mean over classes that occur or are predicted."""
        samples, predicted, both = state
        either = samples + predicted - both
        return (wide(both) / either)[either > 0].mean()


Protocol = Literal["restricted", "unrestricted", "subset_vote"]
"""How members are combined and classes left out."""


def restrict_classes(
    logits: Tensor, labels: Tensor, mask: Tensor
) -> tuple[Tensor, Tensor]:
    """Restrict logits and labels to some of the classes.

    Args:
        logits: Of all classes, along the last axis.
        labels: Class indices, all of classes that are kept.
        mask: Which classes are kept, ``(classes,)``.

    Returns:
        The logits of those classes, and the labels numbered among them.

    Raises:
        ValueError: If the mask does not fit the classes, or a label is of a class that
            is left out.

    Example:
        >>> mask = torch.tensor([False, True, False, True])
        >>> restrict_classes(torch.eye(4), torch.tensor([3, 1, 1, 3]), mask)[1]
        tensor([1, 0, 0, 1])
    """
    rule = "have classes along their last axis"
    require(logits.ndim > 0, "logits", rule, f"shape {tuple(logits.shape)}")
    classes = logits.shape[-1]
    class_mask(mask, classes)
    class_indices(labels, classes)
    labels = labels.long()
    outside = int((~mask[labels]).sum())
    rule = "belong to classes in the mask"
    require(outside == 0, "labels", rule, f"{outside} outside")
    return logits[..., mask], (mask.cumsum(0) - 1)[labels]


def subset_vote(logits: Tensor, mask: Tensor) -> Tensor:
    """Class with the most votes among those of a subset; others' votes are dropped.

    Of classes with equally many votes the first wins, as in the released code.

    Args:
        logits: Logits of all classes, of shape ``(members, samples, classes)``.
        mask: Which classes are in the subset, ``(classes,)``.

    Returns:
        Class indices of shape ``(samples,)``, numbered among all classes; -1 where no
        member votes inside the subset.

    Example:
        >>> logits = torch.eye(3)[[0, 0, 2]].unsqueeze(1)  # two of three vote outside
        >>> subset_vote(logits, torch.tensor([False, True, True]))
        tensor([2])
    """
    chosen = predictions(logits).T
    classes = logits.shape[-1]
    class_mask(mask, classes)
    votes = torch.zeros(len(chosen), classes, dtype=torch.long, device=logits.device)
    votes.scatter_add_(1, chosen, mask[chosen].long())
    most, _ = votes.max(-1)
    return votes.argmax(-1).masked_fill(most == 0, -1)


def subset_accuracy(
    logits: Tensor, labels: Tensor, mask: Tensor, *, protocol: Protocol = "restricted"
) -> Tensor:
    """Accuracy of the ensemble on data that holds only some of the classes.

    Higher is better; range [0, 1].

    Args:
        logits: Logits of all classes, of shape ``(members, samples, classes)``.
        labels: Class indices of shape ``(samples,)``, numbered among all classes.
        mask: Which classes the data set holds, ``(classes,)``.
        protocol: ``restricted``, ``unrestricted`` or ``subset_vote``.

    Returns:
        A scalar.

    Raises:
        ValueError: If a label is of a class that is not in the mask.

    Example:
        >>> logits = torch.tensor([[[9.0, 0.0, 1.0]], [[9.0, 1.0, 0.0]]])
        >>> labels, mask = torch.tensor([1]), torch.tensor([False, True, True])
        >>> subset_accuracy(logits, labels, mask)
        tensor(1.)
        >>> subset_accuracy(logits, labels, mask, protocol="subset_vote")
        tensor(0.)
    """
    one_of("protocol", protocol, get_args(Protocol))
    check_logits(logits, labels)
    inside, numbered = restrict_classes(logits, labels, mask)
    if protocol == "restricted":
        return accuracy(inside, numbered, rule="logit")
    if protocol == "unrestricted":
        return accuracy(logits, labels, rule="logit")
    correct = (subset_vote(logits, mask) == labels).sum()
    return correct.to(torch.promote_types(logits.dtype, torch.float32)) / len(labels)
