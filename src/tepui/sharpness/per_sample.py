r"""Other measures of how sharp a single sample is.

The SharpBalance paper scores samples by the trace of their Fisher matrix and names
these as alternatives; :math:`\ell_j` is the loss of sample :math:`j`, with BatchNorm
in eval mode throughout.

- :func:`sample_sam_gap`: the rise :math:`\ell_j(\theta + e_B) - \ell_j(\theta)` after
  the SAM perturbation :math:`e_B` of the sample's batch, so batches matter.
- :func:`sample_worst_case_gap`: the rise :math:`\max_{\lVert e \rVert \le \rho}
  \ell_j(\theta + e) - \ell_j(\theta)`, by projected gradient ascent for every sample.
- :func:`sample_hessian_trace`: :math:`\operatorname{tr} \nabla^2 \ell_j(\theta)`, by
  Hutchinson's estimator with the same Rademacher vectors for all samples.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import grad
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.data import Dataset

from tepui.core import foreach
from tepui.core.checks import require
from tepui.core.types import check_types
from tepui.data.arrays import Batch
from tepui.data.loading import in_order
from tepui.losses import Loss, cross_entropy
from tepui.modules.pruning import masks_of
from tepui.modules.running import (
    blocks,
    device_of,
    one_sample,
    over_samples,
    undisturbed,
)
from tepui.optim import sam_perturbation
from tepui.sharpness.measurement import select
from tepui.sharpness.weights import (
    Parameters,
    curvature_along,
    losses_at,
    signs_like,
    stream_or_default,
    trainable,
)

# Elements of one block of per-sample perturbations.
PERTURBATION_ELEMENTS = 2**26

Losses = Callable[[Parameters, Batch], Tensor]


def sample_sam_gap(
    model: nn.Module,
    dataset: Dataset[Any],
    *,
    rho: float = 0.05,
    loss: Loss = cross_entropy,
    batch_size: int = 256,
) -> Tensor:
    """Return each sample's rise in loss after its batch's SAM perturbation.

    Args:
        model: Any module; left unchanged.
        dataset: The samples.
        rho: Length of the perturbation.
        loss: Returns one loss per sample.
        batch_size: Samples that share a perturbation.

    Returns:
        Shape ``(samples,)``.
    """
    check_types(sample_sam_gap, locals())
    require(rho >= 0, "rho", "be non-negative", rho)
    alive = _masked_by(model)

    def rises(losses: Losses, batch: Batch) -> Tensor:
        here = trainable(model)
        slope = alive(grad(lambda values: losses(values, batch).mean())(here))
        offsets = sam_perturbation(list(here.values()), list(slope.values()), rho)
        pairs = zip(here.items(), offsets, strict=True)
        moved = {name: value + offset for (name, value), offset in pairs}
        return losses(moved, batch) - losses(here, batch)

    return _over_batches(model, dataset, loss, batch_size, rises)


def sample_worst_case_gap(
    model: nn.Module,
    dataset: Dataset[Any],
    *,
    rho: float = 0.05,
    num_steps: int = 5,
    loss: Loss = cross_entropy,
    batch_size: int = 256,
) -> Tensor:
    """Return each sample's largest rise in loss within a ball around the weights.

    Args:
        model: Any module; left unchanged.
        dataset: The samples.
        rho: Radius of the ball.
        num_steps: Steps of ascent, each of length ``2 * rho / num_steps``.
        loss: Returns one loss per sample.
        batch_size: Samples per pass; the result does not depend on it.

    Returns:
        Shape ``(samples,)``: the highest rise seen on the way, at least zero.
    """
    check_types(sample_worst_case_gap, locals())
    require(rho >= 0, "rho", "be non-negative", rho)
    require(num_steps > 0, "num_steps", "be positive", num_steps)
    alive = _masked_by(model)

    def rises(losses: Losses, batch: Batch) -> Tensor:
        here = trainable(model)

        def one(inputs: Any, target: Tensor, index: Tensor) -> Tensor:
            sample = Batch(one_sample(inputs), target[None], index[None])

            def value(offsets: Parameters) -> Tensor:
                moved = {n: (p + offsets[n]).to(p.dtype) for n, p in here.items()}
                return losses(moved, sample)[0]

            zeros = foreach.wide(torch.zeros_like(p) for p in here.values())
            offsets = dict(zip(here, zeros, strict=True))
            start = value(offsets)
            best = torch.zeros_like(start)
            for _ in range(num_steps):
                slope = alive(grad(value)(offsets))
                length = 2 * rho / num_steps / (_norm(slope) + 1e-12)
                offsets = {n: offsets[n] + length * slope[n] for n in offsets}
                shrink = (rho / (_norm(offsets) + 1e-12)).clamp(max=1.0)
                offsets = {name: shrink * offset for name, offset in offsets.items()}
                best = torch.maximum(best, value(offsets) - start)
            return best

        size = max(1, PERTURBATION_ELEMENTS // sum(p.numel() for p in here.values()))
        parts = blocks(batch, size)
        gaps = [over_samples(one, p.inputs, p.targets, p.index) for p in parts]
        return torch.cat(gaps)

    return _over_batches(model, dataset, loss, batch_size, rises)


def sample_hessian_trace(
    model: nn.Module,
    dataset: Dataset[Any],
    *,
    num_probes: int = 10,
    loss: Loss = cross_entropy,
    batch_size: int = 100,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Estimate the trace of each sample's Hessian.

    Args:
        model: Any module; left unchanged.
        dataset: The samples.
        num_probes: How many Rademacher vectors.
        loss: Returns one loss per sample.
        batch_size: Samples per pass; the result does not depend on it.
        generator: Draws the probes, on the CPU; None always draws the same ones.

    Returns:
        Shape ``(samples,)``. Unbiased; the same probes serve all samples.
    """
    check_types(sample_hessian_trace, locals())
    require(num_probes > 0, "num_probes", "be positive", num_probes)
    alive, stream = _masked_by(model), stream_or_default(generator)
    vectors = [
        alive({name: signs_like(p, stream) for name, p in trainable(model).items()})
        for _ in range(num_probes)
    ]

    def curvatures(losses: Losses, batch: Batch) -> Tensor:
        here = trainable(model)

        def along(direction: Parameters) -> Tensor:
            return curvature_along(lambda v: losses(v, batch), here, direction)

        return torch.stack([along(vector) for vector in vectors]).mean(0)

    return _over_batches(model, dataset, loss, batch_size, curvatures)


def _over_batches(
    model: nn.Module,
    dataset: Dataset[Any],
    loss: Loss,
    batch_size: int,
    measure: Callable[[Losses, Batch], Tensor],
) -> Tensor:
    """Run a measure over all batches, with losses as a function of the parameters."""
    require(batch_size > 0, "batch_size", "be positive", batch_size)
    select(model, dataset, loss, batch_size, pixels=True)  # refuses what does not fit
    losses = losses_at(model, loss)
    batches = in_order(dataset, batch_size, device=device_of(model))
    with undisturbed(model), sdpa_kernel(SDPBackend.MATH):
        return torch.cat([measure(losses, batch).detach() for batch in batches])


def _masked_by(model: nn.Module) -> Callable[[Parameters], Parameters]:
    """Return what sets the values of pruned weights to zero."""
    masks = masks_of(model)

    def alive(values: Parameters) -> Parameters:
        return {n: v * masks[n] if n in masks else v for n, v in values.items()}

    return alive


def _norm(values: Parameters) -> Tensor:
    return torch.stack([value.square().sum() for value in values.values()]).sum().sqrt()
