"""What the labels of a data set mean, which it holds, and the same samples without."""

from collections.abc import Sequence
from copy import copy
from typing import Any, TypeVar, final

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.checks import require
from tepui.data.arrays import Arrays
from tepui.data.image_files import ImageFiles
from tepui.data.loading import at_rows, length, targets_of
from tepui.data.stored import StoredData, whole

T = TypeVar("T", bound=Dataset[Any])


def class_names(dataset: Dataset[Any]) -> tuple[str, ...]:
    """Return the names of a data set's classes, from its attribute ``classes``.

    Of several names of a class, as torchvision's ImageNet has them, the first is taken.
    A name that an earlier class has too gets its class's number.

    Example:
        >>> class Birds(Dataset):
        ...     classes = [("crane", "bird"), "heron", "crane"]
        >>> class_names(Birds())
        ('crane', 'heron', 'crane (2)')
    """
    given = getattr(whole(dataset), "classes", ())
    names: list[str] = []
    for number, name in enumerate(given if isinstance(given, list | tuple) else ()):
        first = str(name[0] if isinstance(name, tuple) and name else name)
        names.append(f"{first} ({number})" if first in names else first)
    return tuple(names)


def relabel(dataset: T, names: tuple[str, ...]) -> T:
    """Return a data set that holds some of several classes, by their numbers there.

    Args:
        dataset: ``Arrays`` or data in files, with one named class per label. Any other
            set is returned as it is, and so is one with classes that are not ``names``,
            or with labels beyond its own classes.
        names: All classes, in their order.

    Returns:
        The same samples, with ``names`` as classes; the same object where nothing has
        to change.

    Example:
        >>> drawn = Arrays(torch.ones(2, 3), torch.tensor([0, 1]), None, ("bee", "cow"))
        >>> relabel(drawn, ("ant", "bee", "cow")).targets
        tensor([1, 2])
    """
    if not isinstance(dataset, Arrays | StoredData):
        return dataset
    own, labels = dataset.classes, dataset.targets
    if own == names or not own or not {*own} <= {*names}:
        return dataset
    integers = labels.ndim == 1 and not labels.is_floating_point()
    if not integers or bool((labels >= len(own)).any()):
        return dataset
    places = torch.tensor([names.index(name) for name in own], device=labels.device)
    found = places[labels.long().clamp(min=0)].where(labels >= 0, labels.long())
    other = copy(dataset)
    vars(other).pop("held", None)  # of image files, which know their labels
    object.__setattr__(other, "targets", found.to(labels.dtype))
    object.__setattr__(other, "classes", names)
    return other


def answers_of(names: Sequence[str]) -> tuple[str, str]:
    """Return what the two answers of a yes or no, which has one output, are called.

    Of two classes the yes is the second; one name is that of a label that holds or not.

    Example:
        >>> answers_of(["ham", "spam"]), answers_of(["spam"]), answers_of([])
        (('ham', 'spam'), ('', 'spam'), ('no', 'yes'))
    """
    if len(names) == 1:
        return "", names[0]
    return (names[0], names[1]) if len(names) == 2 else ("no", "yes")


def class_subset(dataset: Dataset[Any]) -> Tensor | None:
    """Return which classes a data set holds, from its attribute ``class_subset``.

    That is a mask ``(classes,)`` over the classes that labels number; None, or no such
    attribute, stands for all of them.

    Example:
        >>> class CatsAndCows(Dataset):
        ...     classes = ("cat", "dog", "cow")
        ...     class_subset = torch.tensor([True, False, True])
        >>> class_subset(CatsAndCows())
        tensor([ True, False,  True])
    """
    mask = getattr(whole(dataset), "class_subset", None)
    if mask is None:
        return None
    boolean = isinstance(mask, Tensor) and mask.ndim == 1 and mask.dtype == torch.bool
    rule = "be a boolean tensor of shape (classes,), or None"
    require(boolean, "class_subset of the data set", rule, mask)
    subset: Tensor = mask
    return None if bool(subset.all()) else subset


def same_classes(
    argument: str, names: tuple[str, ...], expected: tuple[str, ...], owner: str
) -> None:
    """Check that labels mean the same in two data sets; sets without names pass.

    Example:
        >>> same_classes("validation", ("cat", "cow"), ("cat", "dog"), "dataset")
        Traceback (most recent call last):
        ValueError: validation must have the classes of dataset (1 is 'dog'), got 'cow'
    """
    if not names or not expected:
        return
    for label, (name, other) in enumerate(zip(names, expected, strict=False)):
        rule = f"have the classes of {owner} ({label} is {other!r})"
        require(name == other, argument, rule, name)
    rule = f"have the {len(expected)} classes of {owner}"
    require(len(names) == len(expected), argument, rule, f"{len(names)} classes")


def checked_targets(dataset: Dataset[Any]) -> Tensor:
    """Return all targets where they are held, and of other data the first two."""
    held = targets_of(dataset)
    if held is not None:
        return held
    rows = torch.arange(min(2, length(dataset)))
    return next(at_rows(dataset, [rows], device=torch.device("cpu"))).targets


NO_LABEL = -1


def unlabeled(dataset: Dataset[Any]) -> Dataset[Any]:
    """Return the same samples without labels (-1)."""
    none = torch.full((length(dataset),), NO_LABEL)
    if isinstance(dataset, Arrays):
        return Arrays(dataset.inputs, none, dataset.normalize)
    if isinstance(dataset, ImageFiles):
        files = copy(dataset)
        files.targets = none
        return files
    return _Targeted(dataset, none)


def with_targets(dataset: Dataset[Any], targets: Tensor) -> Dataset[Any]:
    """Return the same samples with other targets, of the same meaning.

    Example:
        >>> data = Arrays(torch.ones(2, 3), torch.tensor([0, 1]), None, ("bee", "cow"))
        >>> soft = with_targets(data, torch.tensor([[0.9, 0.1], [0.2, 0.8]]))
        >>> soft.classes, soft.targets.shape
        (('bee', 'cow'), torch.Size([2, 2]))
    """
    if not isinstance(dataset, Arrays | ImageFiles):
        return _Targeted(dataset, targets)
    other = copy(dataset)
    vars(other).pop("held", None)  # of image files, which know their labels
    object.__setattr__(other, "targets", targets)
    return other


@final
class _Targeted(Dataset[Any]):
    """Samples of any data set, each with another target."""

    def __init__(self, dataset: Dataset[Any], targets: Tensor) -> None:
        self.dataset, self.targets = dataset, targets
        self.classes = class_names(dataset) if targets.is_floating_point() else ()

    def __len__(self) -> int:
        return length(self.dataset)

    def __getitem__(self, index: int) -> tuple[Any, Tensor]:
        return self.dataset[index][0], self.targets[index]
