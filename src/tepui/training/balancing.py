"""Class weights that follow from the labels members learn from."""

from dataclasses import replace
from typing import Any

from torch import Tensor, nn
from torch.utils.data import Dataset

from tepui.core.checks import UNLABELED, class_indices, require
from tepui.data.class_names import class_names
from tepui.data.loading import targets_of
from tepui.losses import CrossEntropy, Loss, balanced_weights
from tepui.losses.classification import BALANCED
from tepui.training.inputs import few_of, output_width

_NAME = "class_weights"


def balanced(loss: Loss, data: Dataset[Any], member: nn.Module) -> Loss:
    """Return a loss with numbers in the place of the word ``"balanced"``.

    Args:
        loss: Any loss; others are returned as they are.
        data: What members learn from.
        member: One of them, whose outputs are the classes.

    Raises:
        ValueError: If labels are not known beforehand or are no classes, or a class has
            no sample.
    """
    if not isinstance(loss, CrossEntropy) or loss.class_weights != BALANCED:
        return loss
    labels = targets_of(data)
    rule = "be numbers where labels are not held in memory (or use Arrays)"
    require(labels is not None, _NAME, rule, BALANCED)
    assert labels is not None
    classes = output_width(member, few_of(data, [member]), loss)
    rule = "be left out where targets are probabilities"
    require(not labels.is_floating_point(), _NAME, rule, BALANCED)
    class_indices(labels, classes)
    if absent := _absent(labels, classes, class_names(data)):
        rule = f"be numbers where no training sample has {', '.join(absent)}"
        require(False, _NAME, rule, BALANCED)
    return replace(loss, class_weights=balanced_weights(labels, classes))


def _absent(labels: Tensor, classes: int, names: tuple[str, ...]) -> list[str]:
    """Return the classes that no label has, by name where they have names."""
    present = {*labels[labels != UNLABELED].unique().tolist()}
    missing = [number for number in range(classes) if number not in present]
    named = len(names) == classes
    return [f"class {n} ({names[n]!r})" if named else f"class {n}" for n in missing]
