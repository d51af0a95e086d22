"""What all losses share: one value per sample, and targets that fit the outputs."""

from typing import Protocol

from torch import Tensor

from tepui.core.checks import require


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
