"""Hyperparameters that may differ between members, are dealt from a grid, or name when.

A field declared with :func:`per_member` holds one value for all members or a sequence
with one value each; :func:`for_member` resolves it. When something happens in a run is
an epoch (an int) or a share of the run (a float).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import field, fields, replace
from itertools import product
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from tepui.core.checks import require
from tepui.core.seeding import generator
from tepui.core.types import check_types

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Spec = TypeVar("Spec", bound=DataclassInstance)
else:
    Spec = TypeVar("Spec")


def per_member(default: Any) -> Any:
    """Declare a dataclass field that takes one value or one per member.

    Args:
        default: The field's default.

    Returns:
        The field.
    """
    return field(default=default, metadata={"per_member": True})


def values_of(value: Any) -> tuple[Any, ...]:
    """Return the values of all members, or the one they share, as a tuple.

    Args:
        value: A field's value.

    Returns:
        A tuple.

    Example:
        >>> values_of(0.1), values_of([0.1, 0.2])
        ((0.1,), (0.1, 0.2))
    """
    return tuple(value) if _is_list(value) else (value,)


def require_each(
    condition: Callable[[Any], bool], argument: str, rule: str, value: Any
) -> None:
    """Raise a ``ValueError`` unless a rule holds for every member's value.

    Args:
        condition: Whether the rule holds for one value.
        argument: The field's name.
        rule: What each value must do or be, to follow the word "must".
        value: The field's value: one for all members, or one for each of them.

    Raises:
        ValueError: If it does not hold for all values, or there are none.

    Example:
        >>> require_each(lambda rho: rho >= 0, "rho", "be non-negative", (0.1, -1.0))
        Traceback (most recent call last):
        ValueError: rho must be non-negative, got (0.1, -1.0)
    """
    require(len(values_of(value)) > 0, argument, "hold a value for each member", value)
    require(all(map(condition, values_of(value))), argument, rule, value)


def for_member(spec: Spec, member: int, members: int) -> Spec:
    """Return ``spec`` with every per-member field resolved for one member.

    Args:
        spec: A dataclass, such as a method.
        member: Which member, from 0.
        members: How many members there are.

    Returns:
        The same dataclass with one value in every field.

    Raises:
        ValueError: If a field does not hold one value per member.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Step:
        ...     size: float | tuple[float, ...] = per_member(0.1)
        >>> for_member(Step((0.1, 0.2)), 1, 2)
        Step(size=0.2)
    """
    fits = isinstance(member, int) and 0 <= member < members
    require(fits, "member", f"lie in [0, {members - 1}]", member)
    lists = lists_of(spec)
    for name, values in lists.items():
        if len(values) != members:
            raise ValueError(
                f"{name} must have one value per member ({members}), "
                f"got {len(values)}: {values}"
            )
    return replace(spec, **{name: values[member] for name, values in lists.items()})


def lists_of(spec: "DataclassInstance") -> dict[str, Sequence[Any]]:
    """Return the fields that hold a value for each member, by name."""
    return {
        item.name: getattr(spec, item.name)
        for item in fields(spec)
        if item.metadata.get("per_member") and _is_list(getattr(spec, item.name))
    }


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def hyperparameter_grid(
    members: int, *, seed: int = 0, **values: Sequence[Any]
) -> dict[str, tuple[Any, ...]]:
    """Give every member its own cell in a grid of hyperparameters.

    Cells are dealt in a random order, which is dealt again once all are taken. Adding
    members changes no other member's cell.

    Args:
        members: How many members there are.
        seed: What the order derives from.
        values: For each hyperparameter, the values of the grid.

    Returns:
        For each hyperparameter one value per member, as optimizers and losses take
        them.

    Raises:
        ValueError: If there are no members, no hyperparameters, or one has no values.

    Example:
        >>> dealt = hyperparameter_grid(3, lr=(1e-3, 1e-4), weight_decay=(0.0, 0.1))
        >>> len(dealt["lr"]), len(set(zip(dealt["lr"], dealt["weight_decay"])))
        (3, 3)
    """
    check_types(hyperparameter_grid, locals())
    require(members > 0, "members", "be positive", members)
    require(len(values) > 0, "values", "name at least one hyperparameter", 0)
    for name, choices in values.items():
        require(len(choices) > 0, name, "list at least one value", choices)
    cells = list(product(*values.values()))
    rounds = -(-members // len(cells))
    order = torch.cat(
        [
            torch.randperm(len(cells), generator=generator(seed, "grid", turn))
            for turn in range(rounds)
        ]
    )
    dealt = [cells[number] for number in order[:members].tolist()]
    return dict(zip(values, zip(*dealt, strict=True), strict=True))


def count_of(share: float, total: int) -> int:
    """Return how many of a total are a share of it, rounded down.

    Example:
        >>> count_of(0.29, 100), int(0.29 * 100), count_of(0.5, 5)
        (29, 28, 2)
    """
    return math.floor(round(share * total, 9))


def check_moment(name: str, at: int | float) -> None:
    """Require an epoch or a share of the run."""
    rule = "be a non-negative epoch (an int) or a share of the run in [0, 1] (a float)"
    epoch = isinstance(at, int) and not isinstance(at, bool) and at >= 0
    require(epoch or (isinstance(at, float) and 0 <= at <= 1), name, rule, at)


def epoch_of(name: str, at: int | float, epochs: int) -> int:
    """Return the epoch before which something happens, within a run.

    Example:
        >>> epoch_of("start_at", 0.5, epochs=30), epoch_of("start_at", 7, epochs=30)
        (15, 7)
    """
    epoch = round(at * epochs) if isinstance(at, float) else at
    require(epoch <= epochs, name, f"lie within the run ({epochs} epochs)", at)
    return epoch
