"""State dicts in files of other programs, read without running what is in them.

A file is one of ``torch.save`` or safetensors. A folder is one of Hugging Face's
``save_pretrained`` or Trainer: one file of weights, or several with an index. A state
dict inside a larger dictionary, as Lightning and most training scripts write it, is
found by the usual names.
"""

import argparse
import pathlib
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.core.json_text import parsed
from tepui.core.tensor_format import read_all

# Where a state dict lies in a larger dictionary; "module" in DeepSpeed's.
WRAPPERS = ("state_dict", "model_state_dict", "model", "net", "module", "weights")
# What a folder calls its weights, the first that is there.
IN_FOLDERS = ("model.safetensors", "pytorch_model.bin")
INDEX = ".index.json"
# What training scripts store beside weights: values that hold no code and run none.
_NUMPY_SCALAR = np.float64(0).__reduce__()[0]
INERT: list[Any] = [
    argparse.Namespace,
    pathlib.PosixPath,
    np.dtype,
    *(type(np.dtype(kind)) for kind in ("?", "i4", "i8", "f4", "f8")),
    _NUMPY_SCALAR,
    (_NUMPY_SCALAR, "numpy.core.multiarray.scalar"),  # its name before numpy 2
]


def read_checkpoint(path: str | Path) -> dict[str, Tensor]:
    """Read the state dict in a file or folder."""
    place = Path(path)
    if place.is_dir():
        return _read_folder(place)
    if not place.is_file():
        raise FileNotFoundError(f"{place} must be a file with a model's weights")
    if place.suffix == ".safetensors":
        return _tensors(read_all(place), place)
    return _tensors(_read_torch(place), place)


def _read_folder(folder: Path) -> dict[str, Tensor]:
    for name in IN_FOLDERS:
        if (folder / name).is_file():
            return read_checkpoint(folder / name)
        index = folder / f"{name}{INDEX}"
        if index.is_file():
            return _read_parts(index)
    raise FileNotFoundError(f"{folder} must hold weights: one of {IN_FOLDERS}")


def _read_parts(index: Path) -> dict[str, Tensor]:
    """Read weights that an index says lie in several files beside it."""
    places = parsed(index.read_bytes(), index, "an index of weights").get("weight_map")
    rule = "say in which file beside it each tensor lies"
    named = isinstance(places, Mapping) and all(
        isinstance(name, str) and Path(name).name == name for name in places.values()
    )
    require(named, str(index), rule, type(places).__name__)
    state: dict[str, Tensor] = {}
    for name in sorted(set(places.values())):
        state |= read_checkpoint(index.parent / name)
    return state


def _read_torch(file: Path) -> Any:
    try:
        with warnings.catch_warnings(), torch.serialization.safe_globals(INERT):
            # Of an unusual protocol; what it cannot read it refuses.
            warnings.filterwarnings("ignore", "Detected pickle protocol")
            return torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file can fail in any way
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(
            f"{file} must hold tensors only, written by torch.save, but: {reason}"
        ) from error


def _tensors(content: Any, file: Path) -> dict[str, Tensor]:
    inner = _wrapped(content)
    while inner is not None:
        content, inner = inner, _wrapped(inner)
    values = content.values() if isinstance(content, dict) else ()
    tensors_only = len(values) > 0 and all(isinstance(v, Tensor) for v in values)
    rule = f"hold tensors by name, or such a dictionary under one of {WRAPPERS}"
    require(tensors_only, str(file), rule, _described(content))
    return dict(content)


def _wrapped(content: Any) -> dict[str, Any] | None:
    """Return what lies under one of the usual names, if anything does."""
    named = content if isinstance(content, dict) else {}
    values = (named.get(name) for name in WRAPPERS)
    return next((value for value in values if isinstance(value, dict)), None)


def _described(content: Any) -> str:
    if not isinstance(content, dict):
        return type(content).__name__
    kinds = {name: type(value).__name__ for name, value in list(content.items())[:4]}
    return f"a dictionary of {len(content)}: {kinds}"
