"""Hashes by which tensors and weights are known again."""

import hashlib
from collections.abc import Mapping

from torch import Tensor, nn

from tepui.core.storage import raw_bytes


def tensors_hash(tensors: Mapping[str, Tensor]) -> str:
    """Return a hash of names, types, shapes and every bit of some tensors."""
    digest = hashlib.sha256()
    for name, tensor in tensors.items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(raw_bytes(tensor).numpy().data)
    return digest.hexdigest()


def weights_digest(module: nn.Module) -> str:
    """Return a hash of all weights and buffers."""
    return tensors_hash(dict(module.state_dict()))
