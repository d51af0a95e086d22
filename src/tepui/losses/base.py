"""What all losses share: one value per sample, and targets that fit the outputs."""

from functools import lru_cache
from typing import Protocol

import torch
from torch import Tensor

from tepui.core.checks import have_values, require


class Loss(Protocol):
    """A callable ``(outputs, targets) -> (samples,)`` of per-sample losses."""

    def __call__(self, outputs: Tensor, targets: Tensor, /) -> Tensor:
        """Return one loss per sample."""


def check_outputs(outputs: Tensor) -> None:
    """Check that outputs are floating point."""
    floats = outputs.is_floating_point()
    require(floats, "outputs", "be floating point", outputs.dtype)


def like_outputs(targets: Tensor, outputs: Tensor) -> Tensor:
    """Return targets in the shape and type of outputs, refusing any other shape."""
    check_outputs(outputs)
    if targets.ndim == outputs.ndim - 1 and outputs.shape[1] == 1:
        targets = targets.unsqueeze(1)
    rule = f"have the shape of the outputs, {tuple(outputs.shape)}"
    require(targets.shape == outputs.shape, "targets", rule, tuple(targets.shape))
    return targets.to(outputs.dtype)


def mean_per_sample(losses: Tensor) -> Tensor:
    """Return the mean loss of each sample."""
    return losses if losses.ndim == 1 else losses.flatten(1).mean(1)


def numbers_like(values: tuple[float, ...], outputs: Tensor) -> Tensor:
    """Return numbers as a tensor of the outputs' type, where they lie."""
    # What is traced into a graph has no values, and must not be kept.
    tensor_of = _on if have_values() else _on.__wrapped__
    return tensor_of(tuple(values), outputs.dtype, outputs.device)


@lru_cache(maxsize=32)
def _on(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return numbers as a tensor, cached because copying to a GPU blocks."""
    return torch.tensor(values, dtype=dtype, device=device)
