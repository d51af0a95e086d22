r"""The trace of the loss's Hessian, by Hutchinson's estimator.

.. math::
    \operatorname{tr} H = \mathbb{E}_v \, v^\top H v, \qquad
    H = \nabla^2_\theta L(\theta), \quad v_j = \pm 1,

unbiased, with variance :math:`2 \sum_{i \ne j} H_{ij}^2` per probe. Each product
:math:`v^\top H_j v` of a sample comes from forward differentiation alone, so that the
standard error covers probes and samples.

Differs from the released code: a fixed number of probes and a standard error in place
of a stop at a small change.

References:
    Hutchinson, A Stochastic Estimator of the Trace of the Influence Matrix, 1990.
"""

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from tepui.core.checks import require
from tepui.losses import Loss, cross_entropy
from tepui.modules.running import undisturbed
from tepui.sharpness.measurement import Measurement, crossed_mean_of
from tepui.sharpness.noise import signs_like, stream_or_default
from tepui.sharpness.selection import Data, name_of, select
from tepui.sharpness.weights import Masks, WeightVector, curvature_along


def hessian_trace(
    model: nn.Module,
    data: Data,
    *,
    loss: Loss = cross_entropy,
    probes: int = 20,
    masks: Masks | None = None,
    num_samples: int | None = 500,
    batch_size: int = 100,
    generator: torch.Generator | None = None,
) -> Measurement:
    """Estimate the trace of the Hessian of the mean loss.

    Args:
        model: Any module; left as it was.
        data: A data set, or a loader that does not shuffle.
        loss: Returns one loss per sample.
        probes: How many vectors of random signs; each costs about four forward passes
            over the samples.
        masks: Boolean tensors by parameter name; the Hessian is that of the weights
            that are True.
        num_samples: How many samples; None takes every one.
        batch_size: Samples per pass; the value does not depend on it.
        generator: Draws samples and probes, where it lies; None draws the same ones
            at every call.

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
    require(probes > 0, "probes", "be positive", probes)
    stream = stream_or_default(generator)
    batches = select(
        model,
        data,
        loss,
        batch_size=batch_size,
        num_samples=num_samples,
        generator=stream,
    ).held()
    weights = WeightVector(model, loss)
    free = weights.scale(False, masks)

    def curvatures(way: Tensor) -> Tensor:
        parts = [
            curvature_along(weights.losses_on(batch), weights.vector, way)
            for batch in batches
        ]
        return torch.cat(parts)

    with undisturbed(model), sdpa_kernel(SDPBackend.MATH):
        ways = (free * signs_like(free, stream) for _ in range(probes))
        values = torch.stack([curvatures(way).detach() for way in ways])
    settings = {
        "measure": "hessian_trace",
        "loss": name_of(loss),
        "probes": probes,
        "masked": weights.masked(masks),
        **batches.settings,
    }
    return crossed_mean_of(values, settings)
