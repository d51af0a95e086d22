r"""The trace of the loss's Hessian, by Hutchinson's estimator.

.. math::
    \operatorname{tr} H = \mathbb{E}_v \, v^\top H v, \qquad
    H = \nabla^2_\theta L(\theta), \quad v_j = \pm 1,

unbiased, with variance :math:`2 \sum_{i \ne j} H_{ij}^2` per probe. Each sample has
its own product :math:`v^\top H_j v`, so that the standard error covers probes and
samples.

Differs from the released code: a fixed number of probes and a standard error instead
of stopping at a small change.

References:
    Hutchinson, A Stochastic Estimator of the Trace of the Influence Matrix, 1990.
"""

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from tepui.core.checks import require
from tepui.core.types import check_types
from tepui.losses import Loss, cross_entropy
from tepui.modules.running import undisturbed
from tepui.sharpness.measurement import Measurement, crossed_mean_of
from tepui.sharpness.noise import curvatures_along, signs_like, stream_or_default
from tepui.sharpness.selection import Data, select
from tepui.sharpness.weights import Masks, WeightVector


def hessian_trace(
    model: nn.Module,
    dataset: Data,
    *,
    loss: Loss = cross_entropy,
    num_probes: int = 20,
    masks: Masks | None = None,
    num_samples: int | None = 500,
    batch_size: int = 100,
    generator: torch.Generator | None = None,
) -> Measurement:
    """Estimate the trace of the Hessian of the mean loss.

    Args:
        model: Any module; left unchanged.
        dataset: A data set, or a loader that does not shuffle.
        loss: Returns one loss per sample.
        num_probes: How many vectors of random signs; each costs about twenty
            forward passes over the samples.
        masks: Boolean tensors by parameter name; the Hessian is that of the weights
            that are True.
        num_samples: How many samples; None takes all.
        batch_size: Samples per pass; the value does not depend on it.
        generator: Draws samples and probes on its device; None always draws the same.

    Returns:
        A value, with its standard error over probes and samples. Away from a minimum
        it can be negative.

    Example:
        >>> from tepui.data import Arrays
        >>> data = Arrays(torch.tensor([[2.0]]), torch.zeros(1))
        >>> def half_square(outputs, targets):
        ...     return 0.5 * (outputs[:, 0] - targets).square()
        >>> hessian_trace(nn.Linear(1, 1, bias=False), data, loss=half_square).value
        4.0
    """
    check_types(hessian_trace, locals())
    require(num_probes > 0, "num_probes", "be positive", num_probes)
    stream = stream_or_default(generator)
    batches = select(model, dataset, loss, batch_size, num_samples, stream).held()
    weights = WeightVector(model, loss, masks=masks)
    free = weights.scale()
    with undisturbed(model), sdpa_kernel(SDPBackend.MATH):
        ways = (free * signs_like(free, stream) for _ in range(num_probes))
        rows = [curvatures_along(weights, batches, way) for way in ways]
    settings = batches.settings(
        "hessian_trace",
        probes=num_probes,
        masked=weights.masked,
    )
    return crossed_mean_of(torch.stack(rows), settings)
