"""What is written down of a run: its settings, its data and where it was made."""

import dataclasses
import functools
import hashlib
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.provenance import command_line
from tepui.core.types import NEWER
from tepui.core.version import __version__
from tepui.data.loading import as_arrays, length
from tepui.data.stored import StoredData


def environment_of(device: torch.device) -> dict[str, Any]:
    """Return versions and hardware, for the record."""
    name = platform.processor() or platform.machine()
    program = Path(sys.argv[0]).name.replace("__main__.py", "tepui")
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
    return {
        "tepui": __version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "hardware": name,
        "command": command_line([program, *sys.argv[1:]]),
    }


def to_jsonable(value: Any) -> Any:
    """Return a hyperparameter in a form JSON can hold.

    Fields that do not count when values are compared are left out, and so are those
    marked as :data:`NEWER` that have their default: what was described before they
    existed keeps its description.

    Example:
        >>> from tepui.methods import SAM
        >>> to_jsonable(SAM(rho=0.2))["rho"]
        0.2
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        shown = {
            field.name: to_jsonable(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if field.compare and not _left_out(field, getattr(value, field.name))
        }
        return {"class": path_of(type(value)), **shown}
    if isinstance(value, functools.partial):
        arguments = {name: to_jsonable(item) for name, item in value.keywords.items()}
        if value.args:
            arguments["positional"] = to_jsonable(value.args)
        return {"class": to_jsonable(value.func), **arguments}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(name): to_jsonable(item) for name, item in value.items()}
    if isinstance(value, Sequence):
        return [to_jsonable(item) for item in value]
    if callable(value):
        return path_of(value if hasattr(value, "__qualname__") else type(value))
    return str(value)


def path_of(item: Any) -> str:
    """Return what tells a class or function from others: its path, if not tepui's.

    Example:
        >>> import collections
        >>> from tepui.methods import SAM
        >>> path_of(SAM), path_of(collections.Counter)
        ('SAM', 'collections.Counter')
    """
    module, name = item.__module__ or "", str(item.__qualname__)
    if module.partition(".")[0] in ("", "tepui"):
        return name
    # A spawned process knows the classes of its parent's script by another module.
    return f"{'__main__' if module == '__mp_main__' else module}.{name}"


def data_identity(dataset: Dataset[Any]) -> dict[str, Any]:
    """Return what tells a data set from another: type, length and content."""
    identity: dict[str, Any] = {
        "class": type(dataset).__qualname__,
        "samples": length(dataset),
    }
    arrays = as_arrays(dataset)
    if arrays is not None:
        digest = hashlib.sha256()
        inputs = arrays.inputs
        parts = [inputs] if isinstance(inputs, Tensor) else list(inputs.values())
        for tensor in (*parts, arrays.targets):
            flat = tensor.detach().cpu().contiguous().flatten()
            digest.update(flat.view(torch.uint8).numpy().data)
        identity["sha256"] = digest.hexdigest()
        identity["normalize"] = to_jsonable(arrays.normalize)
    elif isinstance(dataset, StoredData):
        identity |= dataset.identity()
        identity["normalize"] = to_jsonable(dataset.normalize)
    return identity


def _left_out(field: "dataclasses.Field[Any]", value: object) -> bool:
    return field.metadata == NEWER and value == field.default
