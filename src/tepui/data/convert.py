"""Any map-style data set as tensors."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor
from torch.utils.data import Dataset, Subset, default_collate

from tepui.data.arrays import Arrays
from tepui.data.loading import as_arrays, length


def to_arrays(dataset: Dataset[Any]) -> Arrays:
    """Return a data set of ``(x, y)`` pairs as :class:`Arrays`.

    Args:
        dataset: ``Arrays`` come back as they are; a ``TensorDataset`` of two tensors
            is wrapped without a copy; a ``Subset`` of either is cut out of its
            tensors. Anything else map-style is read once and stacked.

    Returns:
        The samples as tensors, in their order.

    Raises:
        ValueError: If the data set has no length or no samples, or its items are not
            pairs that stack.

    Example:
        >>> import torch
        >>> pairs = [(torch.zeros(1, 8, 8), 3), (torch.ones(1, 8, 8), 5)]
        >>> to_arrays(pairs).targets
        tensor([3, 5])
    """
    arrays = as_arrays(dataset)
    if arrays is not None:
        return arrays
    if type(dataset) is Subset and _is_held(dataset.dataset):
        return to_arrays(dataset.dataset).subset(dataset.indices)
    return _stacked(dataset)


def _is_held(dataset: Dataset[Any]) -> bool:
    """Return whether a data set, or what it is a subset of, is held in tensors."""
    if type(dataset) is Subset:
        return _is_held(dataset.dataset)
    return as_arrays(dataset) is not None


def _stacked(dataset: Dataset[Any]) -> Arrays:
    items = [dataset[index] for index in range(length(dataset))]
    try:
        inputs, targets = default_collate(items)
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(_refusal(items)) from error
    parts = [*inputs.values()] if isinstance(inputs, Mapping) else [inputs]
    if not all(isinstance(part, Tensor) for part in [*parts, targets]):
        raise ValueError(_refusal(items))
    return Arrays(inputs, targets)


def _refusal(items: list[Any]) -> str:
    """Name the first item, and the first that differs from it."""
    described = [_describe(item) for item in items]
    got = f"{described[0]} at item 0"
    others = (n for n, text in enumerate(described) if text != described[0])
    if (index := next(others, None)) is not None:
        got += f" and {described[index]} at item {index}"
    return f"dataset must hold pairs (x, y) of tensors that stack, got {got}"


def _describe(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{tuple(value.shape)}"
    if isinstance(value, Mapping):
        parts = (f"{name}: {_describe(part)}" for name, part in value.items())
        return "{" + ", ".join(parts) + "}"
    if isinstance(value, tuple | list):
        return "(" + ", ".join(_describe(part) for part in value) + ")"
    return type(value).__name__
