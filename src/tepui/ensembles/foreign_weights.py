"""Weights that another program saved, put into modules of the caller's.

A file may be a state dict saved by ``torch.save`` (read without running anything that
is pickled in it) or a safetensors file; a state dict inside a larger dictionary is
found by the usual names, and the prefix that parallel wrappers add is taken off. What
SharpBalance's released code calls the parts of its ResNet-18 for CIFAR is understood.
"""

import pickle
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tepui.core.checks import require
from tepui.ensembles.ensemble import Ensemble
from tepui.models import ResNet18
from tepui.models.torchvision_weights import tensor_names
from tepui.modules.state import load_tensor_state

WRAPPERS = ("state_dict", "model_state_dict", "model", "net", "weights")
PREFIX = "module."


def read_checkpoint(path: str | Path) -> dict[str, Tensor]:
    """Read a state dict."""
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"{file} must be a file with a model's weights")
    found: Any
    if file.suffix == ".safetensors":
        found = _read_safetensors(file)
    else:
        try:
            with warnings.catch_warnings():
                # Of an unusual protocol; what it cannot read it refuses.
                warnings.filterwarnings("ignore", "Detected pickle protocol")
                found = torch.load(file, map_location="cpu", weights_only=True)
        except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
            reason = str(error).splitlines()[0]
            raise ValueError(
                f"{file} must hold tensors only, written by torch.save, but: {reason}"
            ) from error
    return _tensors(found, file)


def ensemble_of(
    paths: Sequence[str | Path], factory: Callable[[], nn.Module]
) -> Ensemble:
    """Build an ensemble whose members have the weights of some files.

    Args:
        paths: One file per member.
        factory: Returns a module that the weights fit.

    Returns:
        The ensemble, on the CPU.

    Raises:
        ValueError: If names or shapes do not fit; the first of each are listed.
    """
    require(len(paths) > 0, "paths", "name at least one file", list(paths))
    modules = [factory() for _ in paths]
    for module, path in zip(modules, paths, strict=True):
        load_tensor_state(module, _own_names(read_checkpoint(path), module), str(path))
    return Ensemble(modules)


def _read_safetensors(file: Path) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(file)
    except SafetensorError as error:
        raise ValueError(
            f"{file} must be a whole safetensors file, but: {error}"
        ) from error


def _tensors(found: Any, file: Path) -> dict[str, Tensor]:
    inner = _wrapped(found)
    while inner is not None:
        found, inner = inner, _wrapped(inner)
    right = isinstance(found, dict) and len(found) > 0
    right = right and all(isinstance(value, Tensor) for value in found.values())
    require(
        right,
        str(file),
        f"hold tensors by name, or such a dictionary under one of {WRAPPERS}",
        _described(found),
    )
    if all(name.startswith(PREFIX) for name in found):
        return {name.removeprefix(PREFIX): value for name, value in found.items()}
    return dict(found)


def _wrapped(found: Any) -> dict[str, Any] | None:
    """Return what lies under one of the usual names, if anything does."""
    values = (found.get(name) for name in WRAPPERS) if isinstance(found, dict) else ()
    return next((value for value in values if isinstance(value, dict)), None)


def _own_names(state: dict[str, Tensor], module: nn.Module) -> dict[str, Tensor]:
    """Return tensors of the released ResNet-18 by the names of ours, others as is."""
    if not isinstance(module, ResNet18):
        return state
    released = tensor_names(module.state_dict(), module.released_names())
    own = {theirs: name for name, theirs in released.items()}
    return {own.get(name, name): tensor for name, tensor in state.items()}


def _described(found: Any) -> str:
    if not isinstance(found, dict):
        return type(found).__name__
    kinds = {name: type(value).__name__ for name, value in list(found.items())[:4]}
    return f"a dictionary of {len(found)}: {kinds}"
