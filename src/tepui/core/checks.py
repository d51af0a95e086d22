"""Argument checks; every message names argument, rule and value."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from tepui.core.text import counted

if TYPE_CHECKING:
    from torch import Tensor

# The label of a pixel that has none, in maps of labels; torch's own convention.
UNLABELED = -100


def require(condition: bool, argument: str, rule: str, value: object) -> None:
    """Raise a ``ValueError`` that names argument, rule and value.

    Args:
        condition: Whether the rule holds.
        argument: The argument's name, as the caller wrote it.
        rule: What the argument must do or be, to follow the word "must".
        value: What was given.

    Raises:
        ValueError: If the condition is false.

    Example:
        >>> require(False, "rho", "be non-negative", -1.0)
        Traceback (most recent call last):
        ValueError: rho must be non-negative, got -1.0
    """
    if not condition:
        raise ValueError(f"{argument} must {rule}, got {value!r}")


def one_of(argument: str, value: str, known: Iterable[str]) -> None:
    """Raise a ``ValueError`` that lists the known names and the nearest ones.

    Nearness does not depend on the case of letters.

    Args:
        argument: The argument's name.
        value: What was given.
        known: The names that are allowed.

    Raises:
        ValueError: If the value is not among them.

    Example:
        >>> one_of("rule", "probabilty", ["probability", "logit", "vote"])
        Traceback (most recent call last):
        ValueError: rule must be one of probability, logit, vote, got 'probabilty' (did you mean 'probability'?)
    """  # noqa: E501 - a doctest must show the whole message
    names = list(known)
    if value not in names:
        raise ValueError(not_among(argument, [value], names))


def not_among(argument: str, values: Iterable[str], known: Iterable[str]) -> str:
    """Return in words that values are not among the known names.

    Example:
        >>> not_among("ignore", ["Age", "x"], ["age", "city"])
        "ignore must be one of age, city, got 'Age' (did you mean 'age'?), 'x'"
    """
    names = list(known)
    by_lower = {name.lower(): name for name in names}

    def shown(value: str) -> str:
        close = get_close_matches(str(value).lower(), by_lower)
        near = " or ".join(repr(by_lower[key]) for key in close)
        return f"{value!r} (did you mean {near}?)" if near else repr(value)

    given = ", ".join(map(shown, values))
    return f"{argument} must be one of {', '.join(names)}, got {given}"


def different_names(argument: str, names: Sequence[str]) -> None:
    """Raise a ``ValueError`` if two classes have one name.

    Example:
        >>> different_names("classes", ("cat", "dog", "cat"))
        Traceback (most recent call last):
        ValueError: classes must have a name for each class that no other has, got 'cat' for 0 and 2
    """  # noqa: E501 - a doctest must show the whole message
    seen: dict[str, int] = {}
    for number, name in enumerate(names):
        first = seen.setdefault(name, number)
        if first != number:
            raise ValueError(
                f"{argument} must have a name for each class that no other has, got "
                f"{name!r} for {first} and {number}"
            )


def have_values() -> bool:
    """Return whether tensors have values; none do while a graph is traced."""
    import torch  # the command line checks names without it

    return not torch.compiler.is_compiling()


def logits_shape(
    logits: "Tensor",
    *,
    min_members: int = 1,
    first_sample: int = 0,
    argument: str = "logits",
) -> None:
    """Check that logits are ``(members, samples, classes)``, floating and not NaN."""
    rule = "have shape (members, samples, classes)"
    import torch

    require(logits.ndim == 3, argument, rule, tuple(logits.shape))
    require(logits.is_floating_point(), argument, "be floating point", logits.dtype)
    members, samples, classes = shape = tuple(logits.shape)
    rule = f"hold at least {min_members} member(s)"
    require(members >= min_members, argument, rule, f"{members} in shape {shape}")
    rule = "hold at least one sample and one class"
    require(samples > 0 and classes > 0, argument, rule, shape)
    # A NaN makes the sum one; finding it takes a copy, the sum does not.
    if not have_values():
        return
    if torch.isnan(logits.detach().sum()) and (bad := torch.isnan(logits)).any():
        member, sample, _ = bad.nonzero()[0].tolist()
        raise ValueError(
            f"{argument} must not be NaN, got {int(bad.sum())} NaN value(s), "
            f"the first at member {member}, sample {first_sample + sample}"
        )


def labels_match(labels: "Tensor", logits: "Tensor") -> None:
    """Check that integer labels fit ``(members, samples, classes)`` logits."""
    _, samples, classes = logits.shape
    rule = f"have shape ({samples},) to match the logits"
    require(labels.shape == (samples,), "labels", rule, tuple(labels.shape))
    class_indices(labels, classes)


def class_indices(labels: "Tensor", classes: int, argument: str = "labels") -> None:
    """Check that labels are integers in ``[0, classes)``, or of pixels without one."""
    whole = not (labels.is_floating_point() or labels.is_complex())
    require(whole, argument, "be integers", labels.dtype)
    require(labels.numel() > 0, argument, "hold at least one label", 0)
    if labels.ndim > 1:
        labels = labels[labels != UNLABELED]
        if labels.numel() == 0:
            return
    low, high = int(labels.min()), int(labels.max())
    if low >= 0 and high < classes:
        return
    hint = ""
    if classes == 1:
        hint = "; a yes or no in one output is for tepui.losses.BinaryCrossEntropy"
    elif low < 0:
        hint = "; labels count from 0, and -1 is that of a sample without a label"
    elif low > 0 and high - low < classes:
        hint = f"; labels count from 0: subtract {low} from all of them"
    rule, values = f"lie in [0, {classes - 1}]", f"values from {low} to {high}"
    raise ValueError(
        f"{argument} must {rule} for {counted(classes, 'output')}, got {values!r}{hint}"
    )


def values_in(tensor: "Tensor", most: int = 5) -> str:
    """Return in words which values a tensor holds.

    Example:
        >>> import torch
        >>> values_in(torch.tensor([1, -1, 1])), values_in(torch.arange(9.0))
        ('values -1, 1', 'values 0, 1, 2, 3, 4, ..., 8')
    """
    # Each NaN is a value of its own for unique.
    found = [*dict.fromkeys(f"{value:g}" for value in tensor.unique().tolist())]
    shown = found if len(found) <= most + 1 else [*found[:most], "...", found[-1]]
    return f"values {', '.join(shown)}"


def class_mask(mask: "Tensor", classes: int) -> None:
    """Check that a mask says of each class whether it is kept."""
    import torch

    fits = mask.shape == (classes,) and mask.dtype == torch.bool
    rule = f"be boolean of shape ({classes},)"
    require(fits, "mask", rule, f"{mask.dtype} of shape {tuple(mask.shape)}")
