r"""Accuracy on data that holds only some of the classes, such as ImageNet-A and -R.

Three protocols, which give three numbers:

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

from typing import Literal, get_args

import torch
from torch import Tensor

from tepui.core.checks import (
    class_indices,
    class_mask,
    labels_match,
    logits_shape,
    one_of,
    require,
)
from tepui.metrics.accuracy import accuracy
from tepui.metrics.aggregate import predictions

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
    logits_shape(logits)
    labels_match(labels, logits)
    inside, numbered = restrict_classes(logits, labels, mask)
    if protocol == "restricted":
        return accuracy(inside, numbered, rule="logit")
    if protocol == "unrestricted":
        return accuracy(logits, labels, rule="logit")
    correct = (subset_vote(logits, mask) == labels).sum()
    return correct.to(torch.promote_types(logits.dtype, torch.float32)) / len(labels)
