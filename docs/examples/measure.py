"""Norm of the gradient of the mean loss: small at the bottom of a valley.

tepui measure runs/mine --what sharpness --samples 100 --measures measure.gradient_norm
"""

import torch

from tepui.losses import cross_entropy
from tepui.modules import undisturbed
from tepui.sharpness import Measurement, WeightVector, select


def gradient_norm(
    model, dataset, loss=cross_entropy, num_samples=500, batch_size=500, generator=None
):
    """Return the norm over all trainable parameters, without a standard error."""
    batches = select(model, dataset, loss, batch_size, num_samples, generator)
    weights = WeightVector(model, loss)
    total = torch.zeros_like(weights.vector)
    with undisturbed(model):
        for batch in batches:
            losses = weights.losses_on(batch)
            total += torch.func.grad(lambda v, f=losses: f(v).sum())(weights.vector)
    value = float((total / batches.samples).norm())
    return Measurement(value, float("nan"), batches.settings("gradient_norm"))
