"""Whether two data sets mean the same by their labels."""

from typing import Any

from torch.utils.data import Dataset

from tepui.core.checks import require
from tepui.data.prepared_like import whole


def class_names(dataset: Dataset[Any]) -> tuple[str, ...]:
    """Return the names of a data set's classes, from its attribute ``classes``."""
    names = getattr(whole(dataset), "classes", ())
    return tuple(map(str, names)) if isinstance(names, list | tuple) else ()


def same_classes(
    argument: str, found: tuple[str, ...], expected: tuple[str, ...], owner: str
) -> None:
    """Check that labels mean the same in two data sets; sets without names pass.

    Example:
        >>> same_classes("validation", ("cat", "cow"), ("cat", "dog"), "dataset")
        Traceback (most recent call last):
        ValueError: validation must have the classes of dataset (1 is 'dog'), got 'cow'
    """
    if not found or not expected:
        return
    for label, (name, right) in enumerate(zip(found, expected, strict=False)):
        rule = f"have the classes of {owner} ({label} is {right!r})"
        require(name == right, argument, rule, name)
    rule = f"have the {len(expected)} classes of {owner}"
    require(len(found) == len(expected), argument, rule, f"{len(found)} classes")
