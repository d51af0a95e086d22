"""Ensembles of weights that another program trained, read without running anything.

A file is one of ``torch.save`` or safetensors. A folder is one of Hugging Face's
``save_pretrained`` or Trainer: one file of weights, or several with an index. A state
dict inside a larger dictionary, as Lightning and most training scripts write it, is
found by the usual names.

Programs put words before the names of a state dict: ``module.`` of parallel wrappers,
``model.`` or any other attribute of a Lightning module, ``_orig_mod.`` of compiled
ones, also in the middle. Which words they are follows from the module that the weights
are for. What SharpBalance's released code calls the parts of its ResNet-18 for CIFAR is
understood too.
"""

import argparse
import pathlib
import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tepui.core.checks import require
from tepui.core.storage import read_all
from tepui.ensembles.building import Factory, factories_for, made_by
from tepui.ensembles.ensemble import Ensemble
from tepui.models import ResNet18
from tepui.models.torchvision_weights import tensor_names
from tepui.modules.state import load_tensor_state

Weights = str | Path | Mapping[str, Tensor]
# Where a state dict lies in a larger dictionary; "module" in DeepSpeed's.
WRAPPERS = ("state_dict", "model_state_dict", "model", "net", "module", "weights")
# What a folder calls its weights, the first that is there.
IN_FOLDERS = ("model.safetensors", "pytorch_model.bin")
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
# Of torch.compile, FSDP and activation checkpointing, anywhere in a name.
MARKS = re.compile(r"\b(_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module)\.")
COUNTER = "num_batches_tracked"


def ensemble_of(
    weights: Sequence[Weights], factory: Factory | Sequence[Factory]
) -> Ensemble:
    """Build an ensemble whose members have weights that are there already.

    A file holds a state dict, saved by ``torch.save`` or as safetensors, alone or in a
    larger dictionary under one of the usual names, such as a Lightning checkpoint; a
    folder is one that Hugging Face's ``save_pretrained`` or Trainer wrote. Prefixes
    that wrappers add (``module.``, ``model.``, ``_orig_mod.``, any other that all
    weights share) are taken off. BatchNorm's counters of batches, which old
    checkpoints lack, may be missing. Nothing in a file is executed.

    Modules in memory need none of this: ``tepui.Ensemble([a.model, b.model])``.

    Args:
        weights: For each member a file, a folder or a state dict.
        factory: Returns a module that the weights fit; or one factory per member, where
            members differ in architecture.

    Returns:
        The ensemble, on the CPU.

    Raises:
        FileNotFoundError: If a file is not there.
        ValueError: If a file holds something other than tensors by name, holds the
            weights twice, or names or shapes do not fit; the first of each are listed.

    Example:
        >>> import tempfile
        >>> from torch import nn
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     files = [Path(folder) / name for name in ("a.pt", "b.pt")]
        ...     for file in files:
        ...         torch.save(nn.Linear(4, 3).state_dict(), file)
        ...     ensemble = ensemble_of(files, lambda: nn.Linear(4, 3))
        >>> ensemble.logits(torch.zeros(5, 4)).shape
        torch.Size([2, 5, 3])
    """
    single = isinstance(weights, str | Path | Mapping)
    require(not single, "weights", "be a list, one per member", type(weights).__name__)
    require(len(weights) > 0, "weights", "name at least one file", list(weights))
    modules = [made_by(make) for make in factories_for(factory, len(weights))]
    for number, (module, given) in enumerate(zip(modules, weights, strict=True)):
        where = f"weights[{number}]" if isinstance(given, Mapping) else str(given)
        state = given if isinstance(given, Mapping) else read_checkpoint(given)
        load_tensor_state(module, as_named_in(module, state, where), where)
    return Ensemble(modules)


def read_checkpoint(path: str | Path) -> dict[str, Tensor]:
    """Read the state dict in a file or folder."""
    place = Path(path)
    if place.is_dir():
        there = [place / name for name in IN_FOLDERS if (place / name).is_file()]
        rule = f"hold weights in one file: {' or '.join(IN_FOLDERS)}"
        require(bool(there), str(place), rule, "none")
        place = there[0]
    if not place.is_file():
        raise FileNotFoundError(f"{place} must be a file with a model's weights")
    whole = place.suffix == ".safetensors"
    return _tensors(read_all(place) if whole else _read_torch(place), place)


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
    """Return tensors by name, from under the usual names of larger dictionaries."""
    while isinstance(content, dict):
        under = (content.get(name) for name in WRAPPERS)
        inner = next((each for each in under if isinstance(each, dict)), None)
        if inner is None:
            break
        content = inner
    named = content if isinstance(content, dict) else {}
    kinds = {name: type(value).__name__ for name, value in [*named.items()][:4]}
    tensors_only = bool(named) and all(isinstance(v, Tensor) for v in named.values())
    rule = f"hold tensors by name, or such a dictionary under one of {WRAPPERS}"
    require(tensors_only, str(file), rule, kinds or type(content).__name__)
    return dict(named)


def as_named_in(
    module: nn.Module, state: Mapping[str, Tensor], where: str
) -> dict[str, Tensor]:
    """Return a state by a module's names; what does not fit keeps its own.

    Counters of batches, which torch before 0.4.1 did not save, are the module's if they
    are missing.
    """
    present = module.state_dict()
    ours = {MARKS.sub("", name): name for name in present}
    unmarked = {MARKS.sub("", name): tensor for name, tensor in state.items()}
    theirs = _released_by_name(unmarked, module)
    shapes = {
        name: present[own].shape
        for name, own in ours.items()
        if not name.endswith(COUNTER)
    }
    prefix = _prefix(shapes, theirs, where)
    fitted = {
        ours.get(rest, rest): tensor
        for rest, tensor in (
            (name.removeprefix(prefix), tensor)
            for name, tensor in theirs.items()
            if name.startswith(prefix)
        )
    }
    return {n: t for n, t in present.items() if n.endswith(COUNTER)} | fitted


def _prefix(
    shapes: Mapping[str, torch.Size], theirs: Mapping[str, Tensor], where: str
) -> str:
    """Return what stands before a module's names in a state."""
    found = Counter(
        name.removesuffix(own)
        for name in theirs
        for own in shapes
        if f".{name}".endswith(f".{own}")
    )
    fitting = [
        prefix
        for prefix in found
        if all(
            prefix + name in theirs and theirs[prefix + name].shape == shape
            for name, shape in shapes.items()
        )
    ]
    if "" in fitting or not found:
        return ""
    rule = "hold the weights once (give the state dict that is meant)"
    require(len(fitting) < 2, where, rule, f"them under each of {sorted(fitting)}")
    return fitting[0] if fitting else found.most_common(1)[0][0]


def _released_by_name(
    state: Mapping[str, Tensor], module: nn.Module
) -> Mapping[str, Tensor]:
    """Return tensors of the released ResNet-18 by the names of ours, others as is."""
    if not isinstance(module, ResNet18):
        return state
    released = tensor_names(module.state_dict(), module.released_names())
    ours = {theirs: name for name, theirs in released.items()}
    first = next(iter(ours))
    before = [name.removesuffix(first) for name in state if name.endswith(first)]
    prefix = min(before, key=len, default="")
    return {
        prefix + ours[rest] if (rest := name.removeprefix(prefix)) in ours else name: t
        for name, t in state.items()
    }
