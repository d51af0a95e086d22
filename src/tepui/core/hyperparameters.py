"""Hyperparameters that differ between members, taken from a grid.

A baseline for diversification: members trained alike except for, say, learning rate,
weight decay and label smoothing.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any

import torch

from tepui.core.checks import require
from tepui.core.seeding import generator
from tepui.core.types import check_types


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
