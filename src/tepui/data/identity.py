"""Which data, and which tensors, something is of: hashes by which they are known."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.evenly_spaced import evenly_spaced
from tepui.core.spec import digest, document
from tepui.core.storage import raw_bytes
from tepui.data.arrays import Inputs
from tepui.data.loading import as_arrays, at_rows, length
from tepui.data.stored import StoredData

SAMPLES = 64


def tensors_hash(tensors: Mapping[str, Tensor]) -> str:
    """Return a hash of names, types, shapes and every bit of some tensors."""
    found = hashlib.sha256()
    for name, tensor in tensors.items():
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        found.update(raw_bytes(tensor).numpy().data)
    return found.hexdigest()


def samples_hash(inputs: Inputs, targets: Tensor) -> str:
    """Return a hash of inputs and their targets."""
    named = {"": inputs} if isinstance(inputs, Tensor) else inputs
    return tensors_hash({**named, "targets": targets})


def data_identity(dataset: Dataset[Any]) -> dict[str, Any]:
    """Return what tells a data set from another: type, length and content."""
    about = {"class": type(dataset).__qualname__, "samples": length(dataset)}
    if (arrays := as_arrays(dataset)) is not None:
        normalize = document(arrays.normalize)
        found = samples_hash(arrays.inputs, arrays.targets)
        return {**about, "sha256": found, "normalize": normalize}
    if isinstance(dataset, StoredData):
        return {**about, **dataset.identity(), "normalize": document(dataset.normalize)}
    return about


def data_digest(dataset: Dataset[Any]) -> str:
    """Return a hash of what tells a data set from another."""
    return digest(data_identity(dataset))


def fingerprint(dataset: Dataset[Any]) -> tuple[str, ...]:
    """Return hashes of some samples, evenly spaced, as a model sees them.

    Example:
        >>> from tepui.data import Arrays
        >>> data = Arrays(torch.eye(3), torch.arange(3))
        >>> same_data(fingerprint(data), fingerprint(data))
        True
    """
    rows = evenly_spaced(length(dataset), SAMPLES)
    (batch,) = at_rows(dataset, [rows], device=torch.device("cpu"))
    inputs = batch.inputs
    named = {"": inputs} if isinstance(inputs, Tensor) else inputs
    found = [hashlib.sha256() for _ in rows]
    for name, tensor in {**named, "targets": batch.targets}.items():
        about = f"{name} {tensor.dtype} {tuple(tensor.shape[1:])}".encode()
        values = raw_bytes(tensor).numpy().reshape(len(rows), -1)
        for one, bits in zip(found, values, strict=True):
            one.update(about)
            one.update(bits.data)
    return tuple(one.hexdigest()[:16] for one in found)


def same_data(first: Sequence[str], second: Sequence[str]) -> bool:
    """Return whether most of the samples of one fingerprint are in the other."""
    if not first or not second:
        return False
    return 2 * len({*first} & {*second}) > min(len({*first}), len({*second}))
