"""Weights that another program saved, loaded into the caller's modules.

A file may be a state dict saved by ``torch.save`` (read without running anything that
is pickled in it) or a safetensors file; a state dict inside a larger dictionary is
found by the usual names, and the prefix that parallel wrappers add is taken off. What
SharpBalance's released code calls the parts of its ResNet-18 for CIFAR is understood.
"""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tepui.core.checks import require
from tepui.core.tensor_format import read_header, read_region
from tepui.ensembles.building import Factory, factories_for
from tepui.ensembles.ensemble import Ensemble
from tepui.models import ResNet18
from tepui.models.torchvision_weights import tensor_names
from tepui.modules.state import load_tensor_state

WRAPPERS = ("state_dict", "model_state_dict", "model", "net", "weights")
PREFIX = "module."
COUNTER = "num_batches_tracked"


def read_checkpoint(path: str | Path) -> dict[str, Tensor]:
    """Read a state dict."""
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"{file} must be a file with a model's weights")
    content: Any
    if file.suffix == ".safetensors":
        content = _read_safetensors(file)
    else:
        try:
            with warnings.catch_warnings():
                # Of an unusual protocol; what it cannot read it refuses.
                warnings.filterwarnings("ignore", "Detected pickle protocol")
                content = torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:  # a damaged file can fail in any way
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise ValueError(
                f"{file} must hold tensors only, written by torch.save, but: {reason}"
            ) from error
    return _tensors(content, file)


def ensemble_of(
    paths: Sequence[str | Path], factory: Factory | Sequence[Factory]
) -> Ensemble:
    """Build an ensemble whose members have the weights of some files.

    A file holds a state dict, saved by ``torch.save`` or as safetensors, alone or in a
    larger dictionary under one of the usual names. BatchNorm's counters of batches,
    which old checkpoints lack, may be missing. Nothing in a file is executed.

    Args:
        paths: One file per member.
        factory: Returns a module that the weights fit; or one factory per file, where
            members differ in architecture.

    Returns:
        The ensemble, on the CPU.

    Raises:
        FileNotFoundError: If a file is not there.
        ValueError: If a file holds something other than tensors by name, or names or
            shapes do not fit; the first of each are listed.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     files = [Path(folder) / name for name in ("a.pt", "b.pt")]
        ...     for file in files:
        ...         torch.save(nn.Linear(4, 3).state_dict(), file)
        ...     ensemble = ensemble_of(files, lambda: nn.Linear(4, 3))
        >>> ensemble.logits(torch.zeros(5, 4)).shape
        torch.Size([2, 5, 3])
    """
    require(len(paths) > 0, "paths", "name at least one file", list(paths))
    modules = [make() for make in factories_for(factory, len(paths))]
    for module, path in zip(modules, paths, strict=True):
        state = _with_counters(_renamed(read_checkpoint(path), module), module)
        load_tensor_state(module, state, str(path))
    return Ensemble(modules)


def _read_safetensors(file: Path) -> dict[str, Tensor]:
    with file.open("rb") as stream:
        header = read_header(stream, file)
        return {name: read_region(stream, header, name) for name in header.regions}


def _tensors(content: Any, file: Path) -> dict[str, Tensor]:
    inner = _wrapped(content)
    while inner is not None:
        content, inner = inner, _wrapped(inner)
    values = content.values() if isinstance(content, dict) else ()
    tensors_only = len(values) > 0 and all(isinstance(v, Tensor) for v in values)
    rule = f"hold tensors by name, or such a dictionary under one of {WRAPPERS}"
    require(tensors_only, str(file), rule, _described(content))
    if all(name.startswith(PREFIX) for name in content):
        return {name.removeprefix(PREFIX): value for name, value in content.items()}
    return dict(content)


def _wrapped(content: Any) -> dict[str, Any] | None:
    """Return what lies under one of the usual names, if anything does."""
    named = content if isinstance(content, dict) else {}
    values = (named.get(name) for name in WRAPPERS)
    return next((value for value in values if isinstance(value, dict)), None)


def _renamed(state: dict[str, Tensor], module: nn.Module) -> dict[str, Tensor]:
    """Return tensors of the released ResNet-18 by the names of ours, others as is."""
    if not isinstance(module, ResNet18):
        return state
    released = tensor_names(module.state_dict(), module.released_names())
    ours = {theirs: name for name, theirs in released.items()}
    return {ours.get(name, name): tensor for name, tensor in state.items()}


def _with_counters(state: dict[str, Tensor], module: nn.Module) -> dict[str, Tensor]:
    """Return a state with the counters that torch before 0.4.1 did not save."""
    counters = {
        name: tensor
        for name, tensor in module.state_dict().items()
        if name.split(".")[-1] == COUNTER
    }
    return counters | state


def _described(content: Any) -> str:
    if not isinstance(content, dict):
        return type(content).__name__
    kinds = {name: type(value).__name__ for name, value in list(content.items())[:4]}
    return f"a dictionary of {len(content)}: {kinds}"
