"""A module's state as tensors, and the models that can be rebuilt from a file."""

from inspect import isclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from tepui import models
from tepui.checks import one_of, require
from tepui.models.base import Model
from tepui.pruning import adopt_masks


def tensor_state(module: nn.Module) -> dict[str, Tensor]:
    """Return a module's state dict, which must hold tensors only.

    Args:
        module: Any module.

    Returns:
        Tensors by name.

    Raises:
        ValueError: If an entry is no tensor.
    """
    state: dict[str, Any] = module.state_dict()
    for name, value in state.items():
        require(
            isinstance(value, Tensor),
            f"state of {type(module).__name__}",
            "hold tensors only",
            f"{type(value).__name__} in {name!r}",
        )
    return state


def load_tensor_state(module: nn.Module, state: dict[str, Tensor], where: str) -> None:
    """Load tensors into a module, naming what does not fit.

    Args:
        module: The module.
        state: Tensors by name; masks of pruned weights are taken over.
        where: What they are, for the message.

    Raises:
        ValueError: If names or shapes differ.
    """
    adopt_masks(module, state)
    own = tensor_state(module)
    missing = [name for name in own if name not in state]
    unexpected = [name for name in state if name not in own]
    if missing or unexpected:
        raise ValueError(
            f"{where} must fit {type(module).__name__}, got missing {missing[:3]} "
            f"({len(missing)}) and unexpected {unexpected[:3]} ({len(unexpected)})"
        )
    for name, tensor in state.items():
        require(
            tensor.shape == own[name].shape,
            f"{name!r} in {where}",
            f"have shape {tuple(own[name].shape)}",
            tuple(tensor.shape),
        )
    module.load_state_dict(state)


def description(module: nn.Module) -> dict[str, Any]:
    """Return how to rebuild a module, as JSON holds it.

    Args:
        module: Any module.

    Returns:
        Name and arguments of a model of ``tepui.models``; of any other the name only.
    """
    kind = type(module)
    if isinstance(module, Model) and getattr(models, kind.__name__, None) is kind:
        return {"model": kind.__name__, "config": module.config}
    return {"model": f"{kind.__module__}.{kind.__qualname__}", "config": None}


def rebuilt(described: dict[str, Any], file: Path) -> nn.Module:
    """Build the model that :func:`description` described; nothing else is run.

    Args:
        described: Name and arguments.
        file: Where they were read, for messages.

    Returns:
        The untrained model.

    Raises:
        ValueError: If it is not one of ``tepui.models``, or its arguments do not fit.
    """
    name = described["model"]
    if described["config"] is None:
        raise ValueError(
            f"factory must be given: {file} holds members of type {name}, which is "
            "not one of tepui.models"
        )
    one_of(f"model in {file}", name, _rebuildable())
    try:
        module: nn.Module = getattr(models, name)(**described["config"])
    except TypeError as error:
        raise ValueError(
            f"config in {file} must hold the arguments of {name}, but: {error}"
        ) from error
    return module


def _rebuildable() -> list[str]:
    """Names of models; a file may not call the functions beside them."""
    kinds = {name: getattr(models, name) for name in models.__all__}
    return [n for n, kind in kinds.items() if isclass(kind) and issubclass(kind, Model)]


def take_dtypes(module: nn.Module, state: dict[str, Tensor]) -> None:
    """Give a rebuilt module the number types it was saved in.

    Args:
        module: The module, changed in place.
        state: Tensors by name.
    """
    for name, own in (*module.named_parameters(), *module.named_buffers()):
        saved = state.get(name, own)
        if saved.is_floating_point():
            own.data = own.data.to(saved.dtype)
